"""Reductions and exchanges over ranks give what one process that holds all nodes computes."""

from itertools import chain
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch.distributed import HashStore

from mtgcn import read_graph
from mtgcn.communicator import ONE_PROCESS
from mtgcn.distributed.communicator import RankCommunicator, Ranks
from mtgcn.distributed.sharding import shard_files
from mtgcn.distributed.shards import read_local_graph, read_manifest
from mtgcn.errors import InputError
from mtgcn.io.options import TableOptions
from mtgcn.linalg.node_keys import as_tensor, node_keys, splitmix64
from mtgcn.linalg.normalisation import graph_operators, normalized_adjacency
from mtgcn.training import pseudo_labels
from mtgcn.training.pseudo_labels import most_confident
from thread_ranks import on_ranks

WORDS = as_tensor(splitmix64(np.arange(60, dtype=np.uint64)))
CPU = torch.device("cpu")


@pytest.fixture
def on_graph(files):
    """Runs `work(graph)` on every rank, with its nodes."""
    return lambda count, work: on_ranks(
        count, lambda ranks: work(read_local_graph(read_manifest(files / "shards"), ranks))
    )


def test_single_rank_without_torchrun(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    ranks = Ranks.started("cpu")
    assert (ranks.rank, ranks.count, ranks.device.type) == (0, 1, "cpu")
    values = torch.arange(4)
    assert ranks.sum(values) is values
    assert ranks.gather("value") == ["value"]
    assert ranks.on_first(lambda: "value") == "value"
    assert ranks.first_to_report()
    assert ranks.sent == 0
    ranks.end()


def test_more_ranks_than_gpus_are_refused(monkeypatch):
    for name, value in (("WORLD_SIZE", "4"), ("LOCAL_WORLD_SIZE", "4"), ("LOCAL_RANK", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("mtgcn.distributed.communicator.chosen_device", torch.device)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(InputError, match="4 ranks on this machine and 2 GPUs; start at most 2, or --device cpu"):
        Ranks.started("cuda")


def test_error_of_one_rank_is_raised_on_all():
    def work(ranks):
        def read():
            if ranks.rank == 1:
                raise InputError("part 1 is damaged")
            return ranks.rank

        with pytest.raises(InputError, match="part 1 is damaged"):
            ranks.together(read)
        assert ranks.on_first(lambda: f"rank {ranks.rank}") == "rank 0"
        return ranks.together(lambda: 10 * ranks.rank)

    assert on_ranks(3, work) == [0, 10, 20]


def test_one_rank_reports_an_error(monkeypatch):
    store = HashStore()
    assert [Ranks(rank, 3, store=store).first_to_report() for rank in (2, 0, 1)] == [True, False, False]
    assert Ranks(1, 2, store=Mock(add=Mock(side_effect=RuntimeError("connection refused")))).first_to_report()
    for rank, reports in (("0", True), ("3", False)):  # without a store
        monkeypatch.setenv("RANK", rank)
        assert Ranks().first_to_report() is reports


def test_ask():
    def work(ranks):
        rows = torch.tensor([10 * ranks.rank + to for to in (2, 0, 2)])
        return ranks.ask(rows, torch.tensor([2, 0, 2]), lambda received: 100 * ranks.rank + received).tolist()

    assert on_ranks(3, work) == [[202, 0, 202], [212, 10, 212], [222, 20, 222]]


def test_more_ranks_than_parts_are_refused(files):
    with pytest.raises(InputError, match="6 ranks for 5 parts; start at most 5"):
        read_local_graph(read_manifest(files / "shards"), Ranks(0, 6))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_local_rows_and_products(files, on_graph, count):
    whole = read_graph(files / "edges.csv", nodes=files / "nodes.csv")
    values = torch.from_numpy(np.random.default_rng(0).random((60, 3), dtype=np.float32))
    weight = torch.from_numpy(np.random.default_rng(1).random((60, 3), dtype=np.float32))
    adjacency = normalized_adjacency(whole)

    def work(graph):
        numbers = graph.numbers
        assert graph.ids.to_pylist() == whole.node_ids[numbers].tolist()
        assert (graph.num_nodes, graph.mean_degree) == (60, whole.mean_degree)
        np.testing.assert_array_equal(graph.features, whole.features[numbers])
        operator = graph_operators(graph, "none", CPU).adjacency
        mine = values[numbers].clone().requires_grad_()
        product = operator(mine)
        np.testing.assert_allclose(product.detach(), (adjacency @ values.numpy())[numbers], rtol=1e-5)
        (product * weight[numbers]).sum().backward()
        np.testing.assert_allclose(mine.grad, (adjacency @ weight.numpy())[numbers], rtol=1e-5)
        exact = operator.to(torch.float64).multiply(values[numbers].double())
        np.testing.assert_allclose(exact, (adjacency.astype(float) @ values.double().numpy())[numbers], rtol=1e-6)
        assert operator.max_rows >= len(numbers)
        return numbers.tolist()

    assert sorted(chain(*on_graph(count, work))) == list(range(60))


def test_exchanges_send_boundary_rows_only():
    starts = np.array([0, 5, 12])
    table = torch.arange(24.0).view(12, 2)

    def work(ranks):
        mine = np.arange(starts[ranks.rank], starts[ranks.rank + 1])
        boundary = np.setdiff1d(np.arange(ranks.rank, 12, 2), mine)
        communicator = RankCommunicator(ranks, starts, mine, boundary)
        torch.testing.assert_close(communicator.with_boundary(table[mine]), torch.cat([table[mine], table[boundary]]))
        return ranks.sent, len(boundary)

    done = on_ranks(2, work)
    assert sum(sent for sent, _ in done) == sum(size * (8 + 2 * 4) for _, size in done)  # an index, then two numbers


@pytest.fixture
def equal_nodes(tmp_path):
    """Rings of three equal nodes, weighted edges, self-loops, and two nodes without edges."""
    rings = [(3 * ring + a, 3 * ring + (a + 1) % 3, 0.1 * (1 + ring % 2)) for ring in range(6) for a in range(3)]
    edges = [*rings, (0, 0, 2.5), (7, 7, 1 / 3)]
    text = "".join(f"n{a},n{b},{weight}\n" for a, b, weight in edges)
    (tmp_path / "edges.csv").write_text("source,target,weight\n" + text)
    (tmp_path / "nodes.csv").write_text("id,x,y\n" + "".join(f"n{node},{node % 2},{0.5}\n" for node in range(20)))
    options = TableOptions(may_add_nodes=False)
    shard_files(tmp_path / "edges.csv", tmp_path / "nodes.csv", tmp_path / "shards", 4, options)
    return tmp_path


@pytest.mark.parametrize("source", ["files", "sparse_files", "equal_nodes"])
def test_node_keys(source, request):
    folder = request.getfixturevalue(source)
    expected = node_keys(read_graph(folder / "edges.csv", nodes=folder / "nodes.csv"))
    assert len(set(expected.tolist())) == len(expected)

    def work(ranks):
        graph = read_local_graph(read_manifest(folder / "shards"), ranks)
        assert torch.equal(node_keys(graph), expected[graph.numbers])

    for count in (1, 4):
        on_ranks(count, work)


@pytest.mark.parametrize("count", [1, 3, 5])
def test_communicator_matches_one_process(on_graph, count):
    random = np.random.default_rng(0)
    table = torch.from_numpy(random.random((60, 4), dtype=np.float32))
    others, keys = torch.from_numpy(random.permutation(60)), as_tensor(splitmix64(WORDS.numpy().view(np.uint64) % 9))
    one = ONE_PROCESS

    def work(graph):
        found, rows = graph.communicator, graph.numbers
        mine = table[rows]
        assert torch.equal(found.numbers(len(rows), CPU), torch.from_numpy(rows))
        assert found.rows_of(torch.from_numpy(rows)).tolist() == list(range(len(rows)))
        torch.testing.assert_close(found.mean_of_rows(mine), one.mean_of_rows(table))
        torch.testing.assert_close(found.gram(mine), one.gram(table))
        np.testing.assert_allclose(found.mean_of_rows(mine.numpy()), table.numpy().mean(0), rtol=1e-5)
        torch.testing.assert_close(found.gram(found.orthonormal(mine)), torch.eye(4), rtol=0, atol=1e-5)
        for words in (WORDS, others):  # the second are small, and all meet at rank 0
            assert torch.equal(found.positions(words[rows]), one.positions(words)[rows])
        assert torch.equal(found.duplicate_ranks(keys[rows]), one.duplicate_ranks(keys)[rows])
        assert torch.equal(found.permute(mine, WORDS[rows], others[rows]), one.permute(table, WORDS, others)[rows])
        wanted = torch.tensor([7, 50, 7, 0])
        row_of = {number: row for row, number in enumerate(rows.tolist())}
        index = torch.tensor([row_of.get(number, -1) for number in wanted.tolist()])
        assert torch.equal(found.gather_rows(mine, index), table[wanted])
        labelled = torch.tensor(sorted((row_of[n] for n in (3, 40, 41) if n in row_of), key=rows.__getitem__))
        labelled = labelled.long()[None]
        index, classes, their_rows = found.gather_labelled(labelled, torch.from_numpy(rows)[labelled], {"x": mine})
        assert (index.tolist(), classes.tolist()) == ([[0, 1, 2]], [[3, 40, 41]])
        assert torch.equal(their_rows["x"], table[[3, 40, 41]])

    on_graph(count, work)


@pytest.mark.parametrize("per_class", [1, 3, 60])
@pytest.mark.parametrize("digit", [8, 3])
@pytest.mark.parametrize("steps", [4, 1000])  # distinct probabilities; with four, most nodes are equal
def test_most_confident(on_graph, per_class, digit, steps, monkeypatch):
    monkeypatch.setattr(pseudo_labels, "DIGIT", digit)
    random = np.random.default_rng([per_class, digit, steps])
    confidence = torch.from_numpy(random.integers(1, steps + 1, (60, 1, 2)) / np.float32(steps)).float()
    predicted = torch.from_numpy(random.integers(0, 3, (60, 1, 2)))
    predicted[predicted == 2] = random.integers(0, 2)  # no node is predicted as class 2
    exclude = torch.from_numpy(random.random((60, 1)) < 0.1)
    options = {"classes": 3, "per_class": per_class}
    whole = most_confident(confidence, predicted, **options, exclude=exclude)

    def pairs(chosen, numbers):
        node = torch.as_tensor(numbers)[chosen.nodes]
        classes = chosen.classes.expand_as(node)
        return [
            list(zip(node[filled, 0, peer].tolist(), classes[filled, 0, peer].tolist(), strict=True))
            for peer in range(2)
            for filled in [chosen.filled[:, 0, peer]]
        ]

    def work(graph):
        rows = graph.numbers
        chosen = most_confident(
            confidence[rows],
            predicted[rows],
            **options,
            exclude=exclude[rows],
            num_nodes=60,
            communicator=graph.communicator,
        )
        assert torch.equal(chosen.total, whole.count)
        assert torch.equal(chosen.from_next_peer().total, whole.from_next_peer().count)
        return pairs(chosen, rows)

    for count in (1, 3):
        found = on_graph(count, work)
        for peer, expected in enumerate(pairs(whole, np.arange(60))):
            assert sorted(chain(*(rank[peer] for rank in found))) == sorted(expected)
