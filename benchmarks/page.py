"""How long the page and the figure of a fit take, and how well maps preserve neighbourhoods.

python benchmarks/page.py            our page, figure and map
python benchmarks/page.py --others   also scikit-learn's t-SNE and, where it is installed, UMAP
python benchmarks/page.py --frames   only the frames per second of the map in headless Chromium, without a GPU
python benchmarks/page.py --json FILE
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import measuring
import numpy as np

from mtgcn import MutualTeachingClassifier, load
from mtgcn.linalg.layout_2d import layout_2d, nearest_rows
from mtgcn.report import fit_page
from mtgcn.report.charts import LIGHT, class_colours
from mtgcn.report.fit_page import map_rows

PER_CLASS = 20
ASKED, NEAR, ON_THE_MAP = 1000, 30, 10  # nodes asked; how many of their nearest on the map are among the nearest
ON_SCREEN = 20_000, 100_000, 1_000_000  # points whose frames are counted
# Draws a map from several places, and waits for the pixels of every frame. The page is loaded when the script ends.
FRAMES = """<!doctype html><style>:root{%s} body{margin:0} #map{height:700px}</style><div id="map"></div>
<script type="module">
%s
const count = %d, pixel = new Uint8Array(4);
const values = () => Float32Array.from({ length: count }, () => (Math.random() + Math.random() + Math.random()) / 3);
const options = { x: values(), y: values(), levels: [0.8, 0.5], about: () => [] };
const map = new NodeMap(document.getElementById("map"), options);
const bytes8 = (below) => Uint8Array.from({ length: count }, () => Math.random() * below);
map.fit();
map.colour(Uint16Array.from(bytes8(7)), bytes8(256), bytes8(1.001), ["a", "b", "c", "d", "e", "f", "g"]);
const timed = (act, times) => Array.from({ length: times }, (_, time) => {
  const began = performance.now();
  act(time);
  map.gl.readPixels(0, 0, 1, 1, map.gl.RGBA, map.gl.UNSIGNED_BYTE, pixel);
  return performance.now() - began;
}).sort((one, other) => one - other);
const [first] = timed(() => map.paint(), 1);
const paint = timed((time) => { map.look(0.5, 0.5, 1 + time / 20); map.paint(); }, 21);
const hover = timed((time) => map.nearest(0.4 + time / 100, 0.5, 1), 11);
document.title = `times ${first} ${paint[10]} ${paint[0]} ${hover[5]}`;
</script>"""

Layout = Callable[[np.ndarray], np.ndarray]


def main() -> None:
    arguments = measuring.arguments(__doc__, others=False, frames=False)
    _, facts = measuring.start(arguments)
    if arguments.frames:
        rows = [frames(count) for count in ON_SCREEN]
        measuring.show_table(rows)
        measuring.write_json(arguments.json, {"machine": facts, "rows": rows})
        return
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


def frames(count: int) -> dict[str, object]:
    """Frames per second of a map of 1280 x 700 pixels while it zooms, drawn in software."""
    browser = shutil.which("chromium") or shutil.which("google-chrome") or "chromium"
    script = (Path(fit_page.__file__).parent / "templates" / "node_map.js").read_text(encoding="utf-8")
    colours = "".join(f"--{name}:{one};" for name, one in LIGHT.items()) + "".join(
        f"--k{number}:{one};" for number, one in enumerate(class_colours(7)[0])
    )
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "frames.html"
        page.write_text(FRAMES % (colours, script, count), encoding="utf-8")
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader"]
        command = [browser, *options, f"--user-data-dir={folder}/profile", "--window-size=1280,800", "--dump-dom"]
        shown = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, check=True).stdout
    found = re.search(r"<title>times ([^<]*)", shown)
    assert found, "the browser did not draw the map"
    first, median, fastest, hover = map(float, found[1].split())
    per_second = {"median frames/s": round(1000 / median, 1), "fastest frames/s": round(1000 / fastest, 1)}
    return {"points": count, "first frame, ms": round(first), **per_second, "hover, ms": round(hover, 1)}


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
