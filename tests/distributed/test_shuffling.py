"""Rows change places over ranks as they would in one table."""

import numpy as np
import pytest
import torch

from mtgcn.distributed.local_graph import read_local_graph
from mtgcn.distributed.shards import read_manifest
from mtgcn.distributed.shuffling import delivered, keyed_shuffle, numbers_before, places_in_orders
from mtgcn.linalg.node_keys import as_tensor, duplicate_ranks, keyed_permutations, splitmix64
from thread_ranks import on_ranks

KEYS = splitmix64(np.arange(60, dtype=np.uint64))


def test_rows_arrive_where_they_are_sent():
    def work(ranks):
        rows = np.array([[10 * ranks.rank + to, ranks.rank] for to in (2, 0, 2)])
        return delivered(ranks, rows, np.array([2, 0, 2]))

    first, second, third = on_ranks(3, work)
    np.testing.assert_array_equal(first[0], [[0, 0], [10, 1], [20, 2]])
    np.testing.assert_array_equal(first[1], [0, 1, 2])
    assert second[0].shape == (0, 2)
    np.testing.assert_array_equal(third[0][:, 0], [2, 2, 12, 12, 22, 22])
    np.testing.assert_array_equal(third[1], [0, 0, 1, 1, 2, 2])


@pytest.mark.parametrize("count", [1, 3, 4])
def test_places_in_the_order_of_all(count):
    random = np.random.default_rng(count)
    owner = random.integers(0, count, len(KEYS))  # ranks need not have as many
    draws = np.stack([KEYS, splitmix64(KEYS), np.arange(60, dtype=np.uint64)])  # the last all go to one rank
    expected = np.argsort(np.argsort(draws))
    for rank, found in enumerate(on_ranks(count, lambda ranks: places_in_orders(ranks, draws[:, owner == ranks.rank]))):
        np.testing.assert_array_equal(found, expected[:, owner == rank])


@pytest.mark.parametrize("count", [1, 3])
def test_equal_keys_are_counted_by_the_numbers_of_their_nodes(count):
    random = np.random.default_rng(0)
    keys = splitmix64(random.integers(0, 9, 60).astype(np.uint64))
    numbers, owner = random.permutation(60), random.integers(0, count, 60)
    in_order = duplicate_ranks(as_tensor(keys[np.argsort(numbers)])).numpy()[numbers]

    def work(ranks):
        mine = owner == ranks.rank
        return numbers_before(ranks, keys[mine], numbers[mine])

    for rank, found in enumerate(on_ranks(count, work)):
        np.testing.assert_array_equal(found, in_order[owner == rank])


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_shuffle_is_the_permutation_of_one_process(files, count):
    table = torch.arange(120.0).view(60, 2)
    orders = list(keyed_permutations(torch.from_numpy(KEYS.view(np.int64)), seed=7, count=3))

    def work(ranks):
        local = read_local_graph(read_manifest(files / "shards"), ranks)
        numbers = local.numbers
        for number in range(3):
            moved = keyed_shuffle(local, KEYS[numbers.numpy()], 7, number)(table[numbers])
            torch.testing.assert_close(moved, table[orders[number]][numbers], rtol=0, atol=0)

    on_ranks(count, work)
