"""The ranks' rows together are Â of the graph, whatever the number of ranks."""

from itertools import chain

import numpy as np
import pytest
import torch

from mtgcn import read_graph
from mtgcn.distributed import local_graph
from mtgcn.distributed.local_graph import parts_of, read_local_graph
from mtgcn.distributed.ranks import Ranks
from mtgcn.distributed.shards import read_manifest
from mtgcn.errors import InputError
from mtgcn.linalg.normalisation import normalized_adjacency
from thread_ranks import on_ranks


def test_parts_are_dealt_evenly_and_in_order():
    assert [list(parts_of(rank, 3, 7)) for rank in range(3)] == [[0, 1], [2, 3], [4, 5, 6]]
    assert [list(parts_of(rank, 4, 4)) for rank in range(4)] == [[0], [1], [2], [3]]


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("at_once", [7, 1 << 21])
def test_rows_of_all_ranks_are_those_of_the_graph(files, count, at_once, monkeypatch):
    monkeypatch.setattr(local_graph, "AT_ONCE", at_once)
    manifest = read_manifest(files / "shards")
    whole = read_graph(files / "edges.csv", nodes=files / "nodes.csv")
    values = torch.from_numpy(np.random.default_rng(0).random((60, 3), dtype=np.float32))
    propagated = normalized_adjacency(whole) @ values.numpy()
    linked = (whole.adjacency.toarray() * (1 - np.eye(60))) @ values.numpy()

    def work(ranks):
        graph = read_local_graph(manifest, ranks)
        numbers = graph.numbers.numpy()
        assert graph.ids.to_pylist() == whole.node_ids[numbers].tolist()
        np.testing.assert_array_equal(graph.take_features(), whole.features[numbers])
        np.testing.assert_allclose(graph.adjacency(values[numbers]).numpy(), propagated[numbers], rtol=1e-5)
        np.testing.assert_allclose(graph.neighbours(values[numbers]).numpy(), linked[numbers], rtol=1e-4, atol=1e-6)
        assert graph.of_numbers(graph.numbers).tolist() == list(range(graph.num_nodes))
        return numbers.tolist()

    assert sorted(chain(*on_ranks(count, work))) == list(range(60))


def test_more_ranks_than_parts_are_refused(files):
    with pytest.raises(InputError, match="6 ranks for 5 parts; start at most 5"):
        read_local_graph(read_manifest(files / "shards"), Ranks(0, 6))
