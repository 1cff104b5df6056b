import numpy as np
import torch

from mtgcn.methods import create
from mtgcn.nn.appnp import APPNP
from mtgcn.splits import draw_splits
from mtgcn.task import observe


def test_it_is_adam_on_the_cross_entropy_of_the_labels_with_decay_on_the_first_layer(make_graph):
    graph = make_graph(weighted=True)
    task = observe(graph, draw_splits(graph, [3, 2, 1], runs=2, seed=0), seed=0)
    method = create("appnp", epochs=12, dropout=0, weight_decay=0.05, learning_rate=0.05)
    found = method.fit(task)
    # The stack is tested against dense matrices elsewhere; here each run trains a stack of its own, by torch's book.
    for run, alone in enumerate(task.chunks(1)):
        network = APPNP(alone, 1, method)
        assert [name for name, _ in network.named_parameters()] == ["weight0", "weight1"]
        groups = [{"params": [network.weight0], "weight_decay": 0.05}, {"params": [network.weight1]}]
        optimizer = torch.optim.Adam(groups, lr=0.05)
        nodes, classes = alone.labelled.index[0], alone.labelled.classes[0]
        for epoch in range(12):
            loss = torch.nn.functional.cross_entropy(network.logits()[nodes, :, 0, 0], classes)
            np.testing.assert_allclose(found.history["supervised"][epoch, run, 0], loss.item(), rtol=1e-4)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        np.testing.assert_allclose(found.probabilities[run], network.probabilities()[..., 0, 0], atol=1e-4)


def test_the_papers_network_is_the_default():
    method = create("appnp")
    assert (method.hidden_channels, method.dropout, method.learning_rate) == (64, 0.5, 0.01)
    assert (method.weight_decay, method.decay_on, method.bias, method.init) == (5e-3, "first-layer", False, "glorot")
    assert (APPNP.STEPS, APPNP.RESTART) == (10, 0.1)
