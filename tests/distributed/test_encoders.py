"""Encoders that are stopped end as if they had not been, on any number of ranks."""

import numpy as np
import pytest
import torch

from mtgcn.distributed.checkpoints import Checkpoints
from mtgcn.distributed.doubles import in_doubles, shared_in_doubles
from mtgcn.distributed.encoders import trained_encoders
from mtgcn.distributed.local_graph import read_local_graph
from mtgcn.distributed.node_keys import shared_node_keys
from mtgcn.distributed.peer_inputs import scaled_operator
from mtgcn.distributed.shards import read_manifest
from mtgcn.methods.mt_plus.settings import ViewSettings
from mtgcn.nn.infomax import InfomaxSettings
from thread_ranks import on_ranks

EPOCHS = 6
SETTINGS = InfomaxSettings(4, epochs=EPOCHS)


class Killed(Exception):
    pass


class KilledAfter(Checkpoints):
    """Saves, and is gone after an epoch that it was told."""

    last = 0

    def save(self, epoch, shared, at_nodes):
        super().save(epoch, shared, at_nodes)
        if epoch == self.last:
            raise Killed


def encoders(count, folder, checkpoints=lambda local: None):
    def work(ranks):
        local = read_local_graph(read_manifest(folder / "shards"), ranks)
        features = local.take_features()
        keys, basis = shared_node_keys(local, features), torch.eye(12, dtype=torch.float64)[:, :7]
        adjacency, exact = shared_in_doubles(local.adjacency), in_doubles(scaled_operator(local, features))
        return trained_encoders(
            local, adjacency, exact, keys, ViewSettings().encoder_input, basis, SETTINGS, 3, checkpoints(local)
        )

    return on_ranks(count, work)


@pytest.mark.parametrize("last", [2, EPOCHS])
@pytest.mark.parametrize("count", [2, 5])
def test_what_was_stopped_goes_on(files, tmp_path, monkeypatch, last, count):
    undisturbed = encoders(2, files)[0]
    monkeypatch.setattr(KilledAfter, "last", last)
    with pytest.raises(Killed):
        encoders(2, files, lambda local: KilledAfter(tmp_path / "kept", 2, False, {"fit": "this"}, local))
    again = encoders(count, files, lambda local: Checkpoints(tmp_path / "kept", 2, True, {"fit": "this"}, local))
    for found in again:
        for one, other in zip(found, undisturbed, strict=True):
            np.testing.assert_allclose(one.weight, other.weight, rtol=1e-6)
            np.testing.assert_allclose(one.bias, other.bias, rtol=1e-6)


def test_the_encoder_that_is_held_back_is_another(files):
    free, held = encoders(1, files)[0]
    assert abs(free.weight - held.weight).max() > 1e-3
    lengths = torch.linalg.vector_norm(free.embeddings, dim=1)
    torch.testing.assert_close(lengths, torch.ones_like(lengths))
