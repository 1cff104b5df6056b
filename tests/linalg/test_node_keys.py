import numpy as np
import pytest
import scipy.sparse as sp
import torch

from mtgcn.communicator import ONE_PROCESS
from mtgcn.graph import Graph
from mtgcn.linalg import node_keys as module
from mtgcn.linalg.node_keys import as_tensor, keyed_bits, keyed_normal, node_keys, splitmix64

MANY = splitmix64(np.arange(20_000, dtype=np.uint64))
WORDS = np.append(MANY[:5000], np.array([0, 1, 2**63, 2**64 - 1], dtype=np.uint64))


def keys_of(graph):
    return node_keys(graph).numpy()


def shuffled(graph, order):
    features = None if graph.features is None else graph.features[order]
    return Graph(graph.adjacency[order][:, order], features)


def test_splitmix64_reference_values():
    # The first numbers of the generator from 1234567, as its authors' program prints them.
    states = [(1234567 + number * 0x9E3779B97F4A7C15) % 2**64 for number in range(5)]
    assert splitmix64(np.array(states, dtype=np.uint64)).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_keys_are_order_invariant(make_graph):
    for graph in (make_graph(weighted=True), make_graph(sparse=False)):
        order = np.random.default_rng(0).permutation(graph.num_nodes)
        np.testing.assert_array_equal(keys_of(shuffled(graph, order)), keys_of(graph)[order])


def test_equal_nodes_have_different_keys():
    rings = Graph(np.kron(np.eye(5), [[0, 1, 1], [1, 0, 1], [1, 1, 0]]))
    assert len(set(keys_of(rings))) == 15
    order = np.random.default_rng(0).permutation(15)
    assert set(keys_of(shuffled(rings, order))) == set(keys_of(rings))


def test_keys_depend_on_features_edges_and_weights_within_two_steps():
    path = np.diag(np.ones(5), 1) + np.diag(np.ones(5), -1)
    features = np.arange(1.0, 7.0)[:, None] * [[1, 0]]
    keys = keys_of(Graph(path, features))

    def changed(adjacency, features):
        return np.flatnonzero(keys_of(Graph(adjacency, features)) != keys).tolist()

    other = features.copy()
    other[0, 0] = 9
    assert changed(path, other) == [0, 1, 2]
    assert changed(path, features[:, ::-1]) == [0, 1, 2, 3, 4, 5]  # the same numbers in another column
    without, heavier = path.copy(), path.copy()
    without[4, 5] = without[5, 4] = 0
    assert changed(without, features) == [3, 4, 5]
    heavier[4, 5] = heavier[5, 4] = 1.5
    heavier[3, 4] = heavier[4, 3] = 0.5  # the mean stays
    assert changed(heavier, features) == [2, 3, 4, 5]
    assert changed(1e-3 * path, features) == []


