"""Statistics of the datasets, from the real files."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn.datasets import NAMES, Description, describe, load, public_split, where
from mtgcn.datasets.catalogue import FINAL_TABLES, TABLES, repeated_nodes
from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.labels import UNLABELED

PLANETOID = ("cora", "citeseer", "pubmed")
WORLD = ("amazon-photo", "blogcatalog", "coauthor-cs", "dblp", "chameleon")
KINDS = ("minesweeper", "facebook-pages", "twitch-de", "airports-usa")


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        #            nodes  listed  edges  loops  classes  features  components  unlabelled  repeated  homophily
        ("cora", (2708, 5429, 5278, 0, 7, 1433, 78, 0, 52, 0.81)),
        ("citeseer", (3327, 4732, 4552, 124, 6, 3703, 438, 15, 60, 0.74)),
        ("pubmed", (19717, 44338, 44324, 3, 3, 500, 1, 0, 324, 0.80)),
        ("amazon-photo", (7650, 143663, 119081, 0, 8, 745, 136, 0, 8, 0.83)),  # listed in one direction or in both
        ("blogcatalog", (5196, 171743, 171743, 0, 6, 8189, 1, 0, 0, 0.40)),
        ("coauthor-cs", (18333, 81894, 81894, 0, 15, 6805, 1, 0, 39, 0.81)),
        ("dblp", (17716, 52867, 52867, 0, 4, 1639, 589, 0, 57, 0.83)),
        ("chameleon", (2277, 36101, 31371, 0, 5, 3132, 1, 0, 983, 0.23)),
        ("minesweeper", (10000, 39402, 39402, 0, 2, 7, 1, 0, 0, 0.68)),
        ("facebook-pages", (22470, 171002, 170823, 0, 4, 4714, 1, 0, 214, 0.89)),
        ("twitch-de", (9498, 153138, 153138, 0, 2, 3170, 1, 0, 10, 0.63)),
        ("airports-usa", (1190, 13599, 13599, 0, 4, 0, 3, 0, 9, 0.70)),
    ],
)
def test_counts(name, numbers):
    *counts, homophily = numbers
    assert describe(name) == Description(name, *counts, location=where(name))
    graph, edges = load(name), load(name).adjacency.tocoo()
    # Misplaced rows would agree with their neighbours by chance only.
    assert (graph.labels[edges.row] == graph.labels[edges.col]).mean() == pytest.approx(homophily, abs=0.005)


@pytest.mark.data
def test_citeseer_unlabelled_nodes():
    graph = load("citeseer")
    without_label = np.flatnonzero(graph.labels == UNLABELED)
    without_features = np.flatnonzero(np.diff(graph.features.indptr) == 0)
    assert len(without_label) == 15
    np.testing.assert_array_equal(without_label, without_features)
    # They fill the gaps of test.index, so all lie among the last 1015 nodes.
    split = public_split("citeseer")
    np.testing.assert_array_equal(without_label, np.setdiff1d(np.arange(2312, 3327), split.test))


@pytest.mark.data
@pytest.mark.parametrize(("name", "classes"), [("cora", 7), ("citeseer", 6), ("pubmed", 3)])
def test_public_split(name, classes):
    split, labels = public_split(name), load(name).labels
    np.testing.assert_array_equal(split.train, np.arange(20 * classes))
    np.testing.assert_array_equal(np.bincount(labels[split.train]), [20] * classes)
    np.testing.assert_array_equal(split.validation, np.arange(20 * classes, 20 * classes + 500))
    assert len(split.test) == 1000
    assert (labels[split.test] != UNLABELED).all()


@pytest.mark.data
def test_weights_are_one_and_features_raw():
    graphs = {name: load(name) for name in (*PLANETOID, *WORLD)}
    assert all(set(graph.adjacency.data) == {1.0} and sp.issparse(graph.features) for graph in graphs.values())
    assert {graph.features.dtype for graph in graphs.values()} == {np.dtype(np.float32)}
    binary = {name for name, graph in graphs.items() if set(graph.features.data) == {1.0}}
    assert binary == {"cora", "citeseer", "amazon-photo", "chameleon"}
    assert min(graphs[name].features.data.max() for name in ("blogcatalog", "coauthor-cs")) > 1  # counts
    lengths = np.sqrt(graphs["dblp"].features.power(2).sum(axis=1))
    np.testing.assert_allclose(lengths[lengths > 0], 1, rtol=1e-5)
    assert graphs["amazon-photo"].class_names[1] == "Digital Cameras"
    assert graphs["coauthor-cs"].class_names[9] == "game_theory"
    assert graphs["blogcatalog"].class_names == ("1", "2", "3", "4", "5", "6")


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "classes"),
    [
        ("minesweeper", {"0": 8000, "1": 2000}),
        ("facebook-pages", {"company": 6495, "government": 6880, "politician": 5768, "tvshow": 3327}),
        ("twitch-de", {"False": 3756, "True": 5742}),
        ("airports-usa", {"0": 297, "1": 297, "2": 297, "3": 299}),  # quartiles
    ],
)
def test_class_sizes(name, classes):
    graph = load(name)
    assert dict(zip(graph.class_names, np.bincount(graph.labels), strict=True)) == classes


@pytest.mark.data
def test_chameleon_pages_differ():
    """Its repeated nodes share neighbours and class, not features."""
    features = load("chameleon").features
    words = {features.indices[start:end].tobytes() for start, end in pairwise(features.indptr)}
    assert len(words) == 2277


@pytest.mark.data
def test_load_is_cached():
    assert load("cora") is load("cora")


def test_digits_need_no_files(cache):
    graph = load("digits")
    assert (graph.num_nodes, graph.num_features, graph.num_classes) == (1797, 64, 10)
    assert graph.mean_degree == pytest.approx(13.7, abs=0.05)
    assert np.diff(graph.adjacency.indptr).min() >= 10
    assert (graph.features.min(), graph.features.max()) == (0, 1)
    assert len(graph.known) == 1797
    assert describe("digits").self_loops == 0
    assert not cache.exists()


def test_digits_have_no_public_split():
    with pytest.raises(InputError, match=r"digits has no public split"):
        public_split("digits")


@pytest.mark.parametrize("function", [load, public_split, describe, where])
def test_unknown_name(function):
    with pytest.raises(InputError, match=r"unknown dataset 'citesere'; did you mean 'citeseer'"):
        function("citesere")


def test_where_does_not_fetch(cache):
    assert {where(name) for name in (*PLANETOID, *WORLD, *KINDS)} == {None}
    assert not cache.exists()
    digits = where("digits")
    assert digits is not None
    assert digits.is_dir()


def test_names():
    assert (*PLANETOID, "digits", *WORLD, *KINDS, *TABLES, *FINAL_TABLES) == NAMES


def joined(edges, labels):
    adjacency = np.zeros((len(labels), len(labels)))
    for one, other in edges:
        adjacency[one, other] = adjacency[other, one] = 1
    return Graph(adjacency, features=np.eye(len(labels)), labels=labels)  # features do not matter


def spokes(*labels):
    """Nodes 2, 3, … have the neighbours 0 and 1."""
    return joined([(hub, node) for hub in (0, 1) for node in range(2, len(labels) + 2)], [2, 3, *labels])


@pytest.mark.parametrize(
    ("graph", "repeated"),
    [
        (spokes(0, 0, 0), 2),
        (spokes(0, 0, 1, 1, 1), 3),
        (spokes(0, 1), 0),
        (spokes(-1, -1, 0), 0),  # unlabelled nodes do not count
        (joined([(0, 1), (0, 2), (0, 3)], [1, 0, 0, 0, 0, 0]), 0),  # nor do leaves and isolated nodes
        (joined([(0, 2), (1, 2), (0, 3), (1, 3), (3, 3)], [1, 2, 0, 0]), 1),  # self-loops do not matter
    ],
)
def test_repeated_nodes(graph, repeated):
    assert repeated_nodes(graph) == repeated


def test_datasets_of_pyg():
    pytest.importorskip("torch_geometric")
    graph = load("pyg:KarateClub")
    assert (graph.name, graph.num_nodes, graph.num_edges, graph.num_classes) == ("KarateClub", 34, 78, 4)
    with pytest.raises(InputError, match="did you mean 'Planetoid'"):
        load("pyg:Planetoids/Cora")
