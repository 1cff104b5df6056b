"""Networks stacked over runs and peers: every layer is one product for all of them.

Values at nodes have the axes nodes, classes, runs, peers. Nodes come first because sparse products act on the
first axis; models come last so that a softmax over few classes still runs along many contiguous numbers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from mtgcn.errors import InputError
from mtgcn.propagation import LocalView, Operator, SparseOperator, graph_operators, local_view, reshaped
from mtgcn.random_streams import DropoutStream, uniform

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from mtgcn.task import Task

NODES, CLASSES, RUNS, PEERS = range(4)


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """What the GCN-like methods share. Defaults are the paper's; where it is silent, its authors' program's."""

    hidden_channels: int = 16
    dropout: float = 0.5  # on the hidden layer
    input_dropout: float = 0.0  # on the features; any other value costs one product per model
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    decay: Literal["all", "first-layer"] = "all"  # which parameters the weight decay pulls on
    bias: bool = True
    initial: Literal["uniform", "glorot"] = "uniform"  # uniform: within 1 / sqrt(outputs)
    feature_scaling: Literal["sum", "length", "none"] = "sum"  # what each feature row is divided by

    def __post_init__(self) -> None:
        epochs = [(part.name, 0) for part in fields(self) if part.name.endswith("epochs")]
        for name, least in (("hidden_channels", 1), ("learning_rate", 0), ("weight_decay", 0), *epochs):
            if getattr(self, name) < least:
                raise InputError(f"{name} is {getattr(self, name)}; give at least {least}")
        for name in ("dropout", "input_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; give a rate from 0 to below 1")
        for name, choices in (
            ("decay", ("all", "first-layer")),
            ("initial", ("uniform", "glorot")),
            ("feature_scaling", ("sum", "length", "none")),
        ):
            if getattr(self, name) not in choices:
                raise InputError(f"{name} is {getattr(self, name)!r}; choose from {', '.join(choices)}")


class StackedNetwork(nn.Module, ABC):
    """`runs` x `peers` networks of one kind on one graph, each with parameters of its own."""

    can_be_recorded: ClassVar[bool] = True  # whether an epoch may be replayed as a CUDA graph

    def __init__(self, task: Task, peers: int, settings: NetworkSettings) -> None:
        super().__init__()
        self.task, self.peers, self.settings = task, peers, settings
        self._run_axis: dict[str, int] = {}

    @abstractmethod
    def logits(self) -> Float[Tensor, "nodes classes runs peers"]:
        """What every model says of every node; with dropout in training mode."""

    @abstractmethod
    def new_epoch(self) -> None:
        """Fresh dropout masks from here on; until the next call, every pass sees the same ones."""

    def logits_at(self, index: Int[Tensor, "runs some"]) -> Float[Tensor, "some classes runs peers"]:
        """What the models say of a few nodes of each run."""
        return rows_at(self.logits(), index)

    @torch.no_grad()
    def logits_without_dropout(self) -> Float[Tensor, "nodes classes runs peers"]:
        was_training = self.training
        self.eval()
        logits = self.logits()
        self.train(was_training)
        return logits

    def probabilities(self) -> Float[Tensor, "nodes classes runs peers"]:
        """What the models believe, without dropout."""
        return self.logits_without_dropout().softmax(CLASSES)

    def add_parameter(self, name: str, values: Tensor, run_axis: int) -> None:
        self._run_axis[name] = run_axis
        self.register_parameter(name, nn.Parameter(values.to(self.task.device).contiguous()))

    def decayed_parameters(self) -> list[nn.Parameter]:
        """The parameters that weight decay pulls on."""
        return list(self.parameters())

    def trained(self) -> dict[str, np.ndarray]:
        """All parameters as plain arrays whose first axis is the runs: what `load_trained` takes."""
        return {
            name: np.ascontiguousarray(np.moveaxis(getattr(self, name).detach().cpu().numpy(), axis, 0))
            for name, axis in self._run_axis.items()
        }

    @torch.no_grad()
    def load_trained(self, parameters: Mapping[str, np.ndarray]) -> None:
        """Take over what a stack of the same kind, on a graph with as many features and classes, has `trained`."""
        for name, axis in self._run_axis.items():
            mine = getattr(self, name)
            wanted = tuple(mine.movedim(axis, 0).shape)
            given = parameters.get(name, np.empty(0))
            if given.shape != wanted:
                raise InputError(
                    f"trained {name} of shape {given.shape} where this network has {wanted}; use settings and a graph "
                    "with the features and classes that it was trained with"
                )
            mine.copy_(torch.from_numpy(np.moveaxis(given, 0, axis).copy()))

    def clone_parameters(self) -> dict[str, Tensor]:
        return {name: parameter.detach().clone() for name, parameter in self.named_parameters()}

    @torch.no_grad()
    def copy_runs(
        self, source: dict[str, Tensor], target: dict[str, Tensor], runs: Bool[Tensor, "runs *peers"]
    ) -> None:
        """target := source for the runs, or the single peers of runs, that are marked."""
        for name, axis in self._run_axis.items():
            shape = [1] * source[name].ndim
            shape[axis : axis + runs.ndim] = runs.shape  # in every parameter, peers follow runs
            target[name].copy_(torch.where(runs.view(shape), source[name], target[name]))