def test_keys_depend_on_which_neighbour_has_which_features():
    # Two paths with the same ends and the same inner nodes, in another order.
    adjacency = np.kron(np.eye(2), [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
    keys = keys_of(Graph(adjacency, np.array([1.0, 2, 3, 4, 1, 3, 2, 4])[:, None]))
    assert not set(keys[:4]) & set(keys[4:])


def test_keys_ignore_how_features_are_stored(make_graph):
    graph = make_graph()
    dense = graph.features.toarray()
    negative = np.where(dense == 0, np.float32(-0.0), dense)
    assert np.signbit(negative).any()
    everywhere = np.indices(dense.shape).reshape(2, -1)
    explicit = sp.csr_array(sp.coo_array((negative.ravel(), tuple(everywhere)), shape=dense.shape))
    assert explicit.nnz == dense.size
    for features in (dense, negative, explicit):
        np.testing.assert_array_equal(keys_of(Graph(graph.adjacency, features)), keys_of(graph))


@pytest.mark.parametrize("nodes", [1, 2, 6])
@pytest.mark.parametrize("features", [None, 3])
def test_nodes_without_edges_have_keys(nodes, features):
    values = None if features is None else np.zeros((nodes, features))
    assert len(set(keys_of(Graph(np.zeros((nodes, nodes)), values)))) == nodes


def test_bits_are_fair_and_differ_by_key_seed_and_draw():
    draws = [keyed_bits(MANY, seed, draw) for seed, draw in [(0, 0), (0, 1), (1, 0), (1, 1)]]
    assert len(set(np.concatenate(draws))) == 4 * len(MANY)
    words = keyed_bits(np.arange(20_000, dtype=np.uint64), 0, 0)
    bits = (words[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    np.testing.assert_allclose(bits.mean(0), 0.5, atol=0.02)  # five and a half standard deviations
    assert np.abs(np.corrcoef(bits.T.astype(float)) - np.eye(64)).max() < 0.04


def test_normal_numbers_are_normal_and_order_invariant():
    keys, shuffle = as_tensor(MANY), np.random.default_rng(0).permutation(50)
    numbers = keyed_normal(keys, 0, 3).numpy()
    np.testing.assert_array_equal(keyed_normal(keys[shuffle], 0, 3), numbers[shuffle])
    assert numbers.shape == (20_000, 3)
    np.testing.assert_allclose(numbers.mean(0), 0, atol=0.04)
    np.testing.assert_allclose(np.cov(numbers.T), np.eye(3), atol=0.06)
    np.testing.assert_allclose((numbers < [1, 1, 1]).mean(0), 0.8413, atol=0.015)
    np.testing.assert_allclose((np.abs(numbers) < 2).mean(0), 0.9545, atol=0.01)
    assert np.abs(numbers).max() > 3.3  # the tails are there
    assert (keyed_normal(keys, 1, 3).numpy() != numbers).any(axis=0).all()


def test_normal_numbers_of_extreme_words_are_finite(monkeypatch):
    words = as_tensor(np.array([0, 2**32 - 1, 2**64 - 1, 2**64 - 2**32], dtype=np.uint64))
    monkeypatch.setattr(module, "splitmix64", lambda _: words[:, None])
    largest = np.sqrt(2 * 32 * np.log(2))
    np.testing.assert_allclose(keyed_normal(words, 0, 1)[:, 0], [largest, largest, 0, 0], atol=1e-5)


def permutations(keys, seed, count):
    """Permutations by pairs of random words, as encoders draw them."""
    nodes = torch.arange(len(keys)).float()[:, None]
    words = [[keyed_bits(keys, seed, 2 * number + half) for half in (0, 1)] for number in range(count)]
    return torch.cat([ONE_PROCESS.permute(nodes, *pair) for pair in words], 1).T.long().numpy()


def test_permutations_are_distinct_uniform_and_order_invariant():
    keys, shuffle = as_tensor(WORDS)[:50], np.random.default_rng(0).permutation(50)
    orders, others = permutations(keys, 0, 4), permutations(keys, 1, 4)
    np.testing.assert_array_equal(np.sort(orders), np.tile(np.arange(50), (4, 1)))
    assert len({row.tobytes() for row in (*orders, *others)}) == 8
    np.testing.assert_array_equal(permutations(keys, 0, 2), orders[:2])
    moved = permutations(keys[torch.from_numpy(shuffle)], 0, 4)
    np.testing.assert_array_equal(shuffle[moved], orders[:, shuffle])
    orders = permutations(keys[:5], 0, 2000)
    given = np.stack([np.bincount(orders[:, node], minlength=5) for node in range(5)])
    np.testing.assert_allclose(given / 2000, 0.2, atol=0.05)  # five and a half standard deviations


@pytest.mark.parametrize("kind", ["sparse", "dense", "none", "equal"])
def test_blocks_give_the_same_keys(make_graph, monkeypatch, kind):
    graph = make_graph(sparse=kind == "sparse", weighted=True, unreached=True)
    features = {"none": None, "equal": -np.zeros((graph.num_nodes, 2))}.get(kind, graph.features)
    expected = keys_of(Graph(graph.adjacency, features))
    monkeypatch.setitem(module.AT_ONCE, "cpu", 8)
    np.testing.assert_array_equal(keys_of(Graph(graph.adjacency, features)), expected)
