"""The `Communicator` of ranks: reductions over the nodes of all ranks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from mtgcn.communicator import Communicator
from mtgcn.distributed.local_graph import LocalGraph
from mtgcn.distributed.shuffling import places_in_orders
from mtgcn.shapes import Float, Int
from mtgcn.task import Nodes

NO_DIRECTION = 1e-11  # of the largest squared length; a shorter column is rounding error


class RankCommunicator(Communicator):
    """Every rank holds the rows of its own nodes; all ranks call the same functions in the same order."""

    def __init__(self, local: LocalGraph) -> None:
        self.local, self.ranks = local, local.ranks

    def sum(self, values: Tensor) -> Tensor:
        return self.ranks.total(values)

    def mean_of_rows(self, rows: Float[Tensor, "nodes width"]) -> Float[Tensor, "width"]:
        return (self.sum(rows.sum(0, dtype=torch.float64)) / self.local.manifest.num_nodes).to(rows.dtype)

    def mean_and_std(
        self, values: Float[np.ndarray, "nodes width"]
    ) -> tuple[Float[np.ndarray, "width"], Float[np.ndarray, "width"]]:
        def mean(values: np.ndarray) -> np.ndarray:
            summed = self.sum(torch.from_numpy(values.sum(axis=0)).to(self.ranks.device))
            return summed.cpu().numpy() / self.local.manifest.num_nodes

        centre = mean(values)
        return centre, np.sqrt(mean((values - centre) ** 2))

    def orthonormal(self, columns: Float[Tensor, "nodes width"]) -> Float[Tensor, "nodes rank"]:
        # Twice, since once leaves the rounding errors of short columns. Dependent columns are dropped.
        for _ in range(2):
            lengths, combine = torch.linalg.eigh(self.gram(columns.double()))
            independent = lengths > NO_DIRECTION * lengths.max()
            columns = (columns.double() @ (combine[:, independent] / lengths[independent].sqrt())).float()
        return columns

    def positions(self, words: Int[Tensor, "nodes"]) -> Int[Tensor, "nodes"]:
        [places] = places_in_orders(self.ranks, words.cpu().numpy().view(np.uint64)[None])
        return torch.from_numpy(places).to(words.device)

    def gather_labelled(self, labelled: Nodes, tables: Mapping[str, Tensor]) -> tuple[Nodes, Mapping[str, Tensor]]:
        """In the order of the node table."""
        mine, device = labelled.index[0], labelled.index.device
        rows = {name: table[mine].cpu().numpy() for name, table in tables.items()}
        everyones = self.ranks.everyones(
            (self.local.numbers[mine].cpu().numpy(), labelled.classes[0].cpu().numpy(), rows)
        )
        order = np.argsort(np.concatenate([numbers for numbers, _, _ in everyones]))
        classes = np.concatenate([given for _, given, _ in everyones])[order]
        gathered = {
            name: torch.from_numpy(np.concatenate([given[name] for _, _, given in everyones])[order]).to(device)
            for name in tables
        }
        return Nodes(torch.arange(len(order))[None], torch.from_numpy(classes)[None]).to(device), gathered