class TwoLayerNetwork(StackedNetwork):
    """Two layers with a ReLU and dropout between them; what a layer does with the graph is left to the subclass."""

    weight0: nn.Parameter  # the first axis is features; the last, hidden
    bias0: nn.Parameter  # runs, peers, hidden
    weight1: nn.Parameter
    bias1: nn.Parameter  # classes, runs, peers
    input: InputProduct
    dropout: DropoutStream

    def _initial(self, inputs: int, outputs: int, label: int) -> Float[Tensor, "runs peers inputs outputs"]:
        bound = 1 / math.sqrt(outputs) if self.settings.initial == "uniform" else math.sqrt(6 / (inputs + outputs))
        return uniform(self.task.seeds, (self.peers, inputs, outputs), bound, label)

    def _initial_bias(self, outputs: int, label: int) -> Float[Tensor, "runs peers outputs"]:
        if self.settings.initial == "glorot" or not self.settings.bias:
            return torch.zeros(self.task.runs, self.peers, outputs)
        return uniform(self.task.seeds, (self.peers, outputs), 1 / math.sqrt(outputs), label)

    def parameters(self, recurse: bool = True) -> Any:
        """All that is trained; without a bias, the two of them stay zero."""
        names = ("weight0", "bias0", "weight1", "bias1") if self.settings.bias else ("weight0", "weight1")
        return (getattr(self, name) for name in names)

    def decayed_parameters(self) -> list[nn.Parameter]:
        every = list(self.parameters())
        return every if self.settings.decay == "all" else [p for p in every if p is self.weight0 or p is self.bias0]

    def new_epoch(self) -> None:
        self.dropout.advance()
        self.input.new_epoch()

    @property
    def _drops(self) -> bool:
        return self.training and self.settings.dropout > 0

    @property
    def _readout_weight(self) -> Float[Tensor, "runs peers hidden classes"]:
        """Θ1, made larger to make up for what dropout takes away: cheaper here than at every node."""
        return self.weight1 / (1 - self.settings.dropout) if self._drops else self.weight1


