"""Infomax encoders of a graph: trained once per graph and seed, and kept in the user's cache folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mtgcn.graph import Graph
from mtgcn.graph_cache import cached_per_graph
from mtgcn.linalg.node_keys import keyed_bits, node_keys
from mtgcn.linalg.normalisation import GraphOperators, graph_operators
from mtgcn.linalg.operators import DenseOperator
from mtgcn.linalg.pagerank import feature_singular_vectors, personalized_page_rank
from mtgcn.nn.infomax import Infomax, InfomaxSettings, Propagation, Views, activated
from mtgcn.shapes import Float
from mtgcn.storage.cache import cached_arrays, fingerprint
from mtgcn.task import MISSING
from mtgcn.training.loop import Adam, Phase, Step, train

CACHE = "infomax"  # name of the cache folder
RECIPE = 6  # version, increased when the same settings give different encoders
BATCH_STREAM = 0xBA7C4  # stream of the random batches
ROWS_PER_BLOCK = 2**16  # rows normalised at once
Encoders = dict[str, np.ndarray]  # weight: encoders x features x dimensions; bias: encoders x dimensions
_known: WeakKeyDictionary[Graph, dict[tuple[Propagation, InfomaxSettings, int], Encoders]] = WeakKeyDictionary()


def encode(
    graph: Graph,
    propagation: Propagation,
    weight: Float[np.ndarray, "features dimensions"],
    bias: Float[np.ndarray, "dimensions"],
    slope: float,
    device: torch.device,
    walk: Callable[[Tensor, int, float], Tensor] | None = None,
    operators: GraphOperators | None = None,
) -> Float[Tensor, "nodes dimensions_and_one"]:
    """Embeddings of the nodes of any graph: rows of length 1, followed by a column of ones.

    `walk(rows, steps, restart)` propagates rows; by default along the edges of this graph.
    """
    operators = operators or graph_operators(graph, propagation.feature_scaling, device)
    dtype = graph.communicator.dtype
    features = operators.feature_operator().to(dtype)
    by, add = (torch.from_numpy(np.array(values)).to(device, dtype) for values in (weight, bias))

    # The narrower of features and embeddings is propagated, with the same result.
    dense = features.matrix if isinstance(features, DenseOperator) and weight.shape[0] < weight.shape[1] else None
    if walk is None:
        walk = lambda rows, *steps: personalized_page_rank(rows, operators.adjacency.to(dtype), *steps)  # noqa: E731
    surroundings = walk(features(by) if dense is None else dense, propagation.steps, propagation.restart)
    rows = torch.ones(len(surroundings), weight.shape[1] + 1, device=device, dtype=dtype)
    values = rows[:, :-1]
    if dense is None:
        values.copy_(surroundings)
    else:
        torch.mm(surroundings, by, out=values)
    for block in values.split(ROWS_PER_BLOCK):  # in place, which saves a copy of a large table
        block.copy_(functional.normalize(activated(block, add, slope), dim=-1))
    return rows.float()


def know_encoders(
    trained: Mapping[str, np.ndarray], graph: Graph, propagation: Propagation, settings: InfomaxSettings, seed: int
) -> None:
    """Let `trained_encoders` return the encoders of a stored model for this graph."""
    _known.setdefault(graph.without_labels, {})[propagation, settings, seed] = dict(trained)


def trained_encoders(
    graph: Graph, propagation: Propagation, settings: InfomaxSettings, seed: int, device: torch.device
) -> Encoders:
    """The trained encoders: already in memory, from the cache, or trained now."""
    known = _known.get(graph.without_labels, {}).get((propagation, settings, seed))
    if known is not None:
        return known
    if not graph.communicator.has_whole_graph:
        return _train(graph, propagation, settings, seed, device)
    encoders, dimensions = len(settings.weight_decays), settings.dimensions
    shapes = {"weight": (encoders, graph.num_features, dimensions), "bias": (encoders, dimensions)}
    # The order of sums depends on device and number of threads, which changes the last digits.
    threads = torch.get_num_threads() if device.type == "cpu" else 0
    recipe = (RECIPE, propagation, settings, seed, device.type, threads, torch.__version__)
    name = fingerprint((recipe, _graph_fingerprint(graph)))
    return cached_arrays(CACHE, name, shapes, lambda: _train(graph, propagation, settings, seed, device))


def _train(
    graph: Graph, propagation: Propagation, settings: InfomaxSettings, seed: int, device: torch.device
) -> Encoders:
    scaling, steps, restart = propagation.feature_scaling, propagation.steps, propagation.restart
    basis = feature_singular_vectors(graph, scaling, device, settings.width, steps, restart)
    rows = training_rows(graph, propagation, basis, settings, seed, device)
    network = Infomax(rows, settings, seed, device, graph.communicator)
    phase = Phase(settings.epochs, lambda: Step({"infomax": network.loss()}))
    # Every process has the rows of the whole batch, so all take the same step.
    train(network, [phase], Adam(settings.learning_rate), graph.communicator, replicated=True)
    with torch.no_grad():  # transform weights from the basis to the features
        weight = torch.einsum("fw,wed->efd", basis, network.weight[:, 0])
        bias = network.bias[0]
    return {"weight": weight.float().cpu().numpy(), "bias": bias.detach().float().cpu().numpy()}


@cached_per_graph
def _graph_fingerprint(graph: Graph) -> str:
    return fingerprint("graph", graph.adjacency, graph.features)


def training_rows(
    graph: Graph,
    propagation: Propagation,
    basis: Float[Tensor, "features width"],
    settings: InfomaxSettings,
    seed: int,
    device: torch.device,
) -> Views:
    """Propagated features of the graph and of corrupted graphs, and the batches of each epoch.

    Corruptions and batches are random functions of the features and edges of nodes, not of their order."""
    operators = graph_operators(graph, propagation.feature_scaling, device)
    adjacency = operators.adjacency.to(basis.dtype)
    features = operators.feature_operator().to(basis.dtype)(basis)

    def propagated(values: Tensor) -> Tensor:
        return personalized_page_rank(values, adjacency, propagation.steps, propagation.restart)

    keys = node_keys(graph, device)
    count = settings.corruptions(graph.num_nodes, features.shape[1])
    corrupted = torch.empty((count, *features.shape), device=device, dtype=basis.dtype)
    for number, rows in enumerate(corrupted):
        receiver, giver = (keyed_bits(keys, seed, 2 * number + half) for half in (0, 1))
        rows.copy_(propagated(graph.communicator.permute(features, receiver, giver)))

    # Nodes of each epoch: all nodes of a small graph, else consecutive parts of random orders. Nodes of other processes
    # are MISSING.
    nodes, epochs = graph.num_nodes, max(1, settings.epochs)
    own = torch.arange(len(keys), device=device)
    if nodes <= settings.batch_size:
        batch = torch.full((nodes,), MISSING, device=device)
        batches = batch.scatter_(0, graph.communicator.numbers(len(keys), device), own).repeat(epochs, 1)
    else:
        slots = torch.full((epochs * settings.batch_size,), MISSING, device=device)
        for number in range(-(-len(slots) // nodes)):
            place = graph.communicator.positions(keyed_bits(keys, seed, BATCH_STREAM + number)) + number * nodes
            slots[place[place < len(slots)]] = own[place < len(slots)]
        batches = slots.view(epochs, -1)
    return Views(propagated(features), corrupted, batches)
