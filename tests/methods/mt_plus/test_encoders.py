"""Encoders of a graph: what they see, that they are kept, and what they make of nodes."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.linalg.normalisation import normalized_adjacency
from mtgcn.linalg.truncated_svd import feature_singular_vectors
from mtgcn.methods.mt_plus import encoders as embeddings
from mtgcn.methods.mt_plus.encoders import encode, trained_encoders, views_of
from mtgcn.nn.infomax import SLOPE, InfomaxSettings, Propagation

CPU = torch.device("cpu")
PROPAGATION = Propagation(feature_scaling="length", steps=3, restart=0.2)
SMALL = InfomaxSettings(dimensions=8, epochs=30)


@pytest.fixture(autouse=True)
def kept_in(tmp_path, monkeypatch):
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "infomax"


# What encoders see


def test_corrupted_surroundings_are_those_of_features_that_were_moved(make_graph):
    graph = make_graph()
    one_step = Propagation("none", steps=1, restart=0.0)
    basis = feature_singular_vectors(graph, "none", CPU, SMALL.width)
    views = views_of(graph, one_step, basis, SMALL, 0, CPU)
    smooth, features = normalized_adjacency(graph).toarray(), graph.features.toarray() @ basis.numpy()
    np.testing.assert_allclose(views.rows, smooth @ features, atol=1e-5)
    back = np.linalg.inv(smooth)
    for corrupted in views.corrupted:
        moved = back @ corrupted.double().numpy()
        assert not np.allclose(moved, features, atol=1e-3)
        np.testing.assert_allclose(np.sort(moved, 0), np.sort(features, 0), atol=1e-3)
    assert not torch.equal(views.corrupted[0], views.corrupted[1])


def test_all_of_a_small_graph_is_looked_at_and_parts_of_a_large_one_in_turn(make_graph, monkeypatch):
    graph = make_graph()
    basis = feature_singular_vectors(graph, "length", CPU, SMALL.width)
    whole = views_of(graph, PROPAGATION, basis, SMALL, 0, CPU).batches
    assert whole.shape == (SMALL.epochs, graph.num_nodes)
    monkeypatch.setattr(embeddings, "NODES_AT_ONCE", graph.num_nodes // 4)
    parts = views_of(graph, PROPAGATION, basis, SMALL, 0, CPU).batches
    assert parts.shape == (SMALL.epochs, graph.num_nodes // 4)
    first = parts.flatten()[: graph.num_nodes]
    assert sorted(first.tolist()) == list(range(graph.num_nodes))
    assert not torch.equal(first, parts.flatten()[graph.num_nodes : 2 * graph.num_nodes])


def test_wide_features_are_seen_in_their_leading_directions(make_graph):
    graph = make_graph()
    narrow = replace(SMALL, width=3, dimensions=64)
    found = trained_encoders(graph, PROPAGATION, narrow, 0, CPU)["weight"]
    assert found.shape == (2, graph.num_features, 64)
    if graph.num_features > 32:  # fewer are never left out
        assert np.linalg.matrix_rank(found[0], tol=1e-4) <= 32


# Encoders


def both_embeddings(graph, seed):
    trained = trained_encoders(graph, PROPAGATION, SMALL, seed, CPU)
    pairs = zip(trained["weight"], trained["bias"], strict=True)
    return [encode(graph, PROPAGATION, weight, bias, CPU)[:, :-1] for weight, bias in pairs]


def test_embeddings_have_length_one_and_depend_on_the_seed_alone(make_graph):
    graph, again = make_graph(), make_graph()
    found, repeated, others = (both_embeddings(*which) for which in ((graph, 0), (again, 0), (graph, 1)))
    assert len(found) == 2
    for mine, same, other in zip(found, repeated, others, strict=True):
        assert mine.shape == (graph.num_nodes, 8)
        torch.testing.assert_close(mine.norm(dim=1), torch.ones(graph.num_nodes))
        assert torch.equal(mine, same)
        assert not torch.equal(mine, other)


def test_encoders_are_kept_and_taken_from_the_cache(make_graph, kept_in, monkeypatch):
    first = trained_encoders(make_graph(), PROPAGATION, SMALL, 0, CPU)
    assert len(list(kept_in.iterdir())) == 1
    monkeypatch.setattr("mtgcn.methods.mt_plus.encoders.train", None)
    second = trained_encoders(make_graph(), PROPAGATION, SMALL, 0, CPU)
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name])


def test_damaged_encoders_are_trained_anew_with_a_warning(make_graph, kept_in):
    first = trained_encoders(make_graph(), PROPAGATION, SMALL, 0, CPU)
    (kept,) = kept_in.iterdir()
    kept.write_bytes(kept.read_bytes()[:-100])
    with pytest.warns(RuntimeWarning, match="computed again"):
        second = trained_encoders(make_graph(), PROPAGATION, SMALL, 0, CPU)
    np.testing.assert_array_equal(first["weight"], second["weight"])


def test_encoders_read_a_graph_they_have_not_seen(make_graph):
    graph = make_graph()
    found = trained_encoders(graph, PROPAGATION, SMALL, 0, CPU)
    weight, bias = (found[part][0] for part in ("weight", "bias"))
    lonely = Graph(adjacency=np.zeros((3, 3)), features=np.asarray(np.eye(3, graph.num_features), dtype=np.float32))
    assert encode(lonely, PROPAGATION, weight, bias, CPU).shape == (3, 9)
    other = Graph(adjacency=np.zeros((3, 3)), features=np.eye(3, graph.num_features + 1, dtype=np.float32))
    with pytest.raises(InputError, match="features that it was trained with"):
        encode(other, PROPAGATION, weight, bias, CPU)


@pytest.mark.parametrize("dense", [False, True], ids=["sparse", "dense"])
@pytest.mark.parametrize("dimensions", [3, 400], ids=["narrower than the features", "wider"])
def test_embeddings_are_those_of_the_encoder_given_each_of_length_one(make_graph, dense, dimensions):
    graph = make_graph()
    features = graph.features.toarray()
    if dense:
        graph = replace(graph, features=features)
    random = np.random.default_rng(0)
    weight = random.normal(size=(graph.num_features, dimensions)).astype(np.float32)
    bias = random.normal(size=dimensions).astype(np.float32)
    found, ones = np.split(encode(graph, Propagation("none", 1, 0.0), weight, bias, CPU).numpy(), [dimensions], axis=1)
    np.testing.assert_array_equal(ones, np.ones((graph.num_nodes, 1)))
    values = normalized_adjacency(graph).toarray() @ features @ weight + bias
    values = np.where(values > 0, values, SLOPE * values)
    np.testing.assert_allclose(found, values / np.linalg.norm(values, axis=1, keepdims=True), atol=1e-5)
