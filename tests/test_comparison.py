"""`mtgcn.compare`, as a notebook calls it."""

import json
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import LinearSVC

import mtgcn
from mtgcn import MutualTeachingClassifier
from mtgcn.errors import InputError
from mtgcn.methods import create
from mtgcn.splits import Split, draw_splits
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
    assert results._repr_html_().count("<tr") == 3


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
    assert (listed.comparison.cells[0].method, listed.comparison.cells[0].accuracy) == (
        "lp",
        results.comparison.cells[2].accuracy,
    )


def test_few_scored_nodes_warn(make_graph):
    with pytest.warns(UserWarning, match="scored on 24 nodes, fewer than 30"):
        mtgcn.compare(make_graph(nodes=30), methods=["lp"], labels_per_class=2, runs=1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"methods": "gcn"}, r"methods='gcn' is a string; give a list, \['gcn'\]"),
        ({"methods": [Favourite(), Favourite(1)]}, "two methods are called 'Favourite'; give a mapping"),
        ({"methods": ["lpp"]}, "unknown method 'lpp'; did you mean 'lp'"),
        ({"methods": []}, "0 methods to compare"),
        ({"labels_per_class": None}, "need a number of labels"),
        ({"device": "gpu"}, "unknown device 'gpu'"),
        ({"seed": 1_000_002}, "seed 1000002 is reserved for"),
        ({"graph": [[0, 1], [1, 0]]}, "graph is a list; give a PyG Data, or a Graph that holds labels"),
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


def test_name_for_captions(graph):
    results = mtgcn.compare(graph, ["lp"], labels_per_class=2, runs=1, name="Karate club")
    assert results.table().startswith("Accuracy % on Karate club, 2 labels per class")
    assert "Karate club" in results.to_latex()


TRAIN = [[0, 1, 2], [3, 4, 5]]
MASKS = np.zeros((90, 2), dtype=bool)
MASKS[[0, 1, 2], 0] = MASKS[[3, 4, 5], 1] = True


@pytest.mark.parametrize(
    "split",
    [
        TRAIN,
        np.array(TRAIN),
        [Split(train, [], np.setdiff1d(np.arange(90), train)) for train in TRAIN],
        [{"train": MASKS[:, 0]}, {"train": torch.from_numpy(MASKS[:, 1])}],
        [(train, np.setdiff1d(np.arange(90), train)) for train in TRAIN],
        ((train, np.setdiff1d(np.arange(90), train)) for train in TRAIN),
        [(MASKS[:, run], [], ~MASKS[:, run]) for run in range(2)],
        MASKS,
        {"train": MASKS},
        (MASKS, ~MASKS),
    ],
    ids=lambda split: type(split).__name__,
)
def test_given_splits(graph, split, tmp_path):
    path = tmp_path / "splits.json"
    path.write_text(json.dumps([{"train": train} for train in TRAIN]))
    cell = mtgcn.compare(graph, ["lp"], split=split).comparison.cells[0]
    assert cell.accuracy == mtgcn.compare(graph, ["lp"], split=path).comparison.cells[0].accuracy
    assert (cell.runs, cell.labels_per_class, cell.split) == (2, 1, "given")


@pytest.mark.parametrize("split", [TRAIN[0], np.array(TRAIN[0]), MASKS[:, 0], {"train": TRAIN[0]}], ids=str)
def test_single_given_split_is_repeated(graph, split):
    assert mtgcn.compare(graph, ["lp"], split=split, runs=3).comparison.cells[0].runs == 3
    assert "1 label per class, given splits, 3 runs" in mtgcn.compare(graph, ["lp"], split=split, runs=3).table()


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ([[0, 1, 90]], "node 90 of a split; the graph has nodes 0 to 89"),
        ([np.array([0.5, 1.0])], "'train' of a split holds '0.5'; give node numbers or a mask"),
        ([np.zeros(7, dtype=bool)], "'train' of a split is a mask of 7 nodes; the graph has 90"),
        ([{"train": [0], "val": [1]}], "unknown part of a split 'val'"),
        ([([0], [1], [2], [3])], r"a split of 4 parts; give \(train, test\)"),
        ([], "0 splits; give at least 1"),
        ([[0, 1], [2, 89]], "training node 89 has no known class"),
    ],
    ids=str,
)
def test_invalid_splits(graph, split, message):
    graph = replace(graph, labels=np.where(np.arange(90) == 89, -1, graph.labels))
    with pytest.raises(InputError, match=message):
        mtgcn.compare(graph, ["lp"], split=split)


def test_pyg_data(graph):
    pyg = pytest.importorskip("torch_geometric.data")
    ends = torch.from_numpy(np.stack(graph.adjacency.nonzero()).astype(np.int64))
    features, labels = torch.from_numpy(graph.features.toarray()), torch.from_numpy(graph.labels.astype(np.int64))
    masks = {"train_mask": torch.from_numpy(MASKS[:, 0]), "test_mask": torch.from_numpy(~MASKS[:, 0])}
    data = pyg.Data(x=features, edge_index=ends, y=labels, **masks)
    results = mtgcn.compare(data, ["lp"], labels_per_class=2, runs=2, name="blocks")
    assert results.comparison.cells[0].accuracy == mtgcn.compare(graph, ["lp"], 2, 2).comparison.cells[0].accuracy
    public = mtgcn.compare(data, ["lp"], split="public", runs=1).comparison
    assert (public.scored_nodes, public.cells[0].labels_per_class) == (87, 1)
    masked = mtgcn.compare(data, ["lp"], split=data.train_mask, runs=1).comparison
    assert masked.cells[0].accuracy == public.cells[0].accuracy


class OwnNetwork(torch.nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.linear = torch.nn.Linear(features, classes)

    def forward(self, x, edge_index):
        return self.linear(x)


@pytest.mark.slow
def test_estimators_and_networks_are_methods(graph):
    logistic = LogisticRegression(C=5)
    listed = [logistic, LinearSVC(), LabelSpreading, KNeighborsClassifier(1), MutualTeachingClassifier("sgc")]
    listed += [OwnNetwork(12, 3)]
    cells = mtgcn.compare(graph, listed, labels_per_class=3, runs=1).comparison.cells
    names = ["LogisticRegression", "LinearSVC", "LabelSpreading", "KNeighborsClassifier", "sgc", "OwnNetwork"]
    assert [cell.method for cell in cells] == names
    assert [cell.method for cell in cells if cell.accuracy.mean < 0.5] == []
    assert cells[0].settings == {"estimator": "LogisticRegression(C=5)"}
    [split] = draw_splits(graph, 3, 1, 0)
    predicted = logistic.fit(graph.features[split.train], graph.labels[split.train]).predict(graph.features)
    assert cells[0].accuracy.mean == pytest.approx((predicted == graph.labels)[split.test].mean())
    [network, sgc] = mtgcn.compare(graph, {"own": OwnNetwork, "sgc": "sgc"}, 3, 1).comparison.cells
    assert (network.method, sgc.accuracy) == ("own", cells[4].accuracy)


def test_estimator_does_not_know_every_class(graph):
    results = mtgcn.compare(graph, [LogisticRegression(), LinearSVC()], split=[[0, 2, 3, 5]])  # without class 1
    assert all(cell.accuracy.mean > 0.4 for cell in results.comparison.cells)
