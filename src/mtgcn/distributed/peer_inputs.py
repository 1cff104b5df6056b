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
<<<<<<< HEAD
from mtgcn.linalg.truncated_svd import OVERSAMPLING, leading_singular_vectors, num_components, with_fixed_signs
from mtgcn.methods.mt_plus.settings import SCALING, ViewSettings
from mtgcn.methods.mt_plus.views import ENCODERS, Inputs, Rows, own_sizes, with_ones
=======
from mtgcn.linalg.truncated_svd import OVERSAMPLING, leading_singular_vectors, num_components, with_fixed_signs
from mtgcn.methods.mt_plus.views import (
    CENTRED,
    EDGES,
    ENCODED,
    ENCODERS,
    FAR_EDGES,
    FAR_RESTART,
    FAR_STEPS,
    FEATURES,
    PEERS,
    SCALING,
    SIZE,
    SMALLEST_SPREAD,
    InputSettings,
    PeerInputs,
    at_length_one,
    centre_rows,
    own_sizes,
    walked_tables,
    waves_of,
    with_ones,
)
>>>>>>> main
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
<<<<<<< HEAD
=======


def _edge_directions(local: LocalGraph, keys: UInt64[np.ndarray, "here"], settings: InputSettings) -> Tensor:
    """D^-1/2 A in its leading directions. A is symmetric, so every product is one with this rank's rows of it."""
    nodes = local.manifest.num_nodes
    count = min(num_components(settings.edge_directions, local.whole), max(1, nodes - OVERSAMPLING))
    degrees = local.neighbours.matrix.sum(axis=1, dtype=np.float64)
    scale = 1 / np.sqrt(np.maximum(degrees, np.finfo(np.float32).tiny))
    scaled = on_device(scale, np.float32, local.ranks.device)[:, None]
    start = torch.from_numpy(keyed_normal(keys, 0, min(count + OVERSAMPLING, nodes))).to(local.ranks.device)
    basis = leading_singular_vectors(
        lambda basis: scaled * local.neighbours(basis),
        lambda rows: local.neighbours(scaled * rows),
        count,
        start,
        orthonormal=lambda columns: _orthonormal(local, columns),
        gram=lambda rows: local.ranks.total(rows.T @ rows),
    )
    return scaled * local.neighbours(basis)


def _orthonormal(local: LocalGraph, columns: Float[Tensor, "here columns"]) -> Tensor:
    """Columns of length 1 over all ranks, orthogonal to each other, that span the same; fewer where some depend on the
    others. Twice, since once leaves what rounding has made of short ones."""
    for _ in range(2):
        lengths, combine = torch.linalg.eigh(local.ranks.total(columns.double().T @ columns.double()))
        independent = lengths > NO_DIRECTION * lengths.max()
        columns = (columns.double() @ (combine[:, independent] / lengths[independent].sqrt())).float()
    return columns


def _sizes(local: LocalGraph, matrix: sp.csr_array | np.ndarray) -> Float[np.ndarray, "here sizes"]:
    """Degree and sum of features, in logarithms: of a node, of its neighbours and of theirs, on average."""
    neighbours = local.neighbours.matrix.astype(np.float64)
    degrees = neighbours.sum(axis=1)
    average = sp.diags_array(np.divide(1, degrees, out=np.zeros_like(degrees), where=degrees > 0)) @ neighbours

    def around(values: np.ndarray) -> np.ndarray:
        mine = torch.from_numpy(np.ascontiguousarray(values)).to(local.ranks.device)
        return average @ local.boundary.beside(mine).cpu().numpy()

    own = own_sizes(degrees, matrix)
    once = around(own)
    return np.concatenate([own, once, around(once)], axis=1)


def _mean_and_spread(local: LocalGraph, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    def mean_of(values: np.ndarray) -> np.ndarray:
        summed = local.ranks.total(torch.from_numpy(values.sum(axis=0)).to(local.ranks.device))
        return summed.cpu().numpy() / local.manifest.num_nodes

    mean = mean_of(sizes)
    return mean, np.maximum(np.sqrt(mean_of((sizes - mean) ** 2)), SMALLEST_SPREAD)
>>>>>>> main
