"""Deep Graph Infomax (Velickovic et al., ICLR 2019): vectors for all nodes, learned without a single label.

An encoder sees every node's surroundings twice, as they are and with the features dealt out to other nodes, and
learns to tell the two apart by comparing each with the average of the real ones. Encoders are trained once per graph,
kept in the user's cache folder, and can be applied to graphs they have not seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from mtgcn.kept_arrays import fingerprint, kept_or_made
from mtgcn.networks import NetworkSettings, StackedNetwork
from mtgcn.propagation import DenseOperator, Operator, SparseOperator, graph_operators, operator
from mtgcn.random_streams import uniform
from mtgcn.task import Nodes, Task
from mtgcn.training import Phase, Step, train

if TYPE_CHECKING:
    from jaxtyping import Float

    from mtgcn.graph import Graph

LARGEST_LAYER = 2**24  # numbers that the encoders trained together give to all nodes
FEWEST_DIMENSIONS = 64
NODE_EPOCHS = 200 * 2**15  # nodes times epochs
FEWEST_EPOCHS = 20
SLOPE = 0.25  # of the activation's negative side; where the paper's PReLU starts
CACHED_BYTES = 8 * 2**20  # of values that a walk takes through all its steps without leaving the cache
RECIPE = 1  # raise it when the same settings no longer give the same encoders


@dataclass(frozen=True)
class View:
    """What an encoder sees of a node: features scaled by their `"sum"` or `"length"`, spread over the graph by so many
    steps of a random walk that starts again at the node with probability `restart`."""

    scaling: str
    steps: int
    restart: float


@dataclass(frozen=True)
class InfomaxSettings:
    """How encoders are trained."""

    dimensions: int = 256
    repeats: int = 1  # encoders that differ in their random numbers only, their vectors side by side
    epochs: int = 200
    learning_rate: float = 0.002
    weight_decay: float = 0.0

    def for_graph(self, graph: Graph) -> InfomaxSettings:
        """On large graphs shorter vectors and fewer epochs, so that neither memory nor time runs away."""
        room = LARGEST_LAYER // (graph.num_nodes * self.repeats)
        return replace(
            self,
            dimensions=min(self.dimensions, max(room, FEWEST_DIMENSIONS)),
            epochs=min(self.epochs, max(NODE_EPOCHS // graph.num_nodes, FEWEST_EPOCHS)),
        )

    def bytes_for(self, graph: Graph) -> int:
        """About what training the encoders takes: values at all nodes a dozen times over, weights with
        gradient and Adam's two moments, and for every epoch the order of the nodes."""
        width = self.dimensions * self.repeats
        return 4 * (12 * graph.num_nodes * width + 4 * graph.num_features * width + self.epochs * graph.num_nodes)


@dataclass(frozen=True, eq=False)
class Embedding:
    """Vectors of length 1, one for every node of a graph, and what made them."""

    vectors: Float[Tensor, "nodes vector"]
    encoders: Mapping[str, np.ndarray]


def embedding(graph: Graph, view: View, settings: InfomaxSettings, seed: int, device: torch.device) -> Embedding:
    """The vectors of a graph's nodes, made once for every view, setting and seed."""
    known = _EMBEDDINGS.setdefault(graph, {})
    key = (view, settings, seed, device)
    if key not in known:
        trained = trained_encoders(graph, view, settings, seed, device)
        known[key] = Embedding(encode(graph, view, trained, device), trained)
    return known[key]


_EMBEDDINGS: WeakKeyDictionary[Graph, dict[Any, Embedding]] = WeakKeyDictionary()


def encode(
    graph: Graph, view: View, trained: Mapping[str, np.ndarray], device: torch.device
) -> Float[Tensor, "nodes vector"]:
    """What trained encoders make of the nodes of a graph, which need not be the one they were trained on."""
    _, _, repeats, dimensions = trained["weight"].shape  # runs, features, repeats, dimensions
    network = Infomax(graph, view, InfomaxSettings(dimensions, repeats), seed=0, device=device)
    network.load_trained(trained)
    with torch.no_grad():
        vectors = functional.normalize(network.encoded().unflatten(1, (repeats, dimensions)), dim=-1)
    return vectors.flatten(1) / math.sqrt(repeats)


def trained_encoders(
    graph: Graph, view: View, settings: InfomaxSettings, seed: int, device: torch.device
) -> dict[str, np.ndarray]:
    """The trained encoders, from the cache where they are kept."""
    # Sums are cut by devices and threads, so other ones give other last digits.
    threads = torch.get_num_threads() if device.type == "cpu" else 0
    recipe = (RECIPE, view, settings, seed, device.type, threads, torch.__version__)
    name = fingerprint(recipe, graph.adjacency, graph.features)
    network = Infomax(graph, view, settings, seed, device)

    def train_anew() -> dict[str, np.ndarray]:
        train(network, [Phase(settings.epochs, network.step)])
        return network.trained()

    shapes = {key: value.shape for key, value in network.trained().items()}
    return kept_or_made("infomax", name, shapes, train_anew)


