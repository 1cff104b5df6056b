"""Small tables and graphs with a few labels, models of them, and a model's folder."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from mtgcn import MutualTeachingClassifier
from mtgcn.estimator.persistence import checksum, save_model
from mtgcn.graph import UNLABELED

QUICK = {"warmup_epochs": 3, "teaching_epochs": 3, "hidden_channels": 4}


@pytest.fixture(scope="module")
def blobs():
    """Three clusters of 20 points, 2 of each labelled: rows, y, truth."""
    rows, truth = make_blobs(60, centers=3, n_features=4, cluster_std=1.0, random_state=3)
    y = np.full(60, -1)
    for number in range(3):
        chosen = np.flatnonzero(truth == number)[:2]
        y[chosen] = number
    return rows, y, truth


@pytest.fixture(scope="module")
def model(blobs):
    rows, y, _ = blobs
    settings = {"warmup_epochs": 30, "teaching_epochs": 10, "learning_rate": 0.05}
    return MutualTeachingClassifier("mt-gcn", settings=settings, random_state=0).fit(rows, y)


@pytest.fixture(scope="module")
def ring():
    """Two rings of 8 nodes, one label in each, random features: rows, y, truth, edge index."""
    nodes = np.arange(16)
    forward = np.where(nodes % 8 == 7, nodes - 7, nodes + 1)
    y = np.full(16, -1)
    y[0], y[8] = 0, 1
    rows = np.random.default_rng(0).random((16, 3))
    return rows, y, nodes // 8, np.stack([nodes, forward])


@pytest.fixture(scope="module")
def farm(make_graph):
    """40 nodes with names, 9 of them labelled."""
    whole = make_graph(weighted=True)
    return replace(
        whole,
        labels=np.where(np.arange(40) < 9, whole.labels, UNLABELED),
        node_ids=np.array([f"Knoten {number} ✓" for number in range(40)]),
        class_names=("cat", "dog", "hen"),
        name="farm",
        feature_names=tuple(f"f{number}" for number in range(12)),
    )


@pytest.fixture(scope="module")
def farm_model(farm):
    return MutualTeachingClassifier("mt-gcn", settings=QUICK, random_state=3).fit_graph(farm)


@pytest.fixture
def folder(farm_model, tmp_path):
    save_model(farm_model, tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture(scope="session")
def quick_settings():
    return QUICK


@pytest.fixture(scope="session")
def assert_equal():
    """Every learned attribute of two models is the same."""

    def assert_equal(loaded, saved):
        assert {name: getattr(loaded, name) for name in saved.get_params()} == saved.get_params()
        assert loaded.method_ == saved.method_
        for name in ("classes_", "transduction_", "label_distributions_", "peer_distributions_", "labeled_iter_"):
            mine, theirs = getattr(loaded, name), getattr(saved, name)
            assert np.array_equal(mine, theirs), name
            assert getattr(mine, "dtype", None) == getattr(theirs, "dtype", None), name
        assert loaded.has_node_ids_ == saved.has_node_ids_
        assert (loaded.n_iter_, loaded.n_features_in_) == (saved.n_iter_, saved.n_features_in_)
        for name in ("history_", "parameters_"):
            mine, theirs = getattr(loaded, name), getattr(saved, name)
            if theirs is None:
                assert mine is None
            else:
                assert mine.keys() == theirs.keys()
                assert all(np.array_equal(mine[key], theirs[key], equal_nan=True) for key in theirs)
        mine, theirs = loaded.peer_report_, saved.peer_report_
        if theirs is None:
            assert mine is None
        else:
            assert mine.names == theirs.names
            for name in ("weights", "held_out_accuracy", "agreement", "teaching"):
                assert np.array_equal(getattr(mine, name), getattr(theirs, name), equal_nan=True), name
        for name in ("labels", "node_ids"):
            mine, theirs = getattr(loaded.graph_, name), getattr(saved.graph_, name)
            assert np.array_equal(mine, theirs)
            assert mine.dtype == theirs.dtype
        assert (loaded.graph_.class_names, loaded.graph_.name) == (saved.graph_.class_names, saved.graph_.name)
        assert (loaded.graph_.adjacency != saved.graph_.adjacency).nnz == 0

    return assert_equal


@pytest.fixture
def rewritten(folder):
    """Changes the card and its checksum."""

    def rewrite(**changes):
        path = folder / "card.json"
        card = {**json.loads(path.read_text()), **changes}
        card["sha256"] = checksum(card)
        path.write_text(json.dumps(card))

    return rewrite