class GCN(TwoLayerNetwork):
    """Z = Â ReLU(Â X Θ0) Θ1 (Kipf and Welling, 2017), for all runs and peers at once."""

    weight0: nn.Parameter  # features, runs, peers, hidden: Θ0
    weight1: nn.Parameter  # runs, peers, hidden, classes: Θ1

    def __init__(self, task: Task, peers: int, settings: NetworkSettings) -> None:
        super().__init__(task, peers, settings)
        self.operators = graph_operators(task.graph, settings.feature_scaling, task.device)
        self.adjacency = self.operators.adjacency
        self.input = InputProduct(
            self.operators.input_chain, self.operators.features, self.adjacency, task, peers, settings.input_dropout
        )
        inputs, hidden, classes = task.graph.num_features, settings.hidden_channels, task.num_classes
        self.add_parameter("weight0", self._initial(inputs, hidden, label=0).permute(2, 0, 1, 3), run_axis=1)
        self.add_parameter("bias0", self._initial_bias(hidden, label=1), run_axis=0)
        self.add_parameter("weight1", self._initial(hidden, classes, label=2), run_axis=0)
        self.add_parameter("bias1", self._initial_bias(classes, label=3).permute(2, 0, 1), run_axis=1)
        self.dropout = DropoutStream(task.seeds, peers * hidden, settings.dropout, task.device)
        self._all_nodes = torch.arange(task.num_nodes, device=task.device)
        # Â (H Θ1) or (Â H) Θ1: the product with Â should meet the narrower of the two.
        self._spread_hidden = hidden < classes
        # By the identity of the index tensor, which is kept so that no other can take its place.
        self._views: dict[int, tuple[Tensor, LocalView | None]] = {}

    @staticmethod
    def bytes_per_model(task: Task, hidden_channels: int) -> int:
        """About what one model of a stack takes in training: weights with gradient and Adam's two moments, and
        the values an epoch keeps at nodes."""
        parameters = task.graph.num_features * hidden_channels
        at_nodes = task.num_nodes * (8 * hidden_channels + 12 * task.num_classes)
        return 4 * (4 * parameters + at_nodes)

    def logits(self) -> Float[Tensor, "nodes classes runs peers"]:
        hidden = self.input(self.weight0, drops=self.training).add_(self.bias0)  # nodes, runs, peers, hidden
        kept = self.dropout.kept(self._all_nodes).view_as(hidden) if self._drops else None
        hidden = ReluDropout.apply(hidden, kept)
        if self._spread_hidden:
            return modelwise_product(self.adjacency(hidden), self._readout_weight).add_(self.bias1)
        return self.adjacency(modelwise_product(hidden, self._readout_weight)).add_(self.bias1)

    @torch.no_grad()
    def embeddings(self) -> Float[Tensor, "nodes runs peers hidden"]:
        """What the second layer classifies, without dropout: Â ReLU(Â X Θ0)."""
        return self.adjacency((self.input(self.weight0, drops=False) + self.bias0).relu_())

    def logits_at(self, index: Int[Tensor, "runs some"]) -> Float[Tensor, "some classes runs peers"]:
        view = self._view(index)
        if view is None:
            return super().logits_at(index)
        hidden = view.features(self.weight0.flatten(2).flatten(0, 1)).add_(view.runs(self.bias0.flatten(1)))
        kept = self.dropout.kept_by(view.nodes, view.run_index) if self._drops else None
        hidden = ReluDropout.apply(hidden, kept)
        spread = view.readout(hidden).view(-1, self.task.runs, self.peers, self.settings.hidden_channels)
        return torch.einsum("srph,rphc->scrp", spread, self._readout_weight) + self.bias1

    def _view(self, index: Int[Tensor, "runs some"]) -> LocalView | None:
        """The part of the graph these nodes can see, where that is less work than the whole graph."""
        if self.settings.input_dropout:
            return None
        if id(index) not in self._views:
            view = local_view(self.adjacency.matrix, self.operators.smoothed, index)
            # A local product serves one run, a product with the whole graph all of them.
            whole = (self.input.cost + self.adjacency.nnz) * self.task.runs
            worth_it = view.features.nnz + view.readout.nnz < whole
            self._views[id(index)] = index, view if worth_it else None
        return self._views[id(index)][1]


class InputProduct:
    """X Θ for the stacked Θ, or Â X Θ where `adjacency` is given: through `chain`, which multiplies by all of it, or,
    if dropout on X is asked for, through X and then Â."""

    def __init__(
        self,
        chain: tuple[Operator, ...],
        features: sp.csr_array | np.ndarray,
        adjacency: SparseOperator | None,
        task: Task,
        peers: int,
        dropout: float,
    ) -> None:
        self.chain, self.adjacency, self.rate = chain, adjacency, dropout
        self.cost = sum(operator.nnz for operator in chain)
        if dropout:
            self.features = SparseOperator(sp.csr_array(features), task.device)
            self.stream = DropoutStream(task.seeds, peers, dropout, task.device, label=0xD1)
            self.entries = torch.arange(self.features.nnz, device=task.device)

    def new_epoch(self) -> None:
        if self.rate:
            self.stream.advance()

    def __call__(
        self, weight: Float[Tensor, "features runs peers hidden"], *, drops: bool
    ) -> Float[Tensor, "nodes runs peers hidden"]:
        if self.rate and drops:
            product = self._dropped(weight)
            return product if self.adjacency is None else self.adjacency(product)
        for operator in self.chain:
            weight = operator(weight)
        return weight

    def _dropped(self, weight: Tensor) -> Tensor:
        # Every model drops other features, so here, and only here, models multiply one by one.
        weights = self.stream.kept(self.entries) / (1 - self.rate)  # entries, runs, peers
        _, runs, peers, _ = weight.shape
        products = [
            self.features.with_weights(weights[:, run, peer])(weight[:, run, peer].contiguous())
            for run in range(runs)
            for peer in range(peers)
        ]
        return torch.stack(products, 1).unflatten(1, (runs, peers))


