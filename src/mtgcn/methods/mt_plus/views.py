"""What peers that differ in kind see of the nodes: for each a table of rows, and how to make the same of another graph.

    features            X, rows of length 1, in its leading directions
    near neighbourhood  Â² X
    far neighbourhood   personalised PageRank of X
    infomax             embeddings of an encoder that was trained freely
    held infomax        embeddings of one whose weights were held back
    edges               whom a node is connected with, D^-1/2 A, in its leading directions
    far edges           personalised PageRank of these: what label propagation sees
    size                degree and amount of features, of the node, its neighbours and theirs

All rows have length 1, so that one penalty means the same for each of them. What all rows have in common is taken out;
but for the held infomax peer, where on some graphs it helps and on none it harms more than the free one makes good.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional

from mtgcn.graph_cache import cached_per_graph
from mtgcn.linalg.arrays import on_device, on_host
from mtgcn.linalg.graph_operators import graph_operators
from mtgcn.linalg.node_keys import keyed_normal, node_keys
from mtgcn.linalg.normalisation import device_adjacency, device_features, neighbour_sums, row_sums, without_self_loops
from mtgcn.linalg.operators import ResidentOperator, SparseOperator
from mtgcn.linalg.pagerank import personalized_page_rank
from mtgcn.linalg.truncated_svd import OVERSAMPLING, feature_singular_vectors, leading_singular_vectors, num_components
from mtgcn.memory import trim_freed_blocks
from mtgcn.methods.mt_plus.encoders import encode, know_encoders, trained_encoders
from mtgcn.nn.infomax import InfomaxSettings, Propagation
from mtgcn.shapes import Float
from mtgcn.training.progress import stage

if TYPE_CHECKING:
    from mtgcn.graph import Graph

FEATURES, NEAR, FAR = "features", "near neighbourhood", "far neighbourhood"
INFOMAX, HELD_INFOMAX = "infomax embeddings", "held infomax embeddings"
EDGES, FAR_EDGES, SIZE = "edges", "far edges", "size"
PEERS = (FEATURES, NEAR, FAR, INFOMAX, HELD_INFOMAX, EDGES, FAR_EDGES, SIZE)
CENTRED = tuple(name for name in PEERS if name != HELD_INFOMAX)
OF_THEIR_GRAPH = (EDGES, FAR_EDGES)  # they know nodes by their place in it
OF_ANY_GRAPH = tuple(name for name in PEERS if name not in OF_THEIR_GRAPH)  # those that can be taken elsewhere

SCALING = "length"
NEAR_STEPS = 2
FAR_STEPS, FAR_RESTART = 20, 0.1
ENCODED = Propagation(SCALING, steps=4, restart=0.2)  # what the encoders see
WAVES, FREQUENCY = 256, 0.5  # of cosines that make sizes a smooth function of six numbers
ENCODERS = (INFOMAX, HELD_INFOMAX)  # as they stand side by side in training
ENCODER_PARTS = ("weight", "bias")
ROUNDING = 1e-5  # of a row of length 1 in 32 bits, after some sums
# As many passes over a number as take the time of making a key of an edge, of drawing one, of centring one.
KEYED_LIKE, DRAWN_LIKE, PASSES_OF_CENTRING = 100, 60, 10
SMALLEST_SPREAD = 1e-6  # of a size, below which all nodes have the same
SEARCHED_TABLES = 7  # of directions that there are at a time while they are searched for


@dataclass(frozen=True)
class InputSettings:
    """How the rows are made."""

    directions: int = 256  # of the features that are kept
    edge_directions: int = 256  # of the edges
    dimensions: int = 256  # of an encoder's embeddings
    held_decay: float = 4e-3  # weight decay of the encoder that is held back
    infomax_epochs: int = 200

    def encoders(self, graph: Graph) -> InfomaxSettings:
        """How the two encoders are trained on this graph."""
        settings = InfomaxSettings(self.dimensions, epochs=self.infomax_epochs, held_decay=self.held_decay)
        return settings.for_graph(graph)

    def width(self, graph: Graph, peer: str) -> int:
        """Of the rows that a peer sees."""
        if peer in (FEATURES, NEAR, FAR):
            return min(num_components(self.directions, graph), graph.num_features) + 1
        if peer in OF_THEIR_GRAPH:
            return min(num_components(self.edge_directions, graph), max(1, graph.num_nodes - OVERSAMPLING)) + 1
        return (WAVES if peer == SIZE else self.encoders(graph).dimensions) + 1

    def bytes_for(self, graph: Graph) -> int:
        """About what the rows take and, while they are made, what stands beside those that are there already: the
        search for directions of the edges, then what encoders see of the nodes, then what one encoder makes of them."""
        widths = {peer: self.width(graph, peer) for peer in PEERS}
        encoded = sum(widths[peer] for peer in ENCODERS)
        of_features = sum(widths[peer] for peer in (FEATURES, NEAR, FAR))
        rows, number = sum(widths.values()), torch.float32.itemsize
        searching = graph.num_nodes * (of_features + SEARCHED_TABLES * (widths[EDGES] + OVERSAMPLING))
        training = graph.num_nodes * (rows - encoded) + self.encoders(graph).bytes_for(graph) // number
        encoding = graph.num_nodes * (rows + self.encoders(graph).dimensions)
        return number * max(searching, training, encoding)


@dataclass(frozen=True, eq=False)
class PeerInputs:
    """The rows of every peer, each with a last column of ones, and what makes the same rows of another graph."""

    rows: Mapping[str, Float[Tensor, "nodes width"]]
    parameters: Mapping[str, np.ndarray]


def peer_inputs(graph: Graph, settings: InputSettings, seed: int, device: torch.device) -> PeerInputs:
    """The rows of a graph's nodes; what is random in them follows from the seed and from what nodes are."""
    with stage("features and edges"):
        shared = _without_encoders(graph, settings, device)
    with stage("embeddings"):
        encoded = _of_encoders(graph, settings.encoders(graph), seed, device)
    rows = {**shared.rows, **encoded.rows}
    return PeerInputs({name: rows[name] for name in PEERS}, {**shared.parameters, **encoded.parameters})


