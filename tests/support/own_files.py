"""A small graph in CSV files, for tests of commands."""

import csv

import numpy as np

NODES, CLASSES = 60, ("ant", "bee", "cat")
QUICK = ["--method", "mt-gcn", "--set", "warmup_epochs=20", "--set", "teaching_epochs=20", "--device", "cpu"]


def write_csv(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


def read_csv(path):
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


class OwnFiles:
    """A graph of three well separated classes as three CSV files; ids look like numbers with leading zeros."""

    def __init__(self, folder, make_graph, *, nodes=NODES, labelled=24):
        self.folder, self.out = folder, folder / "model"
        graph = make_graph(nodes=nodes, easy=True, sparse=False)
        self.truth = {f"{7 * node:04}": CLASSES[label] for node, label in enumerate(graph.labels)}
        self.ids = list(self.truth)
        edges = np.argwhere(np.triu(graph.adjacency.toarray()))
        self.edge_rows = [["source", "target"], *([self.ids[first], self.ids[second]] for first, second in edges)]
        self.node_rows = [
            ["id", *(f"f{number}" for number in range(graph.num_features))],
            *([name, *map(str, row)] for name, row in zip(self.ids, graph.features.tolist(), strict=True)),
        ]
        self.label_rows = [["id", "label"], *([name, self.truth[name]] for name in self.ids[:labelled])]
        self.write()

    def write(self):
        self.edges = write_csv(self.folder / "edges.csv", self.edge_rows)
        self.nodes = write_csv(self.folder / "nodes.csv", self.node_rows)
        self.labels = write_csv(self.folder / "labels.csv", self.label_rows)

    def write_labels(self, *rows):
        """A table of further labels."""
        return write_csv(self.folder / "more.csv", [["id", "label"], *rows])

    @property
    def options(self):
        return ["--edges", self.edges, "--nodes", self.nodes, "--labels", self.labels]

    @property
    def fit(self):
        """A quick fit without an accuracy estimate."""
        return ["fit", *self.options, *QUICK, "--folds", 0, "--out", self.out]

    def content(self):
        """The content of every file in the folder, lock files aside."""
        files = [path for path in self.folder.rglob("*") if path.is_file() and path.name != ".lock"]
        return {path.relative_to(self.folder): path.read_bytes() for path in files}

    def accuracy(self, model):
        return np.mean(model.transduction_ == list(self.truth.values()))
