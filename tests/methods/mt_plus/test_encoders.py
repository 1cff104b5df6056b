from dataclasses import replace

import numpy as np
import pytest
import torch

from mtgcn.linalg.normalisation import normalized_adjacency
from mtgcn.linalg.pagerank import feature_singular_vectors
from mtgcn.methods.mt_plus.encoders import encode, trained_encoders, training_rows
from mtgcn.nn.infomax import InfomaxSettings, Propagation

CPU = torch.device("cpu")
PROPAGATION = Propagation(feature_scaling="length", steps=3, restart=0.2)
SMALL = InfomaxSettings(dimensions=8, epochs=30)


pytestmark = pytest.mark.usefixtures("private_cache")


def test_corruption_permutes_features(make_graph):
    graph = make_graph()
    one_step = Propagation("none", steps=1, restart=0.0)
    basis = feature_singular_vectors(graph, "none", CPU, SMALL.width)
    views = training_rows(graph, one_step, basis, SMALL, 0, CPU)
    smooth, features = normalized_adjacency(graph).toarray(), graph.features.toarray() @ basis.numpy()
    np.testing.assert_allclose(views.rows, smooth @ features, atol=1e-5)
    back = np.linalg.inv(smooth)
    for corrupted in views.corrupted:
        moved = back @ corrupted.double().numpy()
        assert not np.allclose(moved, features, atol=1e-3)
        np.testing.assert_allclose(np.sort(moved, 0), np.sort(features, 0), atol=1e-3)
    assert not torch.equal(views.corrupted[0], views.corrupted[1])


def test_batches_of_small_and_large_graphs(make_graph):
    graph = make_graph()
    basis = feature_singular_vectors(graph, "length", CPU, SMALL.width)
    whole = training_rows(graph, PROPAGATION, basis, SMALL, 0, CPU).batches
    assert whole.shape == (SMALL.epochs, graph.num_nodes)
    few = replace(SMALL, batch_size=graph.num_nodes // 4)
    parts = training_rows(graph, PROPAGATION, basis, few, 0, CPU).batches
    assert parts.shape == (SMALL.epochs, graph.num_nodes // 4)
    first = parts.flatten()[: graph.num_nodes]
    assert sorted(first.tolist()) == list(range(graph.num_nodes))
    assert not torch.equal(first, parts.flatten()[graph.num_nodes : 2 * graph.num_nodes])


def test_wide_features_are_projected(make_graph):
    graph = make_graph()
    narrow = replace(SMALL, width=3, dimensions=64)
    found = trained_encoders(graph, PROPAGATION, narrow, 0, CPU)["weight"]
    assert found.shape == (2, graph.num_features, 64)
    if graph.num_features > 32:  # fewer are never left out
        assert np.linalg.matrix_rank(found[0], tol=1e-4) <= 32


def test_encoders_are_cached(make_graph, private_cache, monkeypatch):
    first = trained_encoders(make_graph(), PROPAGATION, SMALL, 0, CPU)
    assert len(list((private_cache / "infomax").iterdir())) == 1
    monkeypatch.setattr("mtgcn.methods.mt_plus.encoders.train", None)
    second = trained_encoders(make_graph(), PROPAGATION, SMALL, 0, CPU)
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name])


@pytest.mark.parametrize("dense", [False, True], ids=["sparse", "dense"])
@pytest.mark.parametrize("dimensions", [3, 400], ids=["narrower than the features", "wider"])
def test_encode_formula(make_graph, dense, dimensions):
    graph = make_graph()
    features = graph.features.toarray()
    if dense:
        graph = replace(graph, features=features)
    random = np.random.default_rng(0)
    weight = random.normal(size=(graph.num_features, dimensions)).astype(np.float32)
    bias = random.normal(size=dimensions).astype(np.float32)
    found, ones = np.split(
        encode(graph, Propagation("none", 1, 0.0), weight, bias, SMALL.slope, CPU).numpy(), [dimensions], axis=1
    )
    np.testing.assert_array_equal(ones, np.ones((graph.num_nodes, 1)))
    values = normalized_adjacency(graph).toarray() @ features @ weight + bias
    values = np.where(values > 0, values, SMALL.slope * values)
    np.testing.assert_allclose(found, values / np.linalg.norm(values, axis=1, keepdims=True), atol=1e-5)