def remember_encoders(parameters: Mapping[str, np.ndarray], graph: Graph, settings: InputSettings, seed: int) -> None:
    """Let `peer_inputs` with this seed take the encoders among these parameters, which an earlier fit on the same graph
    has trained, instead of training others."""
    trained = {part: np.stack([parameters[f"{name}/{part}"] for name in ENCODERS]) for part in ENCODER_PARTS}
    know_encoders(trained, graph, ENCODED, settings.encoders(graph), seed)


def inputs_elsewhere(
    parameters: Mapping[str, np.ndarray], graph: Graph, device: torch.device
) -> Iterator[tuple[str, Float[Tensor, "nodes width"]]]:
    """The rows that the peers `OF_ANY_GRAPH` see of another graph, made as those they learned from: one peer after the
    other, so that nobody need hold the rows of all."""
    for name, rows in _uncentred_elsewhere(parameters, graph, device):
        if name in CENTRED:
            centre_rows(at_length_one(rows), torch.from_numpy(parameters[f"{name}/centre"].copy()).to(device))
        yield name, rows


def _uncentred_elsewhere(
    parameters: Mapping[str, np.ndarray], graph: Graph, device: torch.device
) -> Iterator[tuple[str, Float[Tensor, "nodes width"]]]:
    # Encoders first: they refuse a graph whose features are not those they know.
    for name in ENCODERS:
        weight, bias = (parameters[f"{name}/{part}"] for part in ENCODER_PARTS)
        yield name, encode(graph, ENCODED, weight, bias, device)
    basis = torch.from_numpy(parameters[f"{FEATURES}/basis"].copy()).to(device)
    tables = walked_tables(_reduced(graph, basis, device), graph_operators(graph, SCALING, device).adjacency)
    for name in list(tables):
        yield name, with_ones(tables.pop(name))
    yield SIZE, waves_of(_sizes(graph, device), parameters[f"{SIZE}/mean"], parameters[f"{SIZE}/spread"], device)


