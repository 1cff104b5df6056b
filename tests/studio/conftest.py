"""A small graph in files, and a project with it."""

import numpy as np
import pytest

from mtgcn.errors import InputError
from mtgcn.io.options import TableOptions
from mtgcn.studio.fitting import FitOptions, Progress
from mtgcn.studio.project import Project
from mtgcn.studio.state import Studio

NODES, CLASSES = 36, ("cat", "dog", "eel")


def true_class(node: str) -> str:
    return CLASSES[int(node.removeprefix("n")) % len(CLASSES)]


@pytest.fixture
def truth():
    """The class of a node by its id."""
    return true_class


@pytest.fixture
def quick():
    """Options of a fit that takes a moment."""
    return FitOptions("gcn", ["epochs=20"], folds=0)


@pytest.fixture
def quick_plus():
    """Options of a short fit with peers."""
    return FitOptions(settings=["infomax_epochs=3"], folds=0)


@pytest.fixture
def files(tmp_path):
    """Edges mostly within classes, and a node table with two informative columns and a text."""
    random = np.random.default_rng(0)
    folder = tmp_path / "given"
    folder.mkdir()
    sizes, colours = np.arange(NODES) % 3 + 0.2 * random.standard_normal(NODES), ("red", "blue", "green")
    rows = [f'n{node},{sizes[node]:.3f},{colours[node % 3]},"note,{node}"\n' for node in range(NODES)]
    (folder / "nodes.csv").write_text("id,size,colour,note\n" + "".join(rows), encoding="utf-8")
    pairs = {(a, b) for a in range(NODES) for b in range(a) if (a - b) % 3 == 0 and random.random() < 0.3}
    pairs |= {(a, (a + 1) % NODES) for a in range(0, NODES, 6)}
    lines = [f"n{a},n{b}\n" for a, b in sorted(pairs)]
    (folder / "edges.csv").write_text("source,target\n" + "".join(lines), encoding="utf-8")
    return TableOptions(edges=folder / "edges.csv", nodes=folder / "nodes.csv")


@pytest.fixture
def project(files, tmp_path):
    """A project with three classes and no labels."""
    opened = Project(tmp_path / "project")
    opened.load_files(files)
    for name in CLASSES:
        opened.add_class(name)
    return opened


@pytest.fixture
def labelled(project):
    """The project with two labels per class."""
    for node in ("n0", "n1", "n2", "n9", "n10", "n11"):
        project.label(node, true_class(node))
    return project


class IdleWorker:
    """A fit worker without a process, whose fits never end; counts how often one is started."""

    def __init__(self):
        self.progress, self.fits, self.refuses = Progress(), 0, False

    def prepare(self):
        pass

    def start(self):
        self.fits += 1
        if self.refuses:
            raise InputError("there is nothing to learn")
        self.progress = Progress("running")

    def cancel(self):
        self.progress = Progress("cancelled")


@pytest.fixture
def worker():
    return IdleWorker()


@pytest.fixture
def studio(project, worker):
    studio = Studio(project, worker)
    studio.map_patience = 60  # one round draws the map
    return studio
