"""`mtgcn.compare`, as a notebook calls it."""

from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
import pytest

import mtgcn
from mtgcn.errors import InputError
from mtgcn.methods import create
from mtgcn.task import Prediction


@dataclass(frozen=True)
class Favourite:
    """Predicts one class; inherits from nothing."""

    number: int = 0

    def fit(self, task):
        shares = np.zeros((task.runs, task.num_nodes, task.num_classes), dtype=np.float32)
        shares[:, :, self.number] = 1
        return Prediction(shares)


@pytest.fixture
def graph(make_graph):
    return replace(make_graph(nodes=90, easy=True), name="blocks")


@pytest.fixture
def results(graph):
    return mtgcn.compare(graph, methods=["lp", Favourite], labels_per_class=2, runs=3, seed=4)


def test_table(results):
    title, heading, lp, favourite, caption = results.table().splitlines()
    assert title == "Accuracy % on blocks, 2 labels per class, 3 runs"
    assert heading.split()[:2] == ["method", "mean"]
    assert "minus lp" in heading
    assert lp.startswith("lp ")
    # 28 of the 84 scored nodes are of each class.
    assert favourite.split()[:2] == ["Favourite", "33.3"]
    assert caption.startswith("seed 4, ")
    assert repr(results) == results.table()
    assert results._repr_html_().count("<tr>") == 3


def test_to_pandas(results):
    frame = results.to_pandas()
    assert frame.shape[0] == 6
    assert frame.groupby("method")["accuracy"].mean()["Favourite"] == pytest.approx(1 / 3)
    assert list(frame[frame.method == "lp"].run) == [0, 1, 2]
    assert set(frame.scored_nodes) == {84}


def test_latex_figure_and_page(results, tmp_path):
    text = results.to_latex(tmp_path / "table.tex")
    assert (tmp_path / "table.tex").read_text(encoding="utf-8") == text
    assert "Favourite & 33.3 " in text
    [axes] = results.plot().axes
    assert {"lp", "Favourite"} == {label.get_text() for label in axes.get_yticklabels()}
    page = results.report(tmp_path / "page.html")
    assert "Comparison of methods on blocks" in page.read_text(encoding="utf-8")
    assert results.to_dict()["reference"] == "lp"


def test_method_objects_and_names(graph):
    named = {"first": Favourite(), "second": Favourite(1), "propagation": create("lp", alpha=0.1)}
    results = mtgcn.compare(graph, named, labels_per_class=2, runs=1, reference="propagation")
    assert [cell.method for cell in results.comparison.cells] == list(named)
    assert results.comparison.cells[2].settings == {"alpha": 0.1}
    assert results.comparison.reference == "propagation"
    listed = mtgcn.compare(graph, [create("lp", alpha=0.1)], labels_per_class=2, runs=1)
    assert listed.comparison.cells[0].method == "lp"


def test_same_seed_same_numbers(graph, results):
    again = mtgcn.compare(graph, methods=["lp", "logistic"], labels_per_class=2, runs=3, seed=4)
    assert again.comparison.cells[0].accuracy == results.comparison.cells[0].accuracy


def test_few_scored_nodes_warn(make_graph):
    with pytest.warns(UserWarning, match="scored on 24 nodes, fewer than 30"):
        mtgcn.compare(make_graph(nodes=30), methods=["lp"], labels_per_class=2, runs=1)


def test_split_file(graph, tmp_path):
    path = tmp_path / "splits.json"
    path.write_text('[{"train": [0, 1, 2]}, {"train": [3, 4, 5]}]')
    assert mtgcn.compare(graph, ["lp"], split=path).comparison.cells[0].runs == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"methods": "gcn"}, r"methods is the text 'gcn'; give a list, \['gcn'\]"),
        ({"methods": [Favourite(), Favourite(1)]}, "two methods are called 'Favourite'; give a mapping"),
        ({"methods": ["lpp"]}, "unknown method 'lpp'; did you mean 'lp'"),
        ({"methods": []}, "0 methods to compare"),
        ({"labels_per_class": None}, "how many labels to draw"),
        ({"device": "gpu"}, "unknown device 'gpu'"),
        ({"seed": 1_000_002}, "seed 1000002 is kept for final figures"),
        ({"graph": [[0, 1], [1, 0]]}, "graph is a list; give a Graph that holds labels"),
    ],
)
def test_invalid_arguments(graph, given, message):
    with pytest.raises(InputError, match=message):
        mtgcn.compare(**{"graph": graph, "methods": ["lp"], "labels_per_class": 2, "runs": 1, **given})


def test_verbose(graph, monkeypatch):
    shown = []
    monkeypatch.setattr("mtgcn.report.progress.fitting_progress", lambda title: shown.append(title) or nullcontext())
    for verbose in (False, True):
        mtgcn.compare(graph, ["lp"], labels_per_class=2, runs=1, verbose=verbose)
        assert shown == ["lp on blocks"] * verbose
