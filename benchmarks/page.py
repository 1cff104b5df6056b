"""How long the page and the figure of a fit take, and how well the map keeps near nodes near, beside other layouts.

python benchmarks/page.py            our page, figure and map
python benchmarks/page.py --others   also scikit-learn's t-SNE and, where it is installed, UMAP
python benchmarks/page.py --json FILE
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import measuring
import numpy as np

from mtgcn import MutualTeachingClassifier, load
from mtgcn.linalg.layout_2d import layout_2d, nearest_rows
from mtgcn.report.fit_page import map_rows

PER_CLASS = 20
ASKED, NEAR, ON_THE_MAP = 1000, 30, 10  # nodes asked; how many of their nearest on the map are among the nearest

Layout = Callable[[np.ndarray], np.ndarray]


def main() -> None:
    arguments = measuring.arguments(__doc__, others=False)
    _, facts = measuring.start(arguments)
    layouts = {"map": layout_2d, **(others() if arguments.others else {})}
    rows = [row for name in ("cora", "pubmed") for row in measured(name, layouts)]
    measuring.show_table(rows)
    measuring.write_json(arguments.json, {"machine": facts, "rows": rows})


def measured(name: str, layouts: dict[str, Layout]) -> Iterator[dict[str, object]]:
    """Page, figure and every layout of one graph: seconds and, where there is such a thing, size and quality."""
    model = fitted(name)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        _, seconds = measuring.timed(model.report, page)
        yield _row(name, "page", seconds, kilobytes=round(page.stat().st_size / 1000))
    yield _row(name, "figure", measuring.timed(model.plot)[1])
    rows = map_rows(model, np.arange(model.graph_.num_nodes)).astype(np.float32)
    for title, layout in layouts.items():
        places, seconds = measuring.timed(layout, rows)
        yield _row(name, title, seconds, neighbours_kept=round(100 * kept(rows, places)))


def _row(
    dataset: str, what: str, seconds: float, kilobytes: object = "", neighbours_kept: object = ""
) -> dict[str, object]:
    found = {"dataset": dataset, "what": what, "seconds": round(seconds, 2)}
    return found | {"kB": kilobytes, "neighbours kept, %": neighbours_kept}


def fitted(name: str) -> MutualTeachingClassifier:
    graph = load(name)
    random = np.random.default_rng(0)
    labels = np.full(graph.num_nodes, -1)
    for number in range(graph.num_classes):
        labels[random.choice(np.flatnonzero(graph.labels == number), PER_CLASS, replace=False)] = number
    return MutualTeachingClassifier("mt-gcn", random_state=0).fit_graph(replace(graph, labels=labels))


def others() -> dict[str, Layout]:
    from sklearn.manifold import TSNE

    found: dict[str, Layout] = {"t-SNE of scikit-learn": TSNE(random_state=0).fit_transform}
    try:
        from umap import UMAP
    except ImportError:
        return found
    return found | {"UMAP": UMAP(random_state=0).fit_transform}


def kept(rows: np.ndarray, places: np.ndarray) -> float:
    """The share of a node's nearest on the map that are among its nearest indeed."""
    asked = np.random.default_rng(1).choice(len(rows), ASKED, replace=False)
    near, shown = nearest_rows(rows, NEAR)[asked], nearest_rows(places.astype(np.float32), ON_THE_MAP)[asked]
    return float(np.mean([np.isin(found, true).mean() for found, true in zip(shown, near, strict=True)]))


if __name__ == "__main__":
    main()
