"""Infomax encoders of a graph: trained once per graph and seed, and kept in the user's cache folder."""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mtgcn.graph import Graph
from mtgcn.graph_cache import cached_per_graph
from mtgcn.linalg.graph_operators import graph_operators
from mtgcn.linalg.node_keys import keyed_permutations, node_keys, random_order
from mtgcn.linalg.operators import DenseOperator
from mtgcn.linalg.pagerank import personalized_page_rank
from mtgcn.linalg.truncated_svd import feature_singular_vectors
from mtgcn.nn.infomax import Infomax, InfomaxSettings, Propagation, Views, activated
from mtgcn.shapes import Float, Int
from mtgcn.storage.cache import cached_arrays, fingerprint
from mtgcn.training.loop import Adam, Phase, Step, train

CACHE = "infomax"  # folder of the cache
RECIPE = 5  # raise it when the same settings no longer give the same encoders
BATCH_STREAM = 0xBA7C4  # random numbers of the batches
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
) -> Float[Tensor, "nodes dimensions_and_one"]:
    """Embeddings of the nodes of any graph: rows of length 1, followed by a column of ones."""
    operators = graph_operators(graph, propagation.feature_scaling, device)
    features = operators.feature_operator()
    by, add = (torch.from_numpy(np.array(values)).to(device) for values in (weight, bias))

    def propagated(values: Tensor) -> Tensor:
        return personalized_page_rank(values, operators.adjacency, propagation.steps, propagation.restart)

    # The narrower of features and embeddings is propagated; the result is the same.
    dense = features.matrix if isinstance(features, DenseOperator) and weight.shape[0] < weight.shape[1] else None
    surroundings = propagated(features(by) if dense is None else dense)
    rows = torch.ones(graph.num_nodes, weight.shape[1] + 1, device=device)
    values = rows[:, :-1]
    if dense is None:
        values.copy_(surroundings)
    else:
        torch.mm(surroundings, by, out=values)
    for block in values.split(ROWS_PER_BLOCK):  # in place, which saves a copy of a large table
        block.copy_(functional.normalize(activated(block, add, slope), dim=-1))
    return rows


def know_encoders(
    trained: Mapping[str, np.ndarray], graph: Graph, propagation: Propagation, settings: InfomaxSettings, seed: int
) -> None:
    """Let `trained_encoders` return these for this graph: a stored model brings its encoders."""
    _known.setdefault(graph.without_labels, {})[propagation, settings, seed] = dict(trained)


def trained_encoders(
    graph: Graph, propagation: Propagation, settings: InfomaxSettings, seed: int, device: torch.device
) -> Encoders:
    """The trained encoders: known already, from the cache, or trained now."""
    known = _known.get(graph.without_labels, {}).get((propagation, settings, seed))
    if known is not None:
        return known
    encoders, dimensions = len(settings.weight_decays), settings.dimensions
    shapes = {"weight": (encoders, graph.num_features, dimensions), "bias": (encoders, dimensions)}
    # Devices and numbers of threads split sums differently, which changes the last digits.
    threads = torch.get_num_threads() if device.type == "cpu" else 0
    recipe = (RECIPE, propagation, settings, seed, device.type, threads, torch.__version__)
    name = fingerprint((recipe, _graph_fingerprint(graph)))
    return cached_arrays(CACHE, name, shapes, lambda: _train(graph, propagation, settings, seed, device))


def _train(
    graph: Graph, propagation: Propagation, settings: InfomaxSettings, seed: int, device: torch.device
) -> Encoders:
    scaling, steps, restart = propagation.feature_scaling, propagation.steps, propagation.restart
    basis = feature_singular_vectors(graph, scaling, device, settings.width, steps, restart)
    network = Infomax(training_rows(graph, propagation, basis, settings, seed, device), settings, seed, device)
    phase = Phase(settings.epochs, lambda: Step({"infomax": network.loss()}))
    train(network, [phase], Adam(settings.learning_rate))
    with torch.no_grad():  # from the basis back to the features
        weight = torch.einsum("fw,wed->efd", basis, network.weight[:, 0])
    return {"weight": weight.cpu().numpy(), "bias": network.bias[0].detach().cpu().numpy()}


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
    features = operators.feature_operator()(basis)

    def propagated(values: Tensor) -> Tensor:
        return personalized_page_rank(values, operators.adjacency, propagation.steps, propagation.restart)

    keys, count = node_keys(graph, device), settings.corruptions(*features.shape)
    corrupted = torch.empty((count, *features.shape), device=device)
    for rows, order in zip(corrupted, keyed_permutations(keys, seed, count), strict=True):
        rows.copy_(propagated(features.index_select(0, order)))
    return Views(propagated(features), corrupted, _batches(keys, settings, seed))


def _batches(keys: Int[Tensor, "nodes"], settings: InfomaxSettings, seed: int) -> Int[Tensor, "epochs batch"]:
    """The nodes of each epoch: all of a small graph, else consecutive parts of random orders."""
    nodes, epochs, size = len(keys), max(1, settings.epochs), settings.batch_size
    if nodes <= size:
        return torch.arange(nodes, device=keys.device).repeat(epochs, 1)
    wanted = epochs * size
    shuffled = [random_order(keys, seed, BATCH_STREAM + number)[:wanted] for number in range(-(-wanted // nodes))]
    return torch.cat(shuffled)[:wanted].reshape(-1, size)