class Infomax(StackedNetwork):
    """One-layer encoders, and for each the form that compares a node with the average. The repeats are
    the peers of a stack with one run."""

    weight: nn.Parameter  # features, runs, repeats, dimensions
    bias: nn.Parameter  # runs, repeats, dimensions
    form: nn.Parameter  # runs, repeats, dimensions, dimensions

    def __init__(self, graph: Graph, view: View, settings: InfomaxSettings, seed: int, device: torch.device) -> None:
        nobody = torch.zeros(1, 0, dtype=torch.int64, device=device)
        task = Task(graph=graph.unlabelled, labelled=Nodes(nobody, nobody), seeds=(seed,), device=device)
        optimised = NetworkSettings(learning_rate=settings.learning_rate, weight_decay=settings.weight_decay)
        super().__init__(task, settings.repeats, optimised)
        operators = graph_operators(graph, view.scaling, device)
        self.view, self.adjacency = view, operators.adjacency
        self.features: Operator = operator(operators.features, device)
        self._narrow = self._narrower_than(settings.dimensions * settings.repeats)
        inputs, dimensions, repeats = graph.num_features, settings.dimensions, settings.repeats
        glorot = math.sqrt(6 / (inputs + dimensions))
        weight = uniform(task.seeds, (repeats, inputs, dimensions), glorot, label=0)
        self.add_parameter("weight", weight.permute(2, 0, 1, 3), run_axis=1)
        self.add_parameter("bias", torch.zeros(1, repeats, dimensions), run_axis=0)
        form = uniform(task.seeds, (repeats, dimensions, dimensions), math.sqrt(3 / dimensions), label=1)
        self.add_parameter("form", form, run_axis=0)
        self.epoch = torch.zeros(1, dtype=torch.int64, device=device)
        self.epochs, self.seed = settings.epochs, seed
        self._orders: Tensor | None = None

    def logits(self) -> Tensor:
        raise NotImplementedError("an encoder has no classes")

    def new_epoch(self) -> None:
        self.epoch += 1

    def encoded(self) -> Float[Tensor, "nodes repeats*dimensions"]:
        return self._activated(self._real())

    def step(self) -> Step:
        values, dealt_values = self._real_and_dealt()
        real, dealt = self._activated(values), self._activated(dealt_values)
        average = real.mean(0).sigmoid().view(self.peers, -1, 1)  # repeats, dimensions, 1
        # Block-diagonal, so that one product compares the vectors of every repeat with that repeat's average.
        compared = torch.block_diag(*(self.form[0] @ average))
        loss = functional.softplus(-(real @ compared)).mean(0) + functional.softplus(dealt @ compared).mean(0)
        return Step({"infomax": loss[None]})

    def _narrower_than(self, width: int) -> Tensor | None:
        """The features, where they are fewer than what the encoders make of them: then it costs less to spread the
        features, which need no gradient, and to multiply afterwards. The result is the same."""
        if isinstance(self.features, DenseOperator) and self.features.matrix.shape[1] < width:
            return self.features.matrix
        return None

    @cached_property
    def _spread_features(self) -> Tensor:
        assert self._narrow is not None
        return spread(self._narrow, self.adjacency, self.view)

    def _real(self) -> Tensor:
        if self._narrow is not None:
            return self._spread_features @ self.weight.flatten(1)
        return self._spread(self._projected())

    def _real_and_dealt(self) -> tuple[Tensor, Tensor]:
        if self._narrow is not None:
            dealt = spread(self._narrow.index_select(0, self._order()), self.adjacency, self.view)
            return self._real(), dealt @ self.weight.flatten(1)
        projected = self._projected()
        return self._spread(projected), self._spread(projected.index_select(0, self._order()))

    def _projected(self) -> Tensor:
        return self.features(self.weight.flatten(1))

    def _spread(self, values: Tensor) -> Tensor:
        spread: Tensor = _Spread.apply(values, self.adjacency, self.view)
        return spread

    def _activated(self, values: Tensor) -> Tensor:
        return functional.leaky_relu_(values + self.bias.flatten(), SLOPE)

    def _order(self) -> Tensor:
        """Whose features each node gets in this epoch. All epochs' are drawn at once, so that a recorded epoch finds
        its own."""
        if self._orders is None:
            random = np.random.default_rng([self.seed, 2])
            drawn = np.stack([random.permutation(self.task.num_nodes) for _ in range(self.epochs)])
            self._orders = torch.from_numpy(drawn.astype(np.int32)).to(self.task.device)
        return self._orders.index_select(0, (self.epoch - 1).clamp(max=self.epochs - 1))[0].long()


class _Spread(torch.autograd.Function):
    """A walk with restarts. Â is symmetric, so the gradient walks the same way."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, adjacency: SparseOperator, view: View) -> Tensor:
        ctx.adjacency, ctx.view = adjacency, view
        return spread(values, adjacency, view)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return spread(gradient, ctx.adjacency, ctx.view), None, None


def spread(values: Float[Tensor, "nodes width"], adjacency: SparseOperator, view: View) -> Tensor:
    """`steps` times x := (1 - restart) Â x + restart · values."""
    at_once = max(1, CACHED_BYTES // (values.element_size() * len(values)))
    if values.is_cuda or at_once >= values.shape[1]:
        return _walked(values, adjacency, view)
    result = torch.empty_like(values, memory_format=torch.contiguous_format)
    for mine, given in zip(result.split(at_once, 1), values.split(at_once, 1), strict=True):
        mine.copy_(_walked(given.contiguous(), adjacency, view))
    return result


def _walked(values: Tensor, adjacency: SparseOperator, view: View) -> Tensor:
    result = values
    for _ in range(view.steps):
        result = adjacency.multiply(result)
        if view.restart:
            result.mul_(1 - view.restart).add_(values, alpha=view.restart)
    return result
