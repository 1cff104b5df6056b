"""A small graph in files, as a person has it, and a project about it."""

import csv

import numpy as np
import pytest

from mtgcn.io.options import TableOptions
from mtgcn.studio.project import Project

NODES, CLASSES = 36, ("cat", "dog", "eel")


def class_of(node: str) -> str:
    """The truth, which the person knows who is simulated."""
    return CLASSES[int(node.removeprefix("n")) % len(CLASSES)]


@pytest.fixture
def truth():
    return class_of


@pytest.fixture
def files(tmp_path):
    """Edges within classes mostly, two columns that tell them apart, and a word for each node."""
    random = np.random.default_rng(0)
    folder = tmp_path / "given"
    folder.mkdir()
    with (folder / "nodes.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["id", "size", "colour", "note"])
        for node in range(NODES):
            size = node % 3 + 0.2 * random.standard_normal()
            table.writerow([f"n{node}", f"{size:.3f}", ("red", "blue", "green")[node % 3], f"note, number {node}"])
    pairs = {(a, b) for a in range(NODES) for b in range(a) if (a - b) % 3 == 0 and random.random() < 0.3}
    pairs |= {(a, (a + 1) % NODES) for a in range(0, NODES, 6)}
    with (folder / "edges.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["source", "target"])
        table.writerows((f"n{a}", f"n{b}") for a, b in sorted(pairs))
    return TableOptions(edges=folder / "edges.csv", nodes=folder / "nodes.csv")


@pytest.fixture
def project(files, tmp_path):
    """Loaded, with three classes and no label."""
    opened = Project.open(tmp_path / "project")
    opened.load_files(files)
    for name in CLASSES:
        opened.add_class(name)
    return opened


@pytest.fixture
def labelled(project):
    """Two labels of each class."""
    for node in ("n0", "n1", "n2", "n9", "n10", "n11"):
        project.label(node, class_of(node))
    return project
