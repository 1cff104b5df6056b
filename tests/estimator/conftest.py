"""Small tables and graphs with a few labels, models of them, and a model's folder."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from fitted_models import with_labels
from mtgcn import MutualTeachingClassifier
from mtgcn.estimator.persistence import checksum, save_model
from small_models import quick

QUICK = {"warmup_epochs": 3, "teaching_epochs": 3, "hidden_channels": 4}


@pytest.fixture(scope="module")
def blobs():
    """Three clusters of 20 points, 2 of each labelled: rows, y, truth."""
    rows, truth = make_blobs(60, centers=3, n_features=4, cluster_std=1.0, random_state=3)
    y = np.full(60, -1)
    chosen = np.concatenate([np.flatnonzero(truth == number)[:2] for number in range(3)])
    y[chosen] = truth[chosen]
    return rows, y, truth


@pytest.fixture(scope="module")
def model(blobs):
    rows, y, _ = blobs
    return quick().fit(rows, y)


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
    return replace(
        with_labels(make_graph(weighted=True), range(9)),
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

    def equal(mine, theirs):
        assert type(mine) is type(theirs)
        if isinstance(theirs, dict):
            assert mine.keys() == theirs.keys()
            for key in theirs:
                equal(mine[key], theirs[key])
        elif isinstance(theirs, np.ndarray):
            np.testing.assert_array_equal(mine, theirs, strict=True)
        elif hasattr(theirs, "adjacency"):
            for name in ("labels", "node_ids", "class_names", "name"):
                equal(getattr(mine, name), getattr(theirs, name))
            assert (mine.adjacency != theirs.adjacency).nnz == 0
        elif hasattr(theirs, "teaching"):
            equal(vars(mine), vars(theirs))
        else:
            assert mine == theirs

    def assert_equal(loaded, saved):
        names = (
            "method_ classes_ transduction_ label_distributions_ peer_distributions_ labeled_iter_ has_node_ids_ "
            "n_iter_ n_features_in_ history_ parameters_ peer_report_ graph_"
        )
        for name in (*saved.get_params(), *names.split()):
            equal(getattr(loaded, name), getattr(saved, name))

    return assert_equal


@pytest.fixture
def rewritten(folder):
    """Changes the card and its checksum."""

    def rewrite(**changes):
        path = folder / "card.json"
        card = json.loads(path.read_text()) | changes
        path.write_text(json.dumps(card | {"sha256": checksum(card)}))

    return rewrite
