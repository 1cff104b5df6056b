"""`mt-plus` over all ranks: the method of the library on views that each rank computes of its own nodes."""

from __future__ import annotations

import numpy as np
import torch

from mtgcn.distributed.answers import LocalAnswer
from mtgcn.distributed.checkpoints import Checkpoints
from mtgcn.distributed.local_graph import LocalGraph
from mtgcn.distributed.local_task import LocalTask
from mtgcn.distributed.node_keys import shared_node_keys
from mtgcn.distributed.peer_inputs import RankInputs
from mtgcn.methods.mt_plus.method import MTPlus
from mtgcn.methods.mt_plus.views import views_of
from mtgcn.task import run_seed


def fit_mt_plus(settings: MTPlus, local: LocalGraph, task: LocalTask, checkpoints: Checkpoints | None) -> LocalAnswer:
    """Fit over all ranks; the answer is of this rank's nodes."""
    [seed] = task.seeds
    features = local.take_features()
    keys = torch.from_numpy(shared_node_keys(local, features).view(np.int64)).to(task.device)
    number = run_seed(task.seed, seed % settings.embeddings)
    inputs = RankInputs(local, features, keys, settings, number, checkpoints, task.communicator)
    del features
    prediction = settings.fit_views(task.as_task, views_of(inputs), keys)
    assert prediction.peers is not None
    assert prediction.pseudo_labelled_at is not None
    assert prediction.parameters is not None
    return LocalAnswer(
        prediction.probabilities[0],
        prediction.peers[0],
        prediction.pseudo_labelled_at[0],
        prediction.parameters,
        prediction.history,
        prediction.peer_report,
    )
