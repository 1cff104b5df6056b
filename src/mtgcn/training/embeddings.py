"""Embeddings of all nodes by trained infomax encoders, made once per graph and kept in the user's cache folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mtgcn.graph import Graph
from mtgcn.nn.infomax import Infomax, InfomaxSettings, Propagation
from mtgcn.once_per_graph import once_per_graph
from mtgcn.shapes import Float
from mtgcn.storage.kept_arrays import fingerprint, kept_or_made
from mtgcn.training.adam import Adam
from mtgcn.training.loop import Phase, Step, train

RECIPE = 2  # raise it when the same settings no longer give the same encoders
Encoders = dict[str, np.ndarray]
_known: WeakKeyDictionary[Graph, dict[tuple[Propagation, InfomaxSettings, int], Encoders]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Embedding:
    """Embeddings of length 1, one for every node of a graph, and what made them."""

    embeddings: Float[Tensor, "nodes width"]
    encoders: Mapping[str, np.ndarray]


@once_per_graph
def embedding(
    graph: Graph, propagation: Propagation, settings: InfomaxSettings, seed: int, device: torch.device
) -> Embedding:
    """The embeddings of a graph's nodes, made once for every propagation, setting and seed."""
    trained = trained_encoders(graph, propagation, settings, seed, device)
    return Embedding(encode(graph, propagation, trained, device), trained)


def encode(
    graph: Graph, propagation: Propagation, trained: Mapping[str, np.ndarray], device: torch.device
) -> Float[Tensor, "nodes width"]:
    """What trained encoders make of the nodes of a graph, which need not be the one they were trained on."""
    _, _, repeats, dimensions = trained["weight"].shape  # runs, features, repeats, dimensions
    network = Infomax(graph, propagation, InfomaxSettings(dimensions, repeats), seed=0, device=device)
    network.load_trained(trained)
    return embeddings_by(network, dimensions)


@torch.no_grad()
def embeddings_by(network: Infomax, dimensions: int) -> Float[Tensor, "nodes width"]:
    """What a network makes of its nodes, at length 1."""
    embeddings = functional.normalize(network.encoded().unflatten(1, (network.peers, dimensions)), dim=-1)
    return embeddings.flatten(1) / math.sqrt(network.peers)


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
    # Sums are cut by devices and threads, so other ones give other last digits.
    threads = torch.get_num_threads() if device.type == "cpu" else 0
    recipe = (RECIPE, propagation, settings, seed, device.type, threads, torch.__version__)
    name = fingerprint(recipe, graph.adjacency, graph.features)
    network = Infomax(graph, propagation, settings, seed, device)

    def train_anew() -> Encoders:
        phase = Phase(settings.epochs, lambda: Step({"infomax": network.loss()}))
        train(network, [phase], Adam(settings.learning_rate, settings.weight_decay))
        return network.trained()

    shapes = {key: value.shape for key, value in network.trained().items()}
    return kept_or_made("infomax", name, shapes, train_anew)
