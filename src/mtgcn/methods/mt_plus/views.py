"""Views of the nodes: tables with one row per node, one for each peer.

    features                  X, rows of length 1, projected on its leading singular vectors
    hops                      X, Â X, Â² X, … side by side, rows of each block of length 1
    near neighbourhood        Â² X
    far neighbourhood         personalised PageRank of X
    infomax embeddings        Deep Graph Infomax encoder without weight decay
    held infomax embeddings   Deep Graph Infomax encoder with weight decay
    far edges                 personalised PageRank of D^-1/2 A, projected on its leading singular vectors
    size                      degree and feature sum of a node, its neighbours and theirs
    columns                   X, unchanged, for a peer with a large penalty
    waves                     random cosines of X: smooth functions of the columns
    forest                    X itself, for a peer that is a forest

The edges of a table link nearest rows and add no information to the columns. There, waves and forest replace the
neighbourhoods, the infomax embeddings and the size.

Rows are scaled to length 1, so that a penalty has the same meaning for every view, then centred and scaled again; held
infomax embeddings are not centred. The last column of every view is a column of ones.

To add a view, write a function of `Inputs` below, decorate it with `@view(name)`, and add its default prior weight,
`prior_NAME`, to `MTPlusSettings`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional

from mtgcn.errors import InputError
from mtgcn.graph_cache import cached_per_graph
from mtgcn.linalg.node_keys import keyed_normal, node_keys
from mtgcn.linalg.normalisation import (
    GraphOperators,
    device_adjacency,
    device_features,
    graph_operators,
    neighbour_sums,
    relative_adjacency,
    row_sums,
    without_self_loops,
)
from mtgcn.linalg.operators import ResidentOperator, SparseOperator, on_device, on_host
from mtgcn.linalg.pagerank import (
    OVERSAMPLING,
    feature_singular_vectors,
    leading_singular_vectors,
    num_components,
    personalized_page_rank,
)
from mtgcn.memory import trim_freed_blocks
from mtgcn.methods.mt_plus.encoders import Encoders, encode, know_encoders, trained_encoders
from mtgcn.methods.mt_plus.settings import SCALING, ViewSettings
from mtgcn.shapes import Float
from mtgcn.training.progress import stage

if TYPE_CHECKING:
    from mtgcn.graph import Graph

FEATURES, HOPS, NEAR, FAR = "features", "hops", "near neighbourhood", "far neighbourhood"
INFOMAX, HELD_INFOMAX = "infomax embeddings", "held infomax embeddings"
FAR_EDGES, SIZE = "far edges", "size"
COLUMNS, WAVES, FOREST = "columns", "waves", "forest"
ENCODERS = (INFOMAX, HELD_INFOMAX)  # in the order in which they are trained side by side

SMALL = 64  # most cosines that MKL computes in one thread; a second thread is much slower for a single row
MIN_ROW_LENGTH = 1e-5  # shorter centred rows are rounding errors in 32 bits and become 0
MIN_SIZE_STD = 1e-6  # below this standard deviation all nodes have the same size
SVD_TABLES = 7  # tables of the width of the edges view in memory during its SVD
SAMPLED_ROWS = 64  # rows whose neighbours are compared with their nearest rows
ROUNDING = 1e-3  # relative rounding error of distances
NEAREST_SHARE = 0.12  # neighbours in a table are within this share of the way from nearest to random rows

Rows = Float[Tensor, "nodes width_and_one"]


@dataclass(frozen=True)
class View:
    """How the rows of one view are computed."""

    rows: Callable[[Inputs], Rows]
    group: str  # views of the same group are left out together
    centred: bool
    transferable: bool  # whether the view can be computed for a graph other than the one peers were fitted on
    seeded: bool  # whether the view depends on a random seed
    of: str  # "graphs", "tables" or "both"


VIEWS: dict[str, View] = {}


def view(
    name: str,
    group: str = "",
    *,
    centred: bool = True,
    transferable: bool = True,
    seeded: bool = False,
    of: str = "both",
) -> Callable[[Callable[[Inputs], Rows]], Callable[[Inputs], Rows]]:
    """Register a function as the view with this name."""

    def register(rows: Callable[[Inputs], Rows]) -> Callable[[Inputs], Rows]:
        VIEWS[name] = View(rows, group or name, centred, transferable, seeded, of)
        return rows

    return register


@view(FEATURES)
def features(inputs: Inputs) -> Rows:
    return with_ones(inputs.reduced_features)


@view(HOPS)
def hops(inputs: Inputs) -> Rows:
    features, count = inputs.reduced_features, inputs.settings.hop_directions

    def right_singular_vectors() -> Tensor:
        _, directions = torch.linalg.eigh(inputs.communicator.gram(features).double().cpu())  # ascending
        return directions[:, -count:].float()

    block, blocks = features @ inputs.to_device(inputs.learned(f"{HOPS}/basis", right_singular_vectors)), []
    for step in range(max(inputs.settings.hop_steps) + 1):
        if step:
            block = inputs.walk(block, 1, restart=0.0)
        if step in inputs.settings.hop_steps:
            blocks.append(functional.normalize(block))
    return with_ones(torch.cat(blocks, 1))


@view(NEAR, "neighbourhoods", of="graphs")
def near_neighbourhood(inputs: Inputs) -> Rows:
    return with_ones(inputs.walk(inputs.reduced_features, inputs.settings.near_steps, restart=0.0))


@view(FAR, "neighbourhoods", of="graphs")
def far_neighbourhood(inputs: Inputs) -> Rows:
    return with_ones(inputs.far(inputs.reduced_features))


@view(INFOMAX, "infomax", seeded=True, of="graphs")
def infomax_embeddings(inputs: Inputs) -> Rows:
    return inputs.embeddings(INFOMAX)


@view(HELD_INFOMAX, "infomax", centred=False, seeded=True, of="graphs")
def held_infomax_embeddings(inputs: Inputs) -> Rows:
    return inputs.embeddings(HELD_INFOMAX)


@view(FAR_EDGES, "edges", transferable=False, of="graphs")
def far_edges(inputs: Inputs) -> Rows:
    inputs.release()  # the SVD needs the memory
    return with_ones(inputs.far(functional.normalize(inputs.reduced_edges())))


@view(SIZE, of="graphs")
def size(inputs: Inputs) -> Rows:
    sizes = inputs.sizes()
    mean = inputs.learned(f"{SIZE}/mean", lambda: inputs.mean_of_rows(sizes))
    variance = partial(inputs.mean_of_rows, (sizes - mean) ** 2)
    std = inputs.learned(f"{SIZE}/spread", lambda: np.maximum(np.sqrt(variance()), MIN_SIZE_STD))
    settings = inputs.settings
    return random_cosines((sizes - mean) / std, settings.size_waves, settings.size_frequency, inputs.device)


@view(COLUMNS, centred=False, of="tables")
def columns(inputs: Inputs) -> Rows:
    return with_ones(inputs.to_device(inputs.settings.column_scale * inputs.scaled_columns()).float())


@view(WAVES, centred=False, of="tables")
def waves(inputs: Inputs) -> Rows:
    settings = inputs.settings
    rows = random_cosines(inputs.scaled_columns(), settings.waves, settings.wave_frequency, inputs.device)
    rows[:, :-1] *= settings.wave_scale
    return rows


@view(FOREST, centred=False, of="tables")
def forest(inputs: Inputs) -> Rows:
    return torch.from_numpy(np.array(inputs.columns)).to(inputs.device)


NAMES = tuple(VIEWS)
GRAPH_VIEWS = tuple(name for name in NAMES if VIEWS[name].of != "tables")
TABLE_VIEWS = tuple(name for name in NAMES if VIEWS[name].of != "graphs")


@cached_per_graph
def view_names(graph: Graph) -> tuple[str, ...]:
    """The views of this graph."""
    return TABLE_VIEWS if is_table(graph) else GRAPH_VIEWS


def views_in(parameters: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """The views that these parameters were learned with."""
    return TABLE_VIEWS if f"{WAVES}/length" in parameters else GRAPH_VIEWS


def transferable(parameters: Mapping[str, np.ndarray]) -> list[str]:
    """The views among these parameters that can be computed for other nodes."""
    return [name for name in views_in(parameters) if VIEWS[name].transferable]


def is_table(graph: Graph) -> bool:
    """Whether edges link rows of dense columns to their nearest rows, as `neighbour_graph` does."""
    columns, adjacency = graph.features, graph.adjacency
    if not isinstance(columns, np.ndarray) or not graph.communicator.has_whole_graph or not adjacency.nnz:
        return False
    sample = node_keys(graph).argsort()[:SAMPLED_ROWS].numpy()  # independent of the row order
    distances = np.zeros(3)  # sums for neighbours, for equally many nearest rows, and for equally many random rows
    for row in sample:
        neighbours = np.setdiff1d(adjacency.indices[adjacency.indptr[row] : adjacency.indptr[row + 1]], [row])
        count, to_rows = len(neighbours), np.linalg.norm(columns - columns[row], axis=1)
        others = np.partition(np.delete(to_rows, row), min(count, len(to_rows) - 2))
        distances += to_rows[neighbours].sum(), others[:count].sum(), count * others.mean()
    near, nearest, any_row = distances
    further = any_row - nearest  # 0 if all rows are neighbours
    return bool(further > ROUNDING * any_row and near - nearest < NEAREST_SHARE * further)


# ------------------------------------------------------------------------------------------------- building the views


@dataclass(frozen=True, eq=False)
class NodeViews:
    """The rows of every view, and the parameters that compute the same views of another graph."""

    rows: Mapping[str, Rows]
    parameters: Mapping[str, np.ndarray]


def build_views(graph: Graph, settings: ViewSettings, seed: int, device: torch.device) -> NodeViews:
    """All views of a graph; random numbers follow from the seed and from the node's features and edges."""
    with stage("features and edges"):
        unseeded = _views(graph, settings.of_views, device)
    with stage("embeddings"):
        seeded = _views(graph, settings.of_views, device, seed)
    rows = {**unseeded.rows, **seeded.rows}
    return NodeViews({name: rows[name] for name in view_names(graph)}, {**unseeded.parameters, **seeded.parameters})


