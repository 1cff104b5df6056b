"""What the views of `mt-plus` are computed from, each rank's of its own nodes.

Singular vectors are found by products with the graph and the features, of which every rank has its rows, and by small
matrices that are summed. Their basis depends on rounding; what peers make of them does not.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.communicator import Communicator
from mtgcn.distributed.checkpoints import Checkpoints
from mtgcn.distributed.doubles import in_doubles, shared_in_doubles
from mtgcn.distributed.encoders import TrainedEncoder, trained_encoders
from mtgcn.distributed.local_graph import LocalGraph
from mtgcn.linalg.arrays import on_device
from mtgcn.linalg.normalisation import scaled_rows
from mtgcn.linalg.operators import DenseOperator, Operator, SparseOperator
from mtgcn.linalg.pagerank import personalized_page_rank
from mtgcn.linalg.truncated_svd import OVERSAMPLING, leading_singular_vectors, num_components, with_fixed_signs
from mtgcn.methods.mt_plus.settings import SCALING, ViewSettings
from mtgcn.methods.mt_plus.views import ENCODERS, Inputs, Rows, own_sizes, with_ones
from mtgcn.nn.infomax import Propagation
from mtgcn.shapes import Float, Int


class RankInputs(Inputs):
    """`Inputs` of this rank's nodes."""

    def __init__(
        self,
        local: LocalGraph,
        matrix: sp.csr_array | np.ndarray,
        keys: Int[Tensor, "here"],
        settings: ViewSettings,
        seed: int,
        checkpoints: Checkpoints | None,
        communicator: Communicator,
    ) -> None:
        super().__init__(local.whole, settings, local.ranks.device, seed)
        self.local, self.matrix, self.checkpoints, self._keys = local, matrix, checkpoints, keys
        self.communicator = communicator  # type: ignore[misc]
        self._features = scaled_operator(local, matrix)

    @property
    def features(self) -> Operator:
        return self._features

    @property
    def adjacency(self) -> SparseOperator:
        return self.local.adjacency

    @property
    def keys(self) -> Int[Tensor, "here"]:
        return self._keys

    def _feature_basis(self) -> Float[Tensor, "features directions"]:
        exact, adjacency = in_doubles(self._features), shared_in_doubles(self.local.adjacency)
        return shared_directions(self.local, exact, adjacency, self.settings.directions).float()

    def _neighbours(self) -> tuple[SparseOperator, Float[Tensor, "here"]]:
        degrees = self.local.neighbours.matrix.sum(axis=1, dtype=np.float64)
        return self.local.neighbours, on_device(degrees, np.float64, self.device)

    def sizes(self) -> Float[np.ndarray, "here sizes"]:
        neighbours = self.local.neighbours.matrix.astype(np.float64)
        degrees = neighbours.sum(axis=1)
        average = sp.diags_array(np.divide(1, degrees, out=np.zeros_like(degrees), where=degrees > 0)) @ neighbours

        def around(values: np.ndarray) -> np.ndarray:
            mine = torch.from_numpy(np.ascontiguousarray(values)).to(self.device)
            return average @ self.local.boundary.beside(mine).cpu().numpy()

        own = own_sizes(degrees, self.matrix)
        once = around(own)
        return np.concatenate([own, once, around(once)], axis=1)

    def embeddings(self, name: str) -> Rows:
        encoder = self._once("encoders", self._train)[ENCODERS.index(name)]
        self.parameters |= {f"{name}/weight": encoder.weight, f"{name}/bias": encoder.bias}
        return with_ones(encoder.embeddings)

    def _train(self) -> list[TrainedEncoder]:
        exact, adjacency = in_doubles(self._features), shared_in_doubles(self.local.adjacency)
        propagation, settings = self.settings.encoder_input, self.settings.encoders(self.graph)
        basis = shared_directions(self.local, exact, adjacency, settings.width, propagation)
        keys = self.keys.cpu().numpy().view(np.uint64)
        return trained_encoders(
            self.local, adjacency, exact, keys, propagation, basis, settings, self.seed, self.checkpoints
        )


def scaled_operator(local: LocalGraph, matrix: sp.csr_array | np.ndarray) -> Operator:
    """This rank's rows of X, scaled; sparse on all ranks or on none, however full the rows of one may be."""
    features = scaled_rows(matrix, SCALING)
    if isinstance(features, np.ndarray):
        return DenseOperator(on_device(features, np.float32, local.ranks.device))
    return SparseOperator(features, local.ranks.device)


def shared_directions(
    local: LocalGraph,
    features: Operator,
    adjacency: SparseOperator,
    wanted: int,
    propagation: Propagation | None = None,
) -> Float[Tensor, "features directions"]:
    """`feature_singular_vectors` of all ranks' rows: of the features, or of the propagated features."""
    columns, count, device = local.manifest.num_features, num_components(wanted, local.whole), local.ranks.device
    number = torch.float32 if device.type == "cuda" else torch.float64
    if columns <= count:
        return torch.eye(columns, device=device, dtype=number)
    start = np.random.default_rng(0).standard_normal((columns, count + OVERSAMPLING), dtype=np.float32)
    back = features.transposed if isinstance(features, SparseOperator) else DenseOperator(features.matrix.T)

    def walk(values: Tensor) -> Tensor:
        if propagation is None:
            return values
        return personalized_page_rank(values, adjacency, propagation.steps, propagation.restart)

    found = leading_singular_vectors(
        lambda basis: walk(features(basis)),
        lambda rows: local.ranks.total(back(walk(rows)).contiguous()),
        count,
        torch.from_numpy(start).to(device, number),
        gram=lambda rows: local.ranks.total(rows.T @ rows),
    )
    return with_fixed_signs(found)
