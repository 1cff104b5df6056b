import numpy as np
import torch

from mtgcn.nn.axes import rows_at
from mtgcn.nn.linear import LinearPeers
from mtgcn.splits import draw_splits
from mtgcn.task import observe


def network_of(graph, runs=5):
    task = observe(graph, draw_splits(graph, 2, runs, 0), 0)
    random = torch.Generator().manual_seed(0)
    embeddings = [[torch.randn(graph.num_nodes, 6, generator=random) for _ in range(2)] for _ in range(3)]
    network = LinearPeers(task, embeddings, [2, 0, 1, 0, 2][:runs])
    with torch.no_grad():
        network.weight.normal_(generator=random)
        network.bias.normal_(generator=random)
    return network, task, embeddings


def test_every_model_multiplies_the_embeddings_of_its_run_and_peer(make_graph):
    network, _, embeddings = network_of(make_graph())
    logits = network.logits()
    for run, chosen in enumerate([2, 0, 1, 0, 2]):
        for peer in range(2):
            expected = embeddings[chosen][peer] @ network.weight[peer, :, :, run] + network.bias[:, run, peer]
            torch.testing.assert_close(logits[:, :, run, peer], expected)


def test_at_the_labelled_nodes_it_says_what_it_says_everywhere(make_graph):
    network, task, _ = network_of(make_graph())
    torch.testing.assert_close(network.logits_at(task.labelled.index), rows_at(network.logits(), task.labelled.index))
    other = task.labelled.index.flip(1)
    torch.testing.assert_close(network.logits_at(other), rows_at(network.logits(), other))


def test_what_was_trained_can_be_loaded(make_graph):
    network, task, embeddings = network_of(make_graph())
    fresh = LinearPeers(task, embeddings, [2, 0, 1, 0, 2])
    fresh.load_trained(network.trained())
    np.testing.assert_array_equal(fresh.logits().detach(), network.logits().detach())