@cached_per_graph
def _views(graph: Graph, settings: ViewSettings, device: torch.device, seed: int | None = None) -> NodeViews:
    """The views that depend on this seed or, without a seed, those that depend on none."""
    names = [name for name in view_names(graph) if VIEWS[name].seeded == (seed is not None)]
    return views_of(Inputs(graph, settings, device, seed or 0), names)


def views_of(inputs: Inputs, names: Iterable[str]) -> NodeViews:
    """These views, one after the other."""
    return NodeViews(dict(each_view(inputs, names)), inputs.parameters)


def views_elsewhere(
    parameters: Mapping[str, np.ndarray],
    settings: ViewSettings,
    graph: Graph,
    device: torch.device,
    names: Iterable[str] | None = None,
) -> Iterator[tuple[str, Rows]]:
    """The transferable views of another graph, computed with the parameters of the fit; yields one at a time."""
    trained_on = len(parameters[f"{FEATURES}/basis"])
    if graph.num_features != trained_on:
        raise InputError(
            f"the graph has {graph.num_features} features, the model was trained on {trained_on}; "
            "use a graph with the same features"
        )
    inputs = Inputs(graph, settings, device, parameters=parameters)
    return each_view(inputs, transferable(parameters) if names is None else names)


def each_view(inputs: Inputs, names: Iterable[str]) -> Iterator[tuple[str, Rows]]:
    """The name and the rows of these views, one after the other."""
    for name in names:
        inputs.trim()
        rows = VIEWS[name].rows(inputs)
        if VIEWS[name].centred:  # computed in place, since tables may be large
            values = rows[:, :-1]
            functional.normalize(values, out=values)
            values -= inputs.to_device(inputs.learned(f"{name}/centre", partial(inputs.mean_of_rows, values)))
            length = torch.linalg.vector_norm(values, dim=1, keepdim=True)
            values.mul_(torch.where(length < MIN_ROW_LENGTH, 0.0, 1 / length.clamp(min=MIN_ROW_LENGTH)))
        yield name, rows
    inputs.release()


