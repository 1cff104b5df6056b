"""Silent mistakes: changes of the input that must not change the result, and those that must be noticed.

Timestamps, copies of the label, header guesses, spellings of classes and links in model folders.
"""

import json
import os
import shutil
import unicodedata
import warnings

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from fuzz.case import require, run_command
from fuzz.models import USES, model_of
from mtgcn import Graph, read_graph
from mtgcn.errors import GraphNote, InputError

NODES = 24


def random_case(random):
    return random.choice(KINDS)(random)


def _timestamps(random):
    return timestamps_case(random.choice((0.0, 1.7e9, 1.7e12, -2e9, 4e9)), 10 ** random.uniform(0, 6), random.random())


def timestamps_case(start, step, part):
    """Seconds since 1970 are as informative as seconds since the first row, in CSV as in Parquet."""

    def case(folder):
        seconds = np.round(step * (np.arange(NODES) + part * (np.arange(NODES) % 3)))
        found = []
        for offset, suffix in ((0.0, ".csv"), (start, ".csv"), (start, ".parquet")):
            path = folder / f"nodes{suffix}"
            table = {"id": [f"n{node}" for node in range(NODES)], "time": seconds + offset}
            if suffix == ".csv":
                rows = zip(*table.values(), strict=True)
                path.write_text("id,time\n" + "".join(f"{node},{time:.0f}\n" for node, time in rows), encoding="utf-8")
            else:
                parquet.write_table(pa.table(table), path)
            found.append(np.asarray(read_graph(nodes=path, knn=2).features))
        for other in found[1:]:
            require(other.shape == found[0].shape, f"{other.shape[1]} columns")
            require(np.allclose(other, found[0], atol=1e-3), "other features")

    return case


def _copies(random):
    return copy_case(random.choice(COPIES), random.choice(("grade", "is_done", "Größe")), random.getrandbits(32))


