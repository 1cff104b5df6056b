"""Infomax encoders over all ranks. Surroundings are gathered by exchange, once; a step looks at a thousand nodes, whose
rows go to every rank, and every rank takes the same step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mtgcn.distributed.local_graph import LocalGraph
from mtgcn.distributed.shuffling import keyed_shuffle, places_in_orders
from mtgcn.linalg.node_keys import keyed_bits
from mtgcn.linalg.operators import Operator, SparseOperator
from mtgcn.linalg.pagerank import personalized_page_rank
from mtgcn.methods.mt_plus.encoders import BATCH_STREAM
from mtgcn.nn.infomax import Infomax, InfomaxSettings, Propagation, Views
from mtgcn.shapes import Float, Int, UInt64


@dataclass(frozen=True, eq=False)
class Batch:
    """This rank's part of the nodes that a step looks at."""

    size: int  # of all ranks
    nodes: Int[Tensor, "mine"]
    places: Int[Tensor, "mine"]  # in the batch


class LocalInfomax(Infomax):
    """`Infomax` whose views are of this rank's nodes."""

    def __init__(
        self, local: LocalGraph, views: Views, batches: list[Batch], settings: InfomaxSettings, seed: int
    ) -> None:
        super().__init__(views, settings, seed, local.ranks.device)
        self.to(views.rows.dtype)
        self.local, self.batches = local, batches

    def go_to(self, epoch: int) -> None:
        """Go on after this epoch."""
        self.epoch.fill_(epoch)

    def _seen(self) -> tuple[Float[Tensor, "some width"], Float[Tensor, "some width"]]:
        number = min(int(self.epoch) - 1, len(self.batches) - 1)
        batch, corrupted = self.batches[number], self.views.corrupted[number % len(self.views.corrupted)]
        rows = self.views.rows.new_zeros(2, batch.size, self.views.rows.shape[1])
        rows[0, batch.places] = self.views.rows[batch.nodes]
        rows[1, batch.places] = corrupted[batch.nodes]
        seen, seen_corrupted = self.local.ranks.total(rows)  # of each row, one rank has what is not 0
        return seen, seen_corrupted


def local_views(
    local: LocalGraph,
    adjacency: SparseOperator,
    features: Operator,
    keys: UInt64[np.ndarray, "here"],
    propagation: Propagation,
    basis: Float[Tensor, "features width"],
    settings: InfomaxSettings,
    seed: int,
) -> Views:
    """What encoders see of this rank's nodes."""
    values = features(basis)
    count = settings.corruptions(local.manifest.num_nodes, values.shape[1])
    shuffled = (keyed_shuffle(local, keys, seed, number)(values) for number in range(count))
    corrupted = [personalized_page_rank(one, adjacency, propagation.steps, propagation.restart) for one in shuffled]
    rows = personalized_page_rank(values, adjacency, propagation.steps, propagation.restart)
    return Views(rows, torch.stack(corrupted), torch.zeros(settings.epochs, 0, dtype=torch.int64))


def local_batches(
    local: LocalGraph, keys: UInt64[np.ndarray, "here"], settings: InfomaxSettings, seed: int
) -> list[Batch]:
    """The nodes, shuffled again and again, dealt out to the epochs as one process does."""
    nodes, device = local.manifest.num_nodes, local.ranks.device
    epochs, size = max(1, settings.epochs), settings.batch_size
    if nodes <= size:
        return [Batch(nodes, torch.arange(local.num_nodes, device=device), local.numbers)] * epochs
    wanted = epochs * size
    draws = [keyed_bits(keys, seed, BATCH_STREAM + number) for number in range(-(-wanted // nodes))]
    slots = places_in_orders(local.ranks, np.stack(draws)) + nodes * np.arange(len(draws))[:, None]
    mine = np.tile(np.arange(local.num_nodes), (len(draws), 1))[slots < wanted]
    slots = slots[slots < wanted]
    order = np.argsort(slots)
    ends = np.searchsorted(slots[order], size * np.arange(1, epochs))
    parts = zip(np.split(mine[order], ends), np.split(slots[order] % size, ends), strict=True)
    return [Batch(size, *(torch.from_numpy(part).to(device) for part in both)) for both in parts]