class ReluDropout(torch.autograd.Function):
    """ReLU with some units set to 0, written over what it is given: gradient passes where the result is not 0."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kept: Tensor | None) -> Tensor:
        ctx.mark_dirty(x)
        x.relu_()
        if kept is not None:
            x.mul_(kept)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (result,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(gradient, result, 0), None


def modelwise_product(
    hidden: Float[Tensor, "nodes runs peers hidden"], weight: Float[Tensor, "runs peers hidden classes"]
) -> Float[Tensor, "nodes classes runs peers"]:
    """Each model's hidden layer times that model's weights."""
    how = _BatchedProduct if hidden.is_cuda else _GroupedProduct
    product: Tensor = how.apply(hidden.flatten(1, 2), weight.flatten(0, 1))
    return reshaped(product, (*product.shape[:2], *weight.shape[:2]))


class _BatchedProduct(torch.autograd.Function):
    """One batched product over models. The weights' gradient sums over all nodes for a handful of numbers: cut into
    slices of the nodes it keeps a whole GPU busy, which it otherwise would not."""

    SLICES = 32

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(hidden, weight)
        return torch.bmm(hidden.transpose(0, 1), weight).permute(1, 2, 0).contiguous()  # nodes, classes, models

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        hidden, weight = ctx.saved_tensors
        gradient = gradient.transpose(1, 2).contiguous()  # nodes, models, classes
        for_hidden = torch.bmm(gradient.transpose(0, 1), weight.transpose(1, 2)).transpose(0, 1).contiguous()
        whole = len(hidden) // _BatchedProduct.SLICES * _BatchedProduct.SLICES
        for_weight = torch.einsum("nmh,nmk->mhk", hidden[whole:], gradient[whole:])
        if whole:
            sliced = (part[:whole].unflatten(0, (_BatchedProduct.SLICES, -1)) for part in (hidden, gradient))
            for_weight += torch.einsum("snmh,snmk->smhk", *sliced).sum(0)
        return for_hidden, for_weight


class _GroupedProduct(torch.autograd.Function):
    """Products with a handful of columns waste most of a vector unit. A few models at a time, as one product with
    a block-diagonal matrix, do several times the arithmetic in less than half the time."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor) -> Tensor:
        models, inputs, outputs = weight.shape
        group = next(size for size in (4, 5, 6, 3, 2, 1) if models % size == 0)
        blocks = weight.new_zeros(models // group, group, inputs, group, outputs)
        blocks.diagonal(dim1=1, dim2=3).copy_(weight.view(-1, group, inputs, outputs).permute(0, 2, 3, 1))
        ctx.save_for_backward(hidden, blocks)
        result = hidden.new_empty(len(hidden), models, outputs)
        for mine, block, theirs in _grouped(result, blocks, hidden):
            torch.mm(theirs, block, out=mine)
        return result.transpose(1, 2).contiguous()  # nodes, classes, models

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        hidden, blocks = ctx.saved_tensors
        gradient = gradient.transpose(1, 2).contiguous()
        for_hidden, for_blocks = torch.empty_like(hidden), torch.empty_like(blocks)
        for mine, block, theirs in _grouped(for_hidden, blocks, gradient):
            torch.mm(theirs, block.T, out=mine)
        for given, block, theirs in _grouped(hidden, for_blocks, gradient):
            torch.mm(given.T, theirs, out=block)
        return for_hidden, for_blocks.diagonal(dim1=1, dim2=3).permute(0, 3, 1, 2).reshape(-1, *blocks.shape[2::2])


def _grouped(left: Tensor, blocks: Tensor, right: Tensor) -> Any:
    """Group by group: the columns of `left`, the block as a matrix, the columns of `right`."""
    count, group = blocks.shape[:2]
    return zip(
        left.view(len(left), count, -1).unbind(1),
        blocks.view(count, group * blocks.shape[2], -1).unbind(0),
        right.view(len(right), count, -1).unbind(1),
        strict=True,
    )


def rows_at(
    values: Float[Tensor, "nodes classes runs peers"], index: Int[Tensor, "runs some"]
) -> Float[Tensor, "some classes runs peers"]:
    """The values at some nodes of each run; rows of NOBODY are those of node 0, for the caller to ignore."""
    _, classes, _, peers = values.shape
    return values.gather(NODES, index.clamp(min=0).T[:, None, :, None].expand(-1, classes, -1, peers))


def mean_of_peers(belief: Float[Tensor, "nodes classes runs peers"]) -> Float[np.ndarray, "runs nodes classes"]:
    """The peers' average belief, in the order a prediction has it."""
    return belief.mean(PEERS).permute(2, 0, 1).contiguous().cpu().numpy()


def each_peer(belief: Float[Tensor, "nodes classes runs peers"]) -> Float[np.ndarray, "runs peers nodes classes"]:
    """Every peer's belief, in the order a prediction has it."""
    return belief.permute(2, 3, 0, 1).contiguous().cpu().numpy()
