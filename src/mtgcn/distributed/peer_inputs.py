"""What peers of `mt-plus` see of the nodes (`training/peer_inputs.py`), each rank's of its own.

Directions are found by products with the graph and the features, of which every rank has its rows, and by small
matrices that are summed. Which basis they have depends on rounding; what peers make of them does not.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional

from mtgcn.distributed.checkpoints import Checkpoints
from mtgcn.distributed.doubles import in_doubles, shared_in_doubles
from mtgcn.distributed.encoders import trained_encoders
from mtgcn.distributed.local_graph import LocalGraph
from mtgcn.distributed.reductions import mean_of_rows
from mtgcn.linalg.arrays import on_device
from mtgcn.linalg.node_keys import keyed_normal
from mtgcn.linalg.normalisation import scaled_rows
from mtgcn.linalg.operators import DenseOperator, Operator, SparseOperator
from mtgcn.linalg.pagerank import personalized_page_rank
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
from mtgcn.nn.infomax import Propagation
from mtgcn.shapes import Float, UInt64

NO_DIRECTION = 1e-11  # of the largest square: what is shorter is rounding


def shared_inputs(
    local: LocalGraph,
    matrix: sp.csr_array | np.ndarray,
    keys: UInt64[np.ndarray, "here"],
    settings: InputSettings,
    seed: int,
    checkpoints: Checkpoints | None,
) -> PeerInputs:
    """The rows of this rank's nodes, which have these features, and what all ranks share: bases, means and encoders."""
    features, adjacency = scaled_operator(local, matrix), shared_in_doubles(local.adjacency)
    exact = in_doubles(features)
    basis = shared_directions(local, exact, adjacency, settings.directions).float()
    tables = walked_tables(features(basis), local.adjacency)
    tables[EDGES] = _edge_directions(local, keys, settings)
    edges = functional.normalize(tables[EDGES])
    tables[FAR_EDGES] = personalized_page_rank(edges, local.adjacency, FAR_STEPS, FAR_RESTART)
    sizes = _sizes(local, matrix)
    mean, spread = _mean_and_spread(local, sizes)
    rows = {SIZE: waves_of(sizes, mean, spread, local.ranks.device)}
    parameters = {f"{FEATURES}/basis": basis.cpu().numpy(), f"{SIZE}/mean": mean, f"{SIZE}/spread": spread}
    how = settings.encoders(local.whole)
    seen = shared_directions(local, exact, adjacency, how.width, ENCODED)
    trained = trained_encoders(local, adjacency, exact, keys, seen, how, seed, checkpoints)
    for name, encoder in zip(ENCODERS, trained, strict=True):
        tables[name] = encoder.embeddings
        parameters |= {f"{name}/weight": encoder.weight, f"{name}/bias": encoder.bias}
    rows |= {name: with_ones(tables.pop(name)) for name in list(tables)}  # never two copies of them all
    for name in CENTRED:
        mine = at_length_one(rows[name])
        centre = mean_of_rows(local.ranks, mine[:, :-1], local.manifest.num_nodes)
        parameters[f"{name}/centre"] = centre_rows(mine, centre).cpu().numpy()
    return PeerInputs({name: rows[name] for name in PEERS}, parameters)


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
    """`feature_singular_vectors` of all ranks' rows: of the features, or of what a propagation makes of them."""
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
