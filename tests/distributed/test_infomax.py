"""An encoder's losses and gradients, summed over ranks, are those of one process."""

import pytest
import torch

from mtgcn.distributed.infomax import LocalInfomax
from mtgcn.distributed.local_graph import read_local_graph
from mtgcn.distributed.node_keys import shared_node_keys
from mtgcn.distributed.peer_inputs import scaled_operator
from mtgcn.distributed.shards import read_manifest
from mtgcn.graph import Graph
from mtgcn.nn.infomax import Infomax, InfomaxSettings
from mtgcn.training.peer_inputs import ENCODED
from thread_ranks import on_ranks


@pytest.mark.parametrize("source", ["files", "sparse_files"])
@pytest.mark.parametrize("dimensions", [4, 32])  # fewer than features, and more
def test_losses_and_gradients_are_those_of_one_process(source, dimensions, request):
    folder = request.getfixturevalue(source)
    graph = Graph.from_csv(folder / "edges.csv", folder / "nodes.csv")
    settings = InfomaxSettings(dimensions, epochs=3)
    whole = Infomax(graph, ENCODED, settings, seed=4, device=torch.device("cpu"))
    whole.new_epoch()
    whole.new_epoch()
    expected = whole.loss()
    expected.sum().backward()

    def work(ranks):
        local = read_local_graph(read_manifest(folder / "shards"), ranks)
        network = LocalInfomax(local, scaled_operator(local), shared_node_keys(local), ENCODED, settings, seed=4)
        network.go_to(1)
        network.new_epoch()
        loss = network.loss()
        loss.sum().backward()
        assert loss.dtype == torch.float64
        torch.testing.assert_close(ranks.total(loss.detach().clone()).float(), expected.detach())
        for name in ("weight", "bias", "discriminator"):
            gradient = ranks.total(getattr(network, name).grad.clone()).float()
            torch.testing.assert_close(gradient, getattr(whole, name).grad, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(network.encoded().float(), whole.encoded()[local.numbers])

    for count in (1, 3):
        on_ranks(count, work)
