"""Encoders that are stopped, in the first of them or in the second, end as if they had not been."""

import numpy as np
import pytest

from mtgcn.distributed.checkpoints import Checkpoints
from mtgcn.distributed.encoders import trained_encoders
from mtgcn.distributed.local_graph import read_local_graph
from mtgcn.distributed.node_keys import shared_node_keys
from mtgcn.distributed.peer_inputs import scaled_operator
from mtgcn.distributed.shards import read_manifest
from mtgcn.training.peer_inputs import InputSettings
from thread_ranks import on_ranks

EPOCHS = 6
SETTINGS = InputSettings(dimensions=4, infomax_epochs=EPOCHS)


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
        keys = shared_node_keys(local)
        return trained_encoders(local, scaled_operator(local), keys, SETTINGS, 3, checkpoints(local))

    return [{name: encoder for name, (_, encoder) in found.items()} for found in on_ranks(count, work)]


@pytest.mark.parametrize("last", [2, EPOCHS, EPOCHS + 2, 2 * EPOCHS])
def test_what_was_stopped_goes_on(files, tmp_path, monkeypatch, last):
    undisturbed = encoders(2, files)[0]
    monkeypatch.setattr(KilledAfter, "last", last)
    with pytest.raises(Killed):
        encoders(2, files, lambda local: KilledAfter(tmp_path / "kept", 2, False, {"fit": "this"}, local))
    again = encoders(2, files, lambda local: Checkpoints(tmp_path / "kept", 2, True, {"fit": "this"}, local))
    for found in again:
        for name, encoder in undisturbed.items():
            for part, values in encoder.items():
                np.testing.assert_array_equal(found[name][part], values, err_msg=f"{name} {part}")
