"""Encoders over ranks see the nodes that those of one process see, in every epoch, and lose what they lose."""

import pytest
import torch

from mtgcn import read_graph
from mtgcn.distributed.doubles import in_doubles, shared_in_doubles
from mtgcn.distributed.infomax import LocalInfomax, local_batches, local_views
from mtgcn.distributed.local_graph import read_local_graph
from mtgcn.distributed.node_keys import shared_node_keys
from mtgcn.distributed.peer_inputs import scaled_operator
from mtgcn.distributed.shards import read_manifest
from mtgcn.methods.mt_plus.encoders import training_rows
from mtgcn.methods.mt_plus.settings import ViewSettings
from mtgcn.nn.infomax import Infomax, InfomaxSettings
from thread_ranks import on_ranks

CPU = torch.device("cpu")
EPOCHS = 5
ENCODED = ViewSettings().encoder_input


@pytest.mark.parametrize("source", ["files", "sparse_files"])
@pytest.mark.parametrize("at_once", [1024, 25])  # more nodes than there are, and so few that they come again and again
def test_epochs_are_those_of_one_process(source, at_once, request):
    folder = request.getfixturevalue(source)
    graph = read_graph(folder / "edges.csv", nodes=folder / "nodes.csv")
    settings = InfomaxSettings(4, epochs=EPOCHS, batch_size=at_once)
    basis = torch.eye(graph.num_features)[:, :7]
    whole = Infomax(training_rows(graph, ENCODED, basis, settings, 4, CPU), settings, 4, CPU)
    expected = []
    for _ in range(EPOCHS):
        whole.new_epoch()
        loss = whole.loss()
        whole.zero_grad()
        loss.sum().backward()
        expected.append((loss.detach(), whole.weight.grad.clone(), whole.views.rows[whole._this_epoch()[0]]))

    def work(ranks):
        local = read_local_graph(read_manifest(folder / "shards"), ranks)
        features = local.take_features()
        keys = shared_node_keys(local, features)
        adjacency, exact = shared_in_doubles(local.adjacency), in_doubles(scaled_operator(local, features))
        views = local_views(local, adjacency, exact, keys, ENCODED, basis.double(), settings, 4)
        network = LocalInfomax(local, views, local_batches(local, keys, settings, 4), settings, 4)
        for loss, gradient, rows in expected:
            network.new_epoch()
            found = network.loss()
            network.zero_grad()
            found.sum().backward()
            assert found.dtype == torch.float64
            torch.testing.assert_close(found.detach().float(), loss)
            torch.testing.assert_close(network.weight.grad.float(), gradient, rtol=1e-4, atol=1e-6)
            torch.testing.assert_close(network._seen()[0].float(), rows, rtol=1e-5, atol=1e-6)

    for count in (1, 3):
        on_ranks(count, work)
