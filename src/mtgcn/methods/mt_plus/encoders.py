"""Embeddings of all nodes by trained infomax encoders, made once per graph and kept in the user's cache folder."""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.graph_cache import cached_per_graph
from mtgcn.linalg.graph_operators import graph_operators
from mtgcn.linalg.node_keys import keyed_permutations, node_keys, random_order
from mtgcn.linalg.operators import DenseOperator
from mtgcn.linalg.pagerank import personalized_page_rank
from mtgcn.linalg.truncated_svd import feature_singular_vectors
from mtgcn.nn.infomax import NODES_AT_ONCE, Infomax, InfomaxSettings, Propagation, Views, activated
from mtgcn.shapes import Float, Int
from mtgcn.storage.cache import cached_arrays, fingerprint, is_cached
from mtgcn.training.loop import Adam, Phase, Step, train

KIND = "infomax"  # what they are called where they are kept
RECIPE = 4  # raise it when the same settings no longer give the same encoders
SORTED_LIKE, HASHED_LIKE = 100, 10  # passes over a number take as long as sorting, or hashing it
BATCHES = 0xBA7C4  # tells what is drawn for batches from what else a seed decides
ROWS_AT_ONCE = 2**16  # that are brought to length 1 together
Encoders = dict[str, np.ndarray]  # weight: encoders x features x dimensions; bias: encoders x dimensions
_known: WeakKeyDictionary[Graph, dict[tuple[Propagation, InfomaxSettings, int], Encoders]] = WeakKeyDictionary()


def encode(
    graph: Graph,
    propagation: Propagation,
    weight: Float[np.ndarray, "features dimensions"],
    bias: Float[np.ndarray, "dimensions"],
    device: torch.device,
) -> Float[Tensor, "nodes dimensions_and_one"]:
    """What a trained encoder makes of the nodes of a graph, which need not be the one it was trained on: rows of length
    1, each with a one behind it, since to append that later takes a copy of them all."""
    if graph.num_features != len(weight):
        raise InputError(
            f"a graph with {graph.num_features} features, where the encoder has learned from {len(weight)}; "
            "use a graph with the features that it was trained with"
        )
    operators = graph_operators(graph, propagation.feature_scaling, device)
    features = operators.feature_operator()
    by, add = (torch.from_numpy(np.ascontiguousarray(values)).to(device) for values in (weight, bias))

    def propagated(values: Tensor) -> Tensor:
        return personalized_page_rank(values, operators.adjacency, propagation.steps, propagation.restart)

    # Whatever is narrower goes along the edges; the result is the same.
    dense = features.matrix if isinstance(features, DenseOperator) and weight.shape[0] < weight.shape[1] else None
    surroundings = propagated(features(by) if dense is None else dense)
    rows = torch.ones(graph.num_nodes, weight.shape[1] + 1, device=device)
    values = rows[:, :-1]
    if dense is None:
        values.copy_(surroundings)
    else:
        torch.mm(surroundings, by, out=values)
    for some in values.split(ROWS_AT_ONCE):  # in place: on large graphs every further copy of a table counts
        some.copy_(functional.normalize(activated(some, add), dim=-1))
    return rows


def know_encoders(
    trained: Mapping[str, np.ndarray], graph: Graph, propagation: Propagation, settings: InfomaxSettings, seed: int
) -> None:
    """Take these for what training with these settings and this seed would give, as long as the graph is there: a
    stored model has its encoders, on whatever machine and with whatever version they were trained."""
    _known.setdefault(graph.without_labels, {})[propagation, settings, seed] = dict(trained)


def trained_encoders(
    graph: Graph, propagation: Propagation, settings: InfomaxSettings, seed: int, device: torch.device
) -> Encoders:
    """The trained encoders, from whoever has them already or from the cache where they are kept."""
    known = _known.get(graph.without_labels, {}).get((propagation, settings, seed))
    if known is not None:
        return known
    name = _kept_name(graph, propagation, settings, seed, device)
    encoders, dimensions = len(settings.weight_decays), settings.dimensions
    shapes = {"weight": (encoders, graph.num_features, dimensions), "bias": (encoders, dimensions)}

    def train_anew() -> Encoders:
        scaling, steps, restart = propagation.feature_scaling, propagation.steps, propagation.restart
        basis = feature_singular_vectors(graph, scaling, device, settings.width, steps, restart)
        network = Infomax(views_of(graph, propagation, basis, settings, seed, device), settings, seed, device)
        phase = Phase(settings.epochs, lambda: Step({"infomax": network.loss()}))
        train(network, [phase], Adam(settings.learning_rate))
        with torch.no_grad():  # from what the encoder saw back to the features themselves
            weight = torch.einsum("fw,wed->efd", basis, network.weight[:, 0])
        return {"weight": weight.cpu().numpy(), "bias": network.bias[0].detach().cpu().numpy()}

    return cached_arrays(KIND, name, shapes, train_anew)


def have_encoders(
    graph: Graph, propagation: Propagation, settings: InfomaxSettings, seed: int, device: torch.device
) -> bool:
    """Whether `trained_encoders` would find them instead of training any."""
    known = (propagation, settings, seed) in _known.get(graph.without_labels, {})
    return known or is_cached(KIND, _kept_name(graph, propagation, settings, seed, device))


def _kept_name(
    graph: Graph, propagation: Propagation, settings: InfomaxSettings, seed: int, device: torch.device
) -> str:
    # Sums are cut by devices and threads, so other ones give other last digits.
    threads = torch.get_num_threads() if device.type == "cpu" else 0
    recipe = (RECIPE, propagation, settings, seed, device.type, threads, torch.__version__)
    return fingerprint((recipe, _fingerprint_of_graph(graph)))


@cached_per_graph
def _fingerprint_of_graph(graph: Graph) -> str:
    return fingerprint("graph", graph.adjacency, graph.features)


def views_of(
    graph: Graph,
    propagation: Propagation,
    basis: Float[Tensor, "features width"],
    settings: InfomaxSettings,
    seed: int,
    device: torch.device,
) -> Views:
    """What encoders see of a graph, and where. Whose features a node gets in a corrupted graph, and which nodes are
    looked at together, follows from what they are and not from where they stand."""
    operators = graph_operators(graph, propagation.feature_scaling, device)
    features = operators.feature_operator()(basis)

    def propagated(values: Tensor) -> Tensor:
        return personalized_page_rank(values, operators.adjacency, propagation.steps, propagation.restart)

    keys, count = node_keys(graph, device), settings.corruptions(*features.shape)
    corrupted = torch.empty((count, *features.shape), device=device)
    for mine, order in zip(corrupted, keyed_permutations(keys, seed, count), strict=True):
        mine.copy_(propagated(features.index_select(0, order)))
    return Views(propagated(features), corrupted, _batches(keys, settings.epochs, seed))


def _batches(keys: Int[Tensor, "nodes"], epochs: int, seed: int) -> Int[Tensor, "epochs some"]:
    """The nodes, shuffled again and again, dealt out to the epochs; all of them to each where they are few."""
    nodes = len(keys)
    if nodes <= NODES_AT_ONCE:
        return torch.arange(nodes, device=keys.device).repeat(max(1, epochs), 1)
    wanted = max(1, epochs) * NODES_AT_ONCE
    shuffled = [random_order(keys, seed, BATCHES + number)[:wanted] for number in range(-(-wanted // nodes))]
    return torch.cat(shuffled)[:wanted].reshape(-1, NODES_AT_ONCE)