def remember_encoders(parameters: Mapping[str, np.ndarray], graph: Graph, settings: ViewSettings, seed: int) -> None:
    """Let `build_views` with this seed use the encoders of these parameters instead of training new ones."""
    if f"{INFOMAX}/weight" not in parameters:  # a table
        return
    trained = {part: np.stack([parameters[f"{name}/{part}"] for name in ENCODERS]) for part in ("weight", "bias")}
    know_encoders(trained, graph, settings.encoder_input, settings.encoders(graph), seed)


class Inputs:
    """Inputs of the views: the operators of the graph, and intermediate tables that views share.

    Without `parameters` (bases, means, encoders), they are learned; with them, the views of the fit are reproduced.
    """

    def __init__(
        self,
        graph: Graph,
        settings: ViewSettings,
        device: torch.device,
        seed: int = 0,
        parameters: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        self.graph, self.settings, self.device, self.seed = graph, settings, device, seed
        self.communicator = graph.communicator
        self.mean_of_rows = self.communicator.mean_of_rows
        self.parameters = dict(parameters or {})
        self._tables: dict[str, Any] = {}  # not cached_property, whose lock is shared by all threads

    def learned(self, name: str, compute: Callable[[], np.ndarray | Tensor]) -> np.ndarray:
        """The parameter with this name, computed on first use."""
        if name not in self.parameters:
            values = compute()
            self.parameters[name] = values.cpu().numpy() if isinstance(values, Tensor) else values
        return self.parameters[name]

    def to_device(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values.copy()).to(self.device)

    def _once(self, name: str, compute: Callable[[], Any]) -> Any:
        if name not in self._tables:
            self._tables[name] = compute()
        return self._tables[name]

    def release(self) -> None:
        """Drop the intermediate tables."""
        self._tables.clear()
        self.trim()

    def trim(self) -> None:
        """Return freed memory, between tables of different sizes."""
        trim_freed_blocks()

    def far(self, rows: Float[Tensor, "nodes width"]) -> Float[Tensor, "nodes width"]:
        """Personalised PageRank of the rows."""
        return self.walk(rows, self.settings.far_steps, self.settings.far_restart)

    def walk(self, rows: Float[Tensor, "nodes width"], steps: int, restart: float) -> Float[Tensor, "nodes width"]:
        """`steps` times x := (1 - restart) Â x + restart · rows."""
        return personalized_page_rank(rows, self.adjacency.to(rows.dtype), steps, restart)

    @property
    def adjacency(self) -> SparseOperator:
        """Â = D̃^-1/2 (A + I) D̃^-1/2."""
        return self.operators.adjacency

    @property
    def operators(self) -> GraphOperators:
        """Â and X, rows of length 1."""
        return graph_operators(self.graph, SCALING, self.device)

    @property
    def reduced_features(self) -> Float[Tensor, "nodes directions"]:
        """X, rows of length 1, in its leading singular vectors."""
        basis = self.learned(
            f"{FEATURES}/basis",
            lambda: feature_singular_vectors(self.graph, SCALING, self.device, self.settings.directions).float(),
        )
        table: Tensor = self._once("features", lambda: self.operators.feature_operator()(self.to_device(basis)))
        return table

    @property
    def columns(self) -> Float[np.ndarray, "nodes columns"]:
        """The features of a table; new rows may be sparse."""
        features: Any = self.graph.features
        return features if isinstance(features, np.ndarray) else np.asarray(features.todense())

    def scaled_columns(self) -> Float[np.ndarray, "nodes columns"]:
        """The columns, divided by the root mean square of the row lengths."""
        length = self.learned(
            f"{WAVES}/length", lambda: np.sqrt(np.square(self.columns, dtype=np.float64).sum(1).mean(keepdims=True))
        )
        return self.columns / np.maximum(length, MIN_ROW_LENGTH)

    def reduced_edges(self) -> Float[Tensor, "nodes directions"]:
        """D^-1/2 A in its leading singular vectors."""
        # A is symmetric, so the transpose needs no separate matrix.
        adjacency, degrees = self._neighbours()
        scale = (1 / degrees.clamp(min=torch.finfo(torch.float32).tiny).sqrt()).float()[:, None]
        nodes = self.graph.num_nodes
        count = min(num_components(self.settings.edge_directions, self.graph), max(1, nodes - OVERSAMPLING))

        def along_edges(values: Tensor) -> Tensor:
            return personalized_page_rank(values, adjacency, steps=1, restart=0.0)  # a few columns at a time

        def rows(values: Tensor) -> Tensor:
            return along_edges(values).mul_(scale)

        basis = leading_singular_vectors(
            rows,
            lambda values: along_edges(scale * values),
            count,
            keyed_normal(node_keys(self.graph, self.device), 0, min(count + OVERSAMPLING, nodes)),
            self.communicator.orthonormal,
            self.communicator.gram,
        )
        return rows(basis)

    @property
    def _resident(self) -> bool:
        """Whether the matrices of the graph are on a device other than the CPU."""
        return self.device.type != "cpu" and self.communicator.has_whole_graph

    def _neighbours(self) -> tuple[SparseOperator, Float[Tensor, "nodes"]]:
        """A without self-loops, and the sums of its rows."""
        if self._resident:
            there = without_self_loops(device_adjacency(self.graph, self.device))
            return ResidentOperator(there, symmetric=True), row_sums(there[2].double(), there[0])
        neighbours = _without_self_loops(self.graph)
        degrees = torch.from_numpy(np.asarray(neighbours.sum(axis=1), dtype=np.float64))
        operator = SparseOperator(neighbours, self.device, symmetric=True, communicator=self.communicator)
        return operator, degrees.to(self.device)

    def sizes(self) -> Float[np.ndarray, "nodes sizes"]:
        """log(1 + degree) and log(1 + |features|₁) of a node, and their means over neighbours and second neighbours."""
        if self._resident:
            return on_host(sizes_on_device(self.graph, self.device))
        neighbours = _without_self_loops(self.graph)
        degrees = np.asarray(neighbours.sum(axis=1), dtype=np.float64)
        own = own_sizes(degrees, self.graph.features)
        share = np.divide(1, degrees, out=np.zeros_like(degrees), where=degrees > 0)[:, None]

        def mean_of_neighbours(values: np.ndarray) -> np.ndarray:
            mean: np.ndarray = share * (neighbours @ self.communicator.with_boundary(torch.from_numpy(values)).numpy())
            return mean

        around = mean_of_neighbours(own)
        return np.concatenate([own, around, mean_of_neighbours(around)], axis=1)

    def embeddings(self, name: str) -> Rows:
        """Embeddings by the encoder with this name."""
        seen = self.settings.encoder_input

        def trained(part: str) -> np.ndarray:
            arguments = self.graph, seen, self.settings.encoders(self.graph), self.seed, self.device
            encoders: Encoders = self._once("encoders", partial(trained_encoders, *arguments))
            return encoders[part][ENCODERS.index(name)]

        weight, bias = (self.learned(f"{name}/{part}", partial(trained, part)) for part in ("weight", "bias"))
        return encode(
            self.graph, seen, weight, bias, self.settings.infomax_slope, self.device, self.walk, self.operators
        )


def sizes_on_device(graph: Graph, device: torch.device) -> Float[Tensor, "nodes sizes"]:
    """`Inputs.sizes`, computed on the device in doubles."""
    matrix = without_self_loops(device_adjacency(graph, device))
    degrees = row_sums(matrix[2].double(), matrix[0])
    if isinstance(graph.features, np.ndarray):
        amount = torch.linalg.vector_norm(device_features(graph, device), 1, dim=1, dtype=torch.float64)
        own = torch.stack([degrees, amount], 1).log1p()
    else:
        own = on_device(own_sizes(degrees.cpu().numpy(), graph.features), np.float64, device)
    share = torch.where(degrees > 0, 1 / degrees, 0.0)[:, None]
    around = share * neighbour_sums(matrix, own, graph.adjacency.indptr)
    return torch.cat([own, around, share * neighbour_sums(matrix, around, graph.adjacency.indptr)], 1)


def own_sizes(
    degrees: Float[np.ndarray, "nodes"], features: sp.csr_array | np.ndarray | None
) -> Float[np.ndarray, "nodes 2"]:
    """log(1 + degree) and log(1 + |features|₁) of each node."""
    amount = np.zeros(len(degrees)) if features is None else np.asarray(abs(features).sum(axis=1))
    return np.log1p(np.stack([degrees, amount.ravel()], axis=1, dtype=np.float64))


def random_cosines(
    values: Float[np.ndarray, "nodes columns"], waves: int, frequency: float, device: torch.device
) -> Float[Tensor, "nodes waves_and_one"]:
    """Random cosine features (Rahimi and Recht, 2007): a linear function of them is a smooth function of the values.
    Frequencies have this standard deviation."""
    standardised, by, shift = (
        torch.from_numpy(array.astype(np.float32)).to(device)
        for array in (values, *_waves(values.shape[1], waves, frequency))
    )
    rows = torch.ones(len(values), waves + 1, device=device)
    cosines = torch.addmm(shift, standardised, by, out=rows[:, :-1])
    for part in cosines.split(SMALL if len(rows) == 1 else waves, dim=1):
        part.cos_()
    return rows


@lru_cache(1)
def _waves(columns: int, waves: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Random frequencies and phases."""
    random = np.random.default_rng(1)
    return scale * random.standard_normal((columns, waves)), random.uniform(0, 2 * math.pi, waves)


def _without_self_loops(graph: Graph) -> sp.csr_array:
    """The adjacency without its diagonal; not copied if the diagonal is 0."""
    adjacency = relative_adjacency(graph)
    loops = adjacency.diagonal()
    if not loops.any():
        return adjacency
    neighbours = sp.csr_array(adjacency - sp.diags_array(loops, shape=adjacency.shape))
    neighbours.eliminate_zeros()
    return neighbours


def with_ones(rows: Float[Tensor, "nodes width"]) -> Rows:
    """Append the column of ones."""
    return torch.cat([rows, rows.new_ones(len(rows), 1)], 1)


def view_bytes(graph: Graph, settings: ViewSettings) -> int:
    """Estimated peak memory of building the views: during the SVD of the edges, while encoders are trained, or while
    the nodes are encoded."""
    encoders = settings.encoders(graph)
    of_features = min(num_components(settings.directions, graph), graph.num_features) + 1
    of_edges = min(num_components(settings.edge_directions, graph), max(1, graph.num_nodes - OVERSAMPLING)) + 1
    hops = len(settings.hop_steps) * min(settings.hop_directions, of_features) + 1
    other = 3 * of_features + hops + of_edges + settings.size_waves + 1  # width of all views but the embeddings
    number = torch.float32.itemsize
    svd = graph.num_nodes * (3 * of_features + SVD_TABLES * (of_edges + OVERSAMPLING))
    training = graph.num_nodes * other + encoders.bytes_for(graph) // number
    encoding = graph.num_nodes * (other + 2 * (encoders.dimensions + 1) + encoders.dimensions)
    return number * max(svd, training, encoding)
