"""What ranks find together is what one finds who has it all."""

import numpy as np
import pytest
import torch

from mtgcn.distributed import reductions
from mtgcn.distributed.local_graph import read_local_graph
from mtgcn.distributed.reductions import gram, mean_of_rows, most_confident_of_all
from mtgcn.distributed.shards import read_manifest
from mtgcn.training.pseudo_labels import most_confident
from thread_ranks import on_ranks

TABLE = torch.from_numpy(np.random.default_rng(0).random((9, 4), dtype=np.float32))


def test_means_and_products_over_all_rows():
    def work(ranks):
        mine = TABLE[3 * ranks.rank : 3 * ranks.rank + 3]
        torch.testing.assert_close(mean_of_rows(ranks, mine, 9), TABLE.mean(0))
        torch.testing.assert_close(gram(ranks, mine, mine[:, :2]), TABLE.T @ TABLE[:, :2])

    on_ranks(3, work)


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
