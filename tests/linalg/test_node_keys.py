import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn.graph import Graph
from mtgcn.linalg.node_keys import drawn_by_key, keyed_normal, node_keys, scrambled

MANY = scrambled(np.arange(20_000, dtype=np.uint64))


def test_words_are_scrambled_as_splitmix64_does():
    # The first numbers of the generator from 1234567, as its authors' program prints them.
    states = [(1234567 + number * 0x9E3779B97F4A7C15) % 2**64 for number in range(5)]
    assert scrambled(np.array(states, dtype=np.uint64)).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def shuffled(graph, order):
    features = None if graph.features is None else graph.features[order]
    return Graph(graph.adjacency[order][:, order], features)


def test_keys_follow_the_nodes(make_graph):
    for graph in (make_graph(weighted=True), make_graph(sparse=False)):
        order = np.random.default_rng(0).permutation(graph.num_nodes)
        np.testing.assert_array_equal(node_keys(shuffled(graph, order)), node_keys(graph)[order])


def test_nodes_that_are_alike_have_different_keys():
    rings = Graph(np.kron(np.eye(5), [[0, 1, 1], [1, 0, 1], [1, 1, 0]]))
    assert len(set(node_keys(rings))) == 15
    order = np.random.default_rng(0).permutation(15)
    assert set(node_keys(shuffled(rings, order))) == set(node_keys(rings))


def test_a_key_depends_on_features_edges_and_weights_within_two_steps():
    path = np.diag(np.ones(5), 1) + np.diag(np.ones(5), -1)
    features = np.arange(1.0, 7.0)[:, None] * [[1, 0]]
    keys = node_keys(Graph(path, features))

    def changed(adjacency, features):
        return np.flatnonzero(node_keys(Graph(adjacency, features)) != keys).tolist()

    other = features.copy()
    other[0, 0] = 9
    assert changed(path, other) == [0, 1, 2]
    assert changed(path, features[:, ::-1]) == [0, 1, 2, 3, 4, 5]  # the same numbers in another column
    without, heavier = path.copy(), path.copy()
    without[4, 5] = without[5, 4] = 0
    heavier[4, 5] = heavier[5, 4] = 2
    assert changed(without, features) == changed(heavier, features) == [3, 4, 5]


def test_it_matters_whose_neighbours_have_which_features():
    # Two paths with the same ends and the same nodes between them, which stand in another order.
    adjacency = np.kron(np.eye(2), [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
    keys = node_keys(Graph(adjacency, np.array([1.0, 2, 3, 4, 1, 3, 2, 4])[:, None]))
    assert not set(keys[:4]) & set(keys[4:])


def test_how_features_are_stored_does_not_matter(make_graph):
    graph = make_graph()
    dense = graph.features.toarray()
    np.testing.assert_array_equal(node_keys(Graph(graph.adjacency, dense)), node_keys(graph))
    negative = np.where(dense == 0, np.float32(-0.0), dense)
    assert np.signbit(negative).any()
    np.testing.assert_array_equal(node_keys(Graph(graph.adjacency, negative)), node_keys(graph))
    everywhere = np.indices(dense.shape).reshape(2, -1)
    explicit = sp.csr_array(sp.coo_array((negative.ravel(), tuple(everywhere)), shape=dense.shape))
    assert explicit.nnz == dense.size
    np.testing.assert_array_equal(node_keys(Graph(graph.adjacency, explicit)), node_keys(graph))


@pytest.mark.parametrize("nodes", [1, 2, 6])
@pytest.mark.parametrize("features", [None, 3])
def test_nodes_without_edges_have_keys_too(nodes, features):
    values = None if features is None else np.zeros((nodes, features))
    assert len(set(node_keys(Graph(np.zeros((nodes, nodes)), values)))) == nodes


def test_without_features_the_edges_tell_nodes_apart():
    star_and_tail = np.zeros((6, 6))
    star_and_tail[0, 1:5] = star_and_tail[4, 5] = 1
    graph = Graph(star_and_tail + star_and_tail.T)
    order = np.array([3, 5, 0, 4, 2, 1])
    moved = dict(zip(order.tolist(), node_keys(shuffled(graph, order)), strict=True))
    keys = node_keys(graph)
    assert [keys[node] == moved[node] for node in (0, 4, 5)] == [True] * 3
    assert {keys[node] for node in (1, 2, 3)} == {moved[node] for node in (1, 2, 3)}  # alike


def test_draws_differ_by_key_seed_and_number():
    draws = [drawn_by_key(MANY, seed, draw) for seed, draw in [(0, 0), (0, 1), (1, 0), (1, 1)]]
    assert len(set(np.concatenate(draws))) == 4 * len(MANY)
    np.testing.assert_array_equal(draws[0], drawn_by_key(MANY, 0, 0))


def test_every_bit_of_a_draw_is_a_fair_coin():
    words = drawn_by_key(np.arange(20_000, dtype=np.uint64), 0, 0)
    bits = (words[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    np.testing.assert_allclose(bits.mean(0), 0.5, atol=0.02)  # five and a half standard deviations
    correlation = np.corrcoef(bits.T.astype(float)) - np.eye(64)
    assert np.abs(correlation).max() < 0.04


def test_normal_numbers_move_with_the_nodes():
    keys, shuffle = MANY[:50], np.random.default_rng(0).permutation(50)
    np.testing.assert_array_equal(keyed_normal(keys[shuffle], 3, 4), keyed_normal(keys, 3, 4)[shuffle])


def test_normal_numbers_are_normal():
    numbers = keyed_normal(MANY, 0, 3)
    assert numbers.shape == (20_000, 3)
    np.testing.assert_allclose(numbers.mean(0), 0, atol=0.04)
    np.testing.assert_allclose(np.cov(numbers.T), np.eye(3), atol=0.06)
    np.testing.assert_allclose((numbers < [1, 1, 1]).mean(0), 0.8413, atol=0.015)
    np.testing.assert_allclose((np.abs(numbers) < 2).mean(0), 0.9545, atol=0.01)
    assert np.abs(numbers).max() > 3.3  # tails are there
    assert (keyed_normal(MANY, 1, 3) != numbers).any(axis=0).all()


def test_the_largest_and_smallest_words_give_finite_numbers(monkeypatch):
    words = np.array([0, 2**32 - 1, 2**64 - 1, 2**64 - 2**32], dtype=np.uint64)
    monkeypatch.setattr("mtgcn.linalg.node_keys.drawn_by_key", lambda keys, seed, draw: words)
    largest = np.sqrt(2 * 32 * np.log(2))
    np.testing.assert_allclose(keyed_normal(words, 0, 1)[:, 0], [largest, largest, 0, 0], atol=1e-5)
