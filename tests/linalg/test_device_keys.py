"""What a device makes by itself has NumPy's bits; here the device is the processor."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from mtgcn.graph import Graph
from mtgcn.linalg import device_keys as module
from mtgcn.linalg import node_keys
from mtgcn.linalg.device_keys import device_keys, keyed_normal, keyed_orders, keys_there, normal_there, random_order

CPU = torch.device("cpu")
WORDS = np.concatenate(
    [node_keys.scrambled(np.arange(5000, dtype=np.uint64)), np.array([0, 1, 2**63, 2**64 - 1], dtype=np.uint64)]
)
KEYS = torch.from_numpy(WORDS.view(np.int64))


def unsigned(words):
    return words.numpy().view(np.uint64)


def test_words_are_scrambled_as_numpy_does_and_stay_as_they_were():
    given = KEYS.clone()
    np.testing.assert_array_equal(unsigned(module._scrambled(given)), node_keys.scrambled(WORDS))
    assert torch.equal(given, KEYS)


@pytest.mark.parametrize("kind", ["sparse", "dense", "none"])
@pytest.mark.parametrize("at_once", [8, 10**6])
def test_keys_have_the_bits_of_numpys(make_graph, monkeypatch, kind, at_once):
    monkeypatch.setattr(module, "ENTRIES_AT_ONCE", at_once)
    monkeypatch.setattr("mtgcn.linalg.normalisation.ENTRIES_AT_ONCE", at_once)
    graph = make_graph(sparse=kind == "sparse", weighted=True, unreached=True)
    graph = Graph(graph.adjacency, None if kind == "none" else graph.features)
    for device_finds in (keys_there, device_keys):
        np.testing.assert_array_equal(unsigned(device_finds(graph, CPU)), node_keys.node_keys(graph))


def test_of_nodes_that_are_alike_each_gets_the_number_that_numpy_gives_it():
    rings = Graph(sp.block_diag([sp.csr_array(np.ones((3, 3)) - np.eye(3))] * 5), -np.zeros((15, 2)))
    keys = keys_there(rings, CPU)
    np.testing.assert_array_equal(unsigned(keys), node_keys.node_keys(rings))
    assert len(set(keys.tolist())) == 15


def test_orders_are_numpys():
    np.testing.assert_array_equal(random_order(KEYS, 3, 9), np.argsort(node_keys.drawn_by_key(WORDS, 3, 9)))
    for number, found in enumerate(keyed_orders(KEYS, 5, 3)):
        one, other = (np.argsort(node_keys.drawn_by_key(WORDS, 5, 2 * number + half)) for half in (0, 1))
        np.testing.assert_array_equal(found.numpy()[one], other)


def orders_of(keys, seed, count):
    return torch.stack(list(keyed_orders(keys, seed, count))).numpy()


def test_orders_are_permutations_that_differ():
    orders, others = orders_of(KEYS[:50], 0, 4), orders_of(KEYS[:50], 1, 4)
    assert orders.shape == (4, 50)
    np.testing.assert_array_equal(np.sort(orders), np.tile(np.arange(50), (4, 1)))
    assert len({row.tobytes() for row in (*orders, *others)}) == 8
    np.testing.assert_array_equal(orders_of(KEYS[:50], 0, 2), orders[:2])


def test_an_order_gives_every_node_to_every_other_equally_often():
    orders = orders_of(KEYS[:5], 0, 2000)
    given = np.stack([np.bincount(orders[:, node], minlength=5) for node in range(5)])
    np.testing.assert_allclose(given / 2000, 0.2, atol=0.05)  # five and a half standard deviations


def test_orders_move_with_the_nodes():
    shuffle = np.random.default_rng(0).permutation(50)
    orders, moved = orders_of(KEYS[:50], 3, 2), orders_of(KEYS[:50][torch.from_numpy(shuffle)], 3, 2)
    np.testing.assert_array_equal(shuffle[moved], orders[:, shuffle])  # the same nodes are exchanged for the same


def test_normal_numbers_are_numpys_but_for_rounding(monkeypatch):
    monkeypatch.setattr(module, "ENTRIES_AT_ONCE", 1000)
    expected = node_keys.keyed_normal(WORDS, 2, 7)
    np.testing.assert_array_equal(keyed_normal(KEYS, 2, 7), expected)
    np.testing.assert_allclose(normal_there(KEYS, 2, 7), expected, rtol=1e-6, atol=1e-6)
