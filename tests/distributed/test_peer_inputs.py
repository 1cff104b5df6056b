"""Peers see of every node what they see in one process: lengths and angles of rows, in whatever basis."""

import numpy as np
import pytest
import torch

from mtgcn import read_graph
from mtgcn.distributed.communicator import RankCommunicator
from mtgcn.distributed.local_graph import read_local_graph
from mtgcn.distributed.node_keys import shared_node_keys
from mtgcn.distributed.peer_inputs import RankInputs
from mtgcn.distributed.shards import read_manifest
from mtgcn.methods.mt_plus.settings import ViewSettings
from mtgcn.methods.mt_plus.views import build_views, views_of
from thread_ranks import on_ranks

FEW = ViewSettings(directions=5, edge_directions=20, dimensions=8, infomax_epochs=5)


@pytest.mark.parametrize("source", ["files", "sparse_files"])
@pytest.mark.parametrize("settings", [FEW, ViewSettings(dimensions=8, infomax_epochs=0)], ids=["few", "all"])
def test_rows_are_those_of_one_process(source, settings, request):
    folder = request.getfixturevalue(source)
    graph = read_graph(folder / "edges.csv", nodes=folder / "nodes.csv")
    alone = build_views(graph, settings, seed=3, device=torch.device("cpu"))

    def work(ranks):
        local = read_local_graph(read_manifest(folder / "shards"), ranks)
        features = local.take_features()
        keys = torch.from_numpy(shared_node_keys(local, features).view(np.int64))
        found = views_of(RankInputs(local, features, keys, settings, 3, None, RankCommunicator(local)))
        return local.numbers, found

    for count in (1, 3):
        done = on_ranks(count, work)
        order = torch.cat([numbers for numbers, _ in done]).argsort()
        for name, expected in alone.rows.items():
            rows = torch.cat([found.rows[name] for _, found in done])[order]
            torch.testing.assert_close(rows @ rows.T, expected @ expected.T, rtol=0, atol=2e-5, msg=name)
        for _, found in done:
            assert found.parameters.keys() == alone.parameters.keys()
            for name in ("size/mean", "size/spread"):
                np.testing.assert_allclose(found.parameters[name], alone.parameters[name], rtol=1e-6)
            for name, values in done[0][1].parameters.items():
                np.testing.assert_array_equal(found.parameters[name], values)  # what is shared is the same
