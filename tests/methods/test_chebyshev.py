import numpy as np
import pytest
import torch

from mtgcn.errors import InputError
from mtgcn.methods import create
from mtgcn.nn.chebyshev import Chebyshev
from mtgcn.splits import draw_splits
from mtgcn.task import observe


def test_it_is_adam_on_the_cross_entropy_of_the_labels(make_graph):
    graph = make_graph(weighted=True)
    task = observe(graph, draw_splits(graph, [3, 2, 1], runs=2, seed=0), seed=0)
    method = create("chebyshev", epochs=12, dropout=0, weight_decay=0.05, learning_rate=0.05)
    found = method.fit(task)
    # The stack is tested against dense matrices elsewhere; here each run trains a stack of its own, by torch's book.
    for run, alone in enumerate(task.chunks(1)):
        network = Chebyshev(alone, 1, method, degree=2)
        optimizer = torch.optim.Adam(list(network.parameters()), lr=0.05, weight_decay=0.05)
        nodes, classes = alone.labelled.index[0], alone.labelled.classes[0]
        for epoch in range(12):
            loss = torch.nn.functional.cross_entropy(network.logits()[nodes, :, 0, 0], classes)
            np.testing.assert_allclose(found.history["supervised"][epoch, run, 0], loss.item(), rtol=1e-4)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        np.testing.assert_allclose(found.probabilities[run], network.probabilities()[..., 0, 0], atol=1e-4)


def test_a_degree_below_one_is_refused():
    with pytest.raises(InputError, match="degree is 0; give at least 1"):
        create("chebyshev", degree=0)