@cached_per_graph
def _of_encoders(graph: Graph, settings: InfomaxSettings, seed: int, device: torch.device) -> PeerInputs:
    """What the infomax peers see."""
    trained = trained_encoders(graph, ENCODED, settings, seed, device)
    rows: dict[str, Tensor] = {}
    parameters: dict[str, np.ndarray] = {}
    for number, name in enumerate(ENCODERS):
        trim_freed_blocks()  # which the corrupted graphs have left, or the encoder before
        weight, bias = (trained[part][number] for part in ENCODER_PARTS)
        rows[name] = encode(graph, ENCODED, weight, bias, device)
        parameters |= {f"{name}/weight": weight, f"{name}/bias": bias}
        if name in CENTRED:
            parameters[f"{name}/centre"] = centre_rows(at_length_one(rows[name])).cpu().numpy()
    trim_freed_blocks()
    return PeerInputs(rows, parameters)


@cached_per_graph
def _without_encoders(graph: Graph, settings: InputSettings, device: torch.device) -> PeerInputs:
    basis = feature_singular_vectors(graph, SCALING, device, settings.directions)
    adjacency = graph_operators(graph, SCALING, device).adjacency
    tables = walked_tables(_reduced(graph, basis, device), adjacency)
    tables[EDGES] = _edge_directions(graph, num_components(settings.edge_directions, graph), device)
    edges = functional.normalize(tables[EDGES])
    tables[FAR_EDGES] = personalized_page_rank(edges, adjacency, FAR_STEPS, FAR_RESTART)
    del edges
    trim_freed_blocks()  # which the search for directions has left
    rows = {name: with_ones(tables.pop(name)) for name in list(tables)}  # never two copies of them all
    sizes = _sizes(graph, device)
    mean, spread = sizes.mean(axis=0), np.maximum(sizes.std(axis=0), SMALLEST_SPREAD)
    rows[SIZE] = waves_of(sizes, mean, spread, device)
    parameters = {f"{FEATURES}/basis": basis.cpu().numpy(), f"{SIZE}/mean": mean, f"{SIZE}/spread": spread}
    for name, mine in rows.items():
        parameters[f"{name}/centre"] = centre_rows(at_length_one(mine)).cpu().numpy()
    trim_freed_blocks()
    return PeerInputs(rows, parameters)


def _reduced(graph: Graph, basis: Float[Tensor, "features directions"], device: torch.device) -> Tensor:
    return graph_operators(graph, SCALING, device).feature_operator()(basis)


def walked_tables(features: Float[Tensor, "nodes directions"], adjacency: SparseOperator) -> dict[str, Tensor]:
    """The features of a node, and of its near and far neighbourhood."""
    return {
        FEATURES: features,
        NEAR: personalized_page_rank(features, adjacency, NEAR_STEPS, restart=0.0),
        FAR: personalized_page_rank(features, adjacency, FAR_STEPS, FAR_RESTART),
    }


def _edge_directions(graph: Graph, count: int, device: torch.device) -> Float[Tensor, "nodes directions"]:
    """The rows of D^-1/2 A in their leading directions. A is symmetric, so the transpose needs no matrix of its own."""
    adjacency, degrees = _edges(graph, device)
    scale = (1 / degrees.clamp(min=torch.finfo(torch.float32).tiny).sqrt()).float()[:, None]
    count = min(count, max(1, graph.num_nodes - OVERSAMPLING))
    start = keyed_normal(node_keys(graph, device), 0, min(count + OVERSAMPLING, graph.num_nodes))

    def along_edges(values: Tensor) -> Tensor:
        return personalized_page_rank(values, adjacency, steps=1, restart=0.0)  # a few columns at a time

    def rows(values: Tensor) -> Tensor:
        return along_edges(values).mul_(scale)

    basis = leading_singular_vectors(rows, lambda values: along_edges(scale * values), count, start)
    return rows(basis)


