"""How long the page and the figure of a fit take, and how well the map keeps near nodes near, beside other layouts.

python benchmarks/page.py            our page, figure and map
python benchmarks/page.py --others   also scikit-learn's t-SNE and, where it is installed, UMAP
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from mtgcn import MutualTeachingClassifier, load
from mtgcn.linalg.plane_layout import nearest_rows, plane_layout
from mtgcn.report.fit_view import map_rows

PER_CLASS = 20
ASKED, NEAR, ON_THE_MAP = 1000, 30, 10  # nodes asked; how many of their nearest on the map are among the nearest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--others", action="store_true")
    arguments = parser.parse_args()
    for name in ("cora", "pubmed"):
        model = fitted(name)
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "page.html"
            seconds = timed(lambda: model.report(page))[0]  # noqa: B023
            print(f"{name}: page {seconds:.1f} s, {page.stat().st_size / 1000:.0f} kB", flush=True)
        print(f"{name}: figure {timed(model.plot)[0]:.1f} s", flush=True)
        rows = map_rows(model, np.arange(model.graph_.num_nodes)).astype(np.float32)
        for title, layout in {"map": plane_layout, **(others() if arguments.others else {})}.items():
            seconds, places = timed(lambda: layout(rows))  # noqa: B023
            print(f"{name}: {title} {seconds:.1f} s, {100 * kept(rows, places):.0f} % of neighbours kept", flush=True)


def fitted(name: str) -> MutualTeachingClassifier:
    graph = load(name)
    random = np.random.default_rng(0)
    labels = np.full(graph.num_nodes, -1)
    for number in range(graph.num_classes):
        labels[random.choice(np.flatnonzero(graph.labels == number), PER_CLASS, replace=False)] = number
    return MutualTeachingClassifier("mt-gcn", random_state=0).fit_graph(replace(graph, labels=labels))


def others() -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    from sklearn.manifold import TSNE

    found: dict[str, Callable[[np.ndarray], np.ndarray]] = {"t-SNE of scikit-learn": TSNE(random_state=0).fit_transform}
    try:
        from umap import UMAP
    except ImportError:
        return found
    return found | {"UMAP": UMAP(random_state=0).fit_transform}


def timed(work: Callable[[], object]) -> tuple[float, object]:
    started = time.perf_counter()
    made = work()
    return time.perf_counter() - started, made


def kept(rows: np.ndarray, places: np.ndarray) -> float:
    """The share of a node's nearest on the map that are among its nearest indeed."""
    asked = np.random.default_rng(1).choice(len(rows), ASKED, replace=False)
    near, shown = nearest_rows(rows, NEAR)[asked], nearest_rows(places.astype(np.float32), ON_THE_MAP)[asked]
    return float(np.mean([np.isin(found, true).mean() for found, true in zip(shown, near, strict=True)]))


if __name__ == "__main__":
    main()
