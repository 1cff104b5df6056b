"""`mt-plus` over all ranks: each makes the rows of its own nodes, and peers are the same everywhere.

What peers see of a node is made of products that exchange boundary rows (`peer_inputs.py`). Labels are few: the rows of
labelled nodes go to every rank, which finds penalties, temperatures and votes by itself. Peers teach each other by the
code that serves one process (`methods/mt_plus.py`), with sums over ranks.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from mtgcn.distributed.answers import LocalAnswer
from mtgcn.distributed.checkpoints import Checkpoints
from mtgcn.distributed.local_graph import LocalGraph
from mtgcn.distributed.local_task import LocalTask
from mtgcn.distributed.node_keys import shared_node_keys
from mtgcn.distributed.peer_inputs import shared_inputs
from mtgcn.distributed.shuffling import places_in_orders
from mtgcn.linalg.node_keys import keyed_bits
from mtgcn.methods.mt_plus.cross_validation import held_out_parts
from mtgcn.methods.mt_plus.method import LabelledRows, MTPlus
from mtgcn.methods.mt_plus.teaching import ATTENDANCE, SharedNodes
from mtgcn.methods.mt_plus.views import PeerInputs
from mtgcn.shapes import UInt64
from mtgcn.task import Nodes, run_seed


def fit_mt_plus(settings: MTPlus, local: LocalGraph, task: LocalTask, checkpoints: Checkpoints | None) -> LocalAnswer:
    """Fit over all ranks; the answer is of this rank's nodes."""
    [seed] = task.seeds
    features = local.take_features()
    keys = shared_node_keys(local, features)
    number = run_seed(task.seed, seed % settings.embeddings)
    inputs = shared_inputs(local, features, keys, settings.inputs, number, checkpoints)
    labelled = labelled_rows(local, task, inputs, keys)
    [places] = places_in_orders(local.ranks, keyed_bits(keys, 0, ATTENDANCE)[None])
    shared = SharedNodes(local.ranks.total, torch.from_numpy(places).to(task.device))
    prediction = settings.fit_to_rows(inputs, task.as_task, labelled, shared)
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


def labelled_rows(
    local: LocalGraph, task: LocalTask, inputs: PeerInputs, keys: UInt64[np.ndarray, "here"]
) -> LabelledRows:
    """The rows of all labelled nodes, on every rank, in the order of the node table."""
    mine, classes = task.labelled.index[0], task.labelled.classes[0]
    told = {
        "numbers": local.numbers[mine].cpu().numpy(),
        "classes": classes.cpu().numpy(),
        "keys": keys[mine.cpu().numpy()],
        **{f"rows {name}": table[mine].cpu().numpy() for name, table in inputs.rows.items()},
    }
    everyones = local.ranks.everyones(told)
    all_of = {name: np.concatenate([one[name] for one in everyones]) for name in told}
    order = np.argsort(all_of["numbers"])
    ordered = {name: torch.from_numpy(values[order]) for name, values in all_of.items() if name != "keys"}
    labelled = Nodes(torch.arange(len(order))[None], ordered["classes"][None]).to(task.device)
    whole = replace(task, labelled=labelled, num_nodes=len(order)).as_task
    rows = {name: ordered[f"rows {name}"].to(task.device) for name in inputs.rows}
    return LabelledRows(whole, rows, held_out_parts(whole, all_of["keys"][order]))