def _edges(graph: Graph, device: torch.device) -> tuple[SparseOperator, Float[Tensor, "nodes"]]:
    """A without self-loops, and the sums of its rows."""
    if device.type != "cpu":
        there = without_self_loops(device_adjacency(graph, device))
        return ResidentOperator(there, symmetric=True), row_sums(there[2].double(), there[0])
    neighbours = _without_self_loops(graph)
    degrees = torch.from_numpy(np.asarray(neighbours.sum(axis=1), dtype=np.float64))
    return SparseOperator(neighbours, device, symmetric=True), degrees


def _sizes(graph: Graph, device: torch.device) -> Float[np.ndarray, "nodes sizes"]:
    """Degree and sum of features, in logarithms: of a node, of its neighbours and of theirs, on average."""
    if device.type != "cpu":
        return on_host(sizes_there(graph, device))
    neighbours = _without_self_loops(graph)
    degrees = np.asarray(neighbours.sum(axis=1), dtype=np.float64)
    own = own_sizes(degrees, graph.features)
    share = np.divide(1, degrees, out=np.zeros_like(degrees), where=degrees > 0)[:, None]
    around = share * (neighbours @ own)
    return np.concatenate([own, around, share * (neighbours @ around)], axis=1)


def sizes_there(graph: Graph, device: torch.device) -> Float[Tensor, "nodes sizes"]:
    """The same by the device itself, in doubles."""
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
    """Degree and sum of features of each node, in logarithms."""
    amount = np.zeros(len(degrees)) if features is None else np.asarray(abs(features).sum(axis=1))
    return np.log1p(np.stack([degrees, amount.ravel()], axis=1, dtype=np.float64))


def waves_of(
    sizes: np.ndarray, mean: np.ndarray, spread: np.ndarray, device: torch.device
) -> Float[Tensor, "nodes waves_and_one"]:
    """Random cosines of the sizes (Rahimi and Recht, 2007): a linear function of them is a smooth one of the sizes.
    With a last column of ones: to append it would take a copy of what is often the widest table."""
    random = np.random.default_rng(1)
    frequencies = FREQUENCY * random.standard_normal((sizes.shape[1], WAVES))
    phases = random.uniform(0, 2 * math.pi, WAVES)
    usual, by, shift = (
        torch.from_numpy(values.astype(np.float32)).to(device)
        for values in ((sizes - mean) / spread, frequencies, phases)
    )
    rows = torch.ones(len(sizes), WAVES + 1, device=device)
    torch.addmm(shift, usual, by, out=rows[:, :-1]).cos_()
    return rows


def _without_self_loops(graph: Graph) -> sp.csr_array:
    """The adjacency; where no node is its own neighbour, as mostly, without a copy of it."""
    loops = graph.adjacency.diagonal()
    if not loops.any():
        return graph.adjacency
    neighbours = sp.csr_array(graph.adjacency - sp.diags_array(loops))
    neighbours.eliminate_zeros()
    return neighbours


# In place, and beside the column of ones: on large graphs every further copy of a table counts.


def at_length_one(rows: Float[Tensor, "nodes width_and_one"]) -> Float[Tensor, "nodes width_and_one"]:
    """The same rows, each now of length 1 but for its last column of ones, which stays."""
    functional.normalize(rows[:, :-1], out=rows[:, :-1])
    return rows


def centre_rows(
    rows: Float[Tensor, "nodes width_and_one"], centre: Float[Tensor, "width"] | None = None
) -> Float[Tensor, "width"]:
    """Take their mean, or the one given, out of rows of length 1, which are brought to length 1 again; returns the
    mean. Taking it out before rows have length 1 would bring their sizes back in. A row that is the mean but for
    rounding becomes 0."""
    apart = rows[:, :-1]
    centre = apart.mean(0) if centre is None else centre
    apart -= centre
    length = torch.linalg.vector_norm(apart, dim=1, keepdim=True)
    apart.mul_(torch.where(length < ROUNDING, 0.0, 1 / length.clamp(min=ROUNDING)))
    return centre


def with_ones(rows: Float[Tensor, "nodes width"]) -> Float[Tensor, "nodes width_and_one"]:
    """With a last column for the constant."""
    return torch.cat([rows, rows.new_ones(len(rows), 1)], 1)
