"""What ranks find together is what one finds who has it all."""

import numpy as np
import pytest
import torch

from mtgcn.communicator import Communicator
from mtgcn.distributed import reductions
from mtgcn.distributed.communicator import RankCommunicator
from mtgcn.distributed.local_graph import read_local_graph
from mtgcn.distributed.reductions import most_confident_of_all
from mtgcn.distributed.shards import read_manifest
from mtgcn.training.pseudo_labels import most_confident
from thread_ranks import on_ranks


def test_communicator_matches_one_process(files):
    table = torch.from_numpy(np.random.default_rng(0).random((60, 4), dtype=np.float32))
    draws = torch.from_numpy(np.random.default_rng(1).permutation(60) * 2**57 - 2**62)
    one = Communicator()

    def work(ranks):
        local = read_local_graph(read_manifest(files / "shards"), ranks)
        found, mine = RankCommunicator(local), table[local.numbers]
        torch.testing.assert_close(found.mean_of_rows(mine), one.mean_of_rows(table))
        torch.testing.assert_close(found.gram(mine), one.gram(table))
        for ours, expected in zip(found.mean_and_std(mine.numpy()), one.mean_and_std(table.numpy()), strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-5)
        basis = found.orthonormal(mine)
        torch.testing.assert_close(found.gram(basis), torch.eye(4), rtol=0, atol=1e-5)
        assert torch.equal(found.positions(draws[local.numbers]), one.positions(draws)[local.numbers])

    for count in (1, 3):
        on_ranks(count, work)


@pytest.mark.parametrize("per_class", [1, 3, 7, 60])
@pytest.mark.parametrize("digit", [8, 3])
@pytest.mark.parametrize("steps", [4, 1000])  # of probabilities; with four of them, most nodes are equally sure
def test_the_surest_of_all_are_chosen_and_of_equals_the_first(files, per_class, digit, steps, monkeypatch):
    monkeypatch.setattr(reductions, "DIGIT", digit)
    random = np.random.default_rng([per_class, digit, steps])
    sure = torch.from_numpy(random.integers(1, steps + 1, (60, 1, 2)) / np.float32(steps)).float()
    predicted = torch.from_numpy(random.integers(0, 3, (60, 1, 2)))
    predicted[predicted == 2] = random.integers(0, 2)  # a class that nobody is predicted as
    exclude = torch.from_numpy(random.random((60, 1)) < 0.1)
    asked = {"classes": 3, "per_class": per_class}
    whole = most_confident(sure, predicted, **asked, exclude=exclude)

    def chosen_in(choice, nodes_of):
        classes = choice.classes.expand_as(choice.nodes)
        return [
            {
                (nodes_of(int(node)), int(one))
                for node, one, filled in zip(*(part[:, 0, peer] for part in parts), strict=True)
                if filled
            }
            for peer in range(2)
            for parts in [(choice.nodes, classes, choice.filled)]
        ]

    def work(ranks):
        graph = read_local_graph(read_manifest(files / "shards"), ranks)
        rows = graph.numbers
        choice = most_confident_of_all(graph, sure[rows], predicted[rows], **asked, exclude=exclude[rows])
        return chosen_in(choice, lambda node: int(rows[node]))

    for count in (1, 3):
        found = on_ranks(count, work)
        for peer, expected in enumerate(chosen_in(whole, lambda node: node)):
            assert set().union(*(rank[peer] for rank in found)) == expected
            assert sum(len(rank[peer]) for rank in found) == len(expected)