def copy_case(kind, name, seed=0):
    """A column that copies the labels is named in a warning and left out of the expected accuracy; noise is not."""

    def case(folder):
        random = np.random.default_rng(seed)
        lines, labels = [f"id,size,{name}"], ["id,label"]
        for node in range(60):
            label = "ab"[node % 2]
            values = {
                "filled where labels are": "xyz"[node % 3] if node < 30 else "",
                "of noise": random.choice([*"pqr"]),
            }
            lines.append(f"n{node},{random.normal():.3f},{values.get(kind, label.upper())}")
            labels += [f"n{node},{label}"] if node < 30 else []
        (folder / "nodes.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (folder / "labels.csv").write_text("\n".join(labels) + "\n", encoding="utf-8")
        options = ["--nodes", "nodes.csv", "--knn", "5", "--labels", "labels.csv", "--method", "logistic"]
        summary = json.loads(run_command(["fit", *options, "--out", "model", "--json"]))
        warned = any(f"'{name}'" in line for line in summary["warnings"])
        require(warned == (kind != "of noise"), f"warnings {summary['warnings']}")
        require(summary["expected_accuracy"]["accuracy"] < 0.9, "an accuracy that only a copy explains")

    return case


WORDS = ("root", "leaf", "anna", "ben", "x1", "n7", "12", "3.5", "source", "id", "Köln", "a b")


def _headers(random):
    names = random.sample(WORDS[:8], 5) if random.random() < 0.7 else [f"n{number}" for number in range(5)]
    if "root" not in names and random.random() < 0.3:
        names[0] = "root"
    return header_case(names, header=random.random() < 0.5, listed=random.random() < 0.5)


def header_case(names, header, listed):
    """A first line of known nodes is an edge, and one of column names is not."""

    def case(folder):
        # Without a list of the nodes, a name that occurs in the first line alone may be that of a column.
        ends = [(0, 1), (2, 1), (3, 2), (4, 3), (int(listed), 4)]
        pairs = [(names[one], names[other]) for one, other in ends]
        lines = [["source", "target"]] * header + pairs
        (folder / "edges.csv").write_text("".join(f"{one},{other}\n" for one, other in lines), encoding="utf-8")
        files = {"edges": folder / "edges.csv"}
        if listed:
            nodes = "".join(f"{name},{number}\n" for number, name in enumerate(names))
            (folder / "nodes.csv").write_text("id,size\n" + nodes, encoding="utf-8")
            files["nodes"] = folder / "nodes.csv"
        graph = read_graph(**files)
        require(graph.num_nodes == 5 and graph.num_edges == 5, f"{graph.num_nodes} nodes, {graph.num_edges} edges")
        require(set(graph.node_ids.tolist()) == set(names), f"nodes {graph.node_ids.tolist()}")

    return case


CLASSES = ("-1", "0", "1", "1.0", "01", "2", "9", "10", "yes", "Yes", "cat", "Cat", "é", "e\u0301", "a\u200bb", "ab")
MISSING = ("nan", "?", "", "NA")


def _spellings(random):
    return spelling_case(random.sample((*CLASSES, *MISSING), random.choice((2, 3, 4))))


def spelling_case(names):
    """Files and lists of texts give the same classes; look-alikes and missing values are noted."""

    def case(folder):
        cells = [names[node % len(names)] for node in range(NODES)]
        (folder / "edges.csv").write_text(
            "source,target\n" + "".join(f"n{node},n{(node + 1) % NODES}\n" for node in range(NODES)), encoding="utf-8"
        )
        rows = "".join(f"n{node},{cell}\n" for node, cell in enumerate(cells))
        (folder / "labels.csv").write_text("id,label\n" + rows, encoding="utf-8")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", GraphNote)
            graph = read_graph(edges=folder / "edges.csv", labels=folder / "labels.csv")
        notes = " ".join(str(one.message) for one in caught)
        cells = [cells[int(node[1:])] for node in graph.node_ids]
        present = {name for name in names if name not in MISSING}
        read = [graph.class_names[label] if label >= 0 else None for label in graph.labels]
        known = [cell in present for cell in cells]
        require([label is not None for label in read] == known, f"classes {graph.class_names} of {names}")
        groups = {cell: label for cell, label in zip(cells, read, strict=True) if label is not None}
        same = {"1", "1.0"} if not {"01", "1.0"} <= present else set()  # one number, unless another spelling matters
        require(len(set(groups.values())) >= len(present - same), f"classes {graph.class_names} of {names}")
        plain = {_plain(name) for name in graph.class_names}
        require(len(plain) == graph.num_classes or "look" in notes or "differ" in notes, f"no note on {names}")
        if present != set(names) - {""}:
            require(notes, f"no note on missing values among {names}")
        if all(known) and graph.num_classes > 1:
            by_list = Graph.from_scipy(graph.adjacency, y=cells)
            require(by_list.class_names == graph.class_names, f"{by_list.class_names} from a list")

    return case


def _plain(name):
    letters = unicodedata.normalize("NFKC", name).casefold()
    return "".join(letter for letter in letters if unicodedata.category(letter) != "Cf")


def _links(random):
    names = (".replacement", "report.html", "card.json", "graph.safetensors", ".mtgcn.lock", "more", "more/inner")
    return link_case(random.choice(names), random.choice(("file", "folder", "nowhere")), random.choice(list(USES)))


def link_case(name, target, use):
    """Every use of a model with a link in its folder leaves the target alone, and those that write refuse."""

    def case(folder):
        outside = folder / "outside"
        outside.mkdir()
        for content in ("report.html", "card.json", "notes.txt"):
            (outside / content).write_text("precious", encoding="utf-8")
        model = folder / "model"
        shutil.copytree(model_of("lp") / "model", model)
        link = model / name
        link.parent.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to({"file": outside / "notes.txt", "folder": outside, "nowhere": folder / "nowhere"}[target])
        try:
            USES[use](folder)
        except InputError as refusal:
            require("\n" not in str(refusal), "a message of several lines")
        else:
            require(use not in ("page", "label"), "a model with a link was written to")
        contents = {path.name: path.read_text(encoding="utf-8") for path in outside.iterdir()}
        require(contents == dict.fromkeys(("report.html", "card.json", "notes.txt"), "precious"), f"{contents} outside")
        require(not os.path.lexists(folder / "nowhere"), "a file at the end of a link")

    return case


KINDS = (
    *(_timestamps, _timestamps, _copies, _headers, _headers, _headers),
    *(_spellings, _spellings, _spellings, _links, _links, _links),
)
COPIES = ("filled where labels are", "that copies the labels", "of noise")
SPELLINGS = (["-1", "0", "1"], ["10", "9", "2"], ["1.0", "1", "x"], ["é", "e\u0301"], ["cat", "Cat"])
SPELLINGS += (["a\u200bb", "ab"], ["nan", "a", "b"])
NUMBERED = ["root", "n1", "n2", "n3", "n4"]
REGRESSIONS = {
    "seconds as numbers": timestamps_case(1.7e9, 100, 0.5),
    "milliseconds as numbers": timestamps_case(1.7e12, 1, 0.5),
    **{f"a column {kind}": copy_case(kind, "grade") for kind in COPIES},
    "no header": header_case(NUMBERED, header=False, listed=False),
    "no header, nodes listed": header_case(NUMBERED, header=False, listed=True),
    "a header": header_case(["anna", "ben", "x1", "n7", "leaf"], header=True, listed=False),
    **{f"classes {names}": spelling_case(names) for names in SPELLINGS},
    **{
        f"{name} is a link, {use}": link_case(name, "folder", use)
        for name in (".replacement", "more")
        for use in ("label", "page", "answers")
    },
    "report.html is a link": link_case("report.html", "file", "page"),
    ".mtgcn.lock is a link": link_case(".mtgcn.lock", "file", "label"),
}
