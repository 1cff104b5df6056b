"""Views of nodes that join a fitted graph; only their own rows are computed.

Nodes of the fit keep their rows, and new nodes read them. In a walk of K steps with restart α, as in `pagerank.py`,

    h_k = (1 - α) (Â_nn h_{k-1} + Â_nf H_{k-1}) + α h_0,

    h_k   rows of the new nodes after k steps
    H_k   rows of the nodes of the fit after k steps of the same walk; for k < K - 2 the rows after K - 2 steps
    Â_nn  rows and columns of Â for the new nodes
    Â_nf  its columns for the nodes of the fit, with the degrees that they have if the new node alone joins

A prediction does not depend on other new nodes of the call, and its cost does not depend on the size of the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.graph import Graph
from mtgcn.linalg.normalisation import GraphOperators, relative_adjacency
from mtgcn.linalg.operators import SparseOperator
from mtgcn.linalg.pagerank import personalized_page_rank
from mtgcn.methods.mt_plus.settings import SCALING, ViewSettings
from mtgcn.methods.mt_plus.views import Inputs, each_view, own_sizes, transferable
from mtgcn.shapes import Float

KEPT_STEPS = 2  # steps of a walk that are kept: the last ones before its end


class FittedInputs(Inputs):
    """Recomputes the views of the fitted graph and keeps what new nodes read: steps of walks, and sizes."""

    def __init__(
        self, graph: Graph, settings: ViewSettings, device: torch.device, parameters: Mapping[str, np.ndarray]
    ) -> None:
        super().__init__(graph, settings, device, parameters=parameters)
        adjacency = relative_adjacency(graph)
        self.degrees = adjacency.sum(axis=1, dtype=np.float64)
        self.unit = float(graph.adjacency.sum(dtype=np.float64) / self.degrees.sum()) if adjacency.nnz else 1.0
        self.walks: list[list[Tensor]] = []
        self.tensors: dict[int, Tensor] = {}  # parameters on the device, by the identity of their arrays
        self.of_parameters = set(map(id, parameters.values()))  # other arrays are freed and their identities reused
        self.names = transferable(parameters)
        for _ in each_view(self, self.names):
            pass  # the rows themselves are not needed
        self.fitted_sizes = super().sizes()

    def walk(self, rows: Float[Tensor, "nodes width"], steps: int, restart: float) -> Float[Tensor, "nodes width"]:
        kept = [personalized_page_rank(rows, self.adjacency, max(0, steps - KEPT_STEPS), restart)]
        for _ in range(min(steps, KEPT_STEPS)):
            kept.append((1 - restart) * self.adjacency.multiply(kept[-1].contiguous()) + restart * rows)
        self.walks.append(kept[:-1])
        return kept[-1]


class NewInputs(Inputs):
    """Inputs of the views of new nodes: their features, their edges, and the rows of the fit."""

    def __init__(self, fitted: FittedInputs, new: Graph, to_known: sp.csr_array) -> None:
        super().__init__(new, fitted.settings, fitted.device, parameters=fitted.parameters)
        self.fitted, self.walks = fitted, iter(fitted.walks)
        self.read, columns = np.unique(to_known.indices, return_inverse=True)  # the nodes of the fit that are read
        to_read, among = _entries(to_known, columns, fitted.unit), _entries(new.adjacency, None, fitted.unit)
        loops = np.arange(new.num_nodes), np.arange(new.num_nodes), np.ones(new.num_nodes)
        parts = (to_read, among)
        self.degrees = np.sum([np.bincount(rows, values, new.num_nodes) for rows, _, values in parts], axis=0)
        rows, columns, values = to_read
        of_read = fitted.degrees[self.read][columns] + values  # degrees as if only the new node had joined
        self.from_read = self._sparse(rows, columns, values / np.sqrt((1 + self.degrees[rows]) * (1 + of_read)))
        self.to_read = sp.csr_array((values, (rows, columns)), (new.num_nodes, len(self.read)))
        rows, columns, values = (np.concatenate(parts) for parts in zip(among, loops, strict=True))
        self.from_new = self._sparse(
            rows, columns, values / np.sqrt((1 + self.degrees[rows]) * (1 + self.degrees[columns]))
        )
        self.own_share = 1 / (1 + float(self.degrees[0])) if new.num_nodes == 1 and not new.adjacency.nnz else 0.0
        self.index = torch.from_numpy(self.read).to(self.device)

    def _sparse(self, rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> Tensor:
        places, data = torch.from_numpy(np.stack([rows, columns])), torch.from_numpy(values.astype(np.float32))
        size = self.graph.num_nodes, int(columns.max(initial=-1)) + 1
        return torch.sparse_coo_tensor(places, data, size, device=self.device, check_invariants=False)

    def walk(self, rows: Float[Tensor, "new width"], steps: int, restart: float) -> Float[Tensor, "new width"]:
        read = [(1 - restart) * torch.sparse.mm(self.from_read, table[self.index]) for table in next(self.walks)]
        starts, place = [table.add_(rows, alpha=restart) for table in read], rows
        for left in range(steps, 0, -1):
            spread = self.own_share * place if self.own_share else torch.sparse.mm(self.from_new, place)
            place = spread.mul_(1 - restart).add_(starts[max(0, len(starts) - left)])
        return place

    @property
    def operators(self) -> GraphOperators:
        """The features of the new nodes. Â is not computed, since walks do not read it."""
        if self.device.type != "cpu":
            return super().operators
        operators: GraphOperators = self._once(
            "operators",
            lambda: GraphOperators(SparseOperator(self.graph.adjacency, self.device), self.graph.features, SCALING),
        )
        return operators

    def trim(self) -> None:
        """Does nothing: a few rows free little memory."""

    def to_device(self, values: np.ndarray) -> Tensor:
        tensors = self.fitted.tensors  # shared between calls
        if id(values) not in self.fitted.of_parameters:
            return super().to_device(values)
        if id(values) not in tensors:
            tensors[id(values)] = super().to_device(values)
        return tensors[id(values)]

    def sizes(self) -> Float[np.ndarray, "new sizes"]:
        among = self.graph.adjacency / self.fitted.unit if self.graph.adjacency.nnz else None
        loops = np.zeros(len(self.degrees)) if among is None else among.diagonal()
        degrees = self.degrees - loops
        own = own_sizes(degrees, self.graph.features)
        share = np.divide(1, degrees, out=np.zeros_like(degrees), where=degrees > 0)[:, None]
        of_read = self.to_read @ self.fitted.fitted_sizes[self.read, :4]

        def of_new(values: np.ndarray) -> Any:
            return 0.0 if among is None else among @ values - loops[:, None] * values

        around = share * (of_new(own) + of_read[:, :2])
        return np.concatenate([own, around, share * (of_new(around) + of_read[:, 2:])], axis=1)


def _entries(
    matrix: sp.csr_array, columns: np.ndarray | None, unit: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and values of a matrix, in units of the mean weight."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return rows, (matrix.indices if columns is None else columns).astype(np.int64), matrix.data / unit


def views_of_new(fitted: FittedInputs, new: Graph, to_known: sp.csr_array) -> Iterator[tuple[str, Tensor]]:
    """The transferable views of new nodes, with edges to the fitted graph (`to_known`, new x known)."""
    return each_view(NewInputs(fitted, new, to_known), fitted.names)
