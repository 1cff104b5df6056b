"""Base classes of stacked networks: axes, settings, and parameters for all runs and peers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from mtgcn.errors import InputError
from mtgcn.linalg.normalisation import scaled_features
from mtgcn.linalg.operators import operator
from mtgcn.nn.layers import DropoutStream, InputProduct, ReluDropout, modelwise_product, uniform
from mtgcn.settings import LearningRate, NonNegativeFloat, PositiveInt, Rate, Settings
from mtgcn.shapes import Bool, Float, Int

if TYPE_CHECKING:
    from mtgcn.task import Task


NODES, CLASSES, RUNS, PEERS = range(4)
NodeValues = Float[Tensor, "nodes classes runs peers"]  # values of every model at every node


def rows_at(values: NodeValues, index: Int[Tensor, "runs some"]) -> Float[Tensor, "some classes runs peers"]:
    """The values at some nodes of each run; a negative index gives node 0."""
    _, classes, _, peers = values.shape
    return values.gather(NODES, index.clamp(min=0).T[:, None, :, None].expand(-1, classes, -1, peers))


def mean_of_peers(probabilities: NodeValues) -> Float[np.ndarray, "runs nodes classes"]:
    """The mean over peers, with the axes of a prediction."""
    return probabilities.mean(PEERS).permute(2, 0, 1).contiguous().cpu().numpy()


def each_peer(values: NodeValues) -> Float[np.ndarray, "runs peers nodes classes"]:
    """The values of every peer, with the axes of a prediction."""
    return values.permute(2, 3, 0, 1).contiguous().cpu().numpy()


FeatureScaling = Literal["sum", "length", "none"]  # norm that feature rows are divided by


@dataclass(frozen=True, kw_only=True)
class NetworkSettings(Settings):
    """Settings of GCN-like networks. Defaults are those of the MT-GCN paper or of its authors' program."""

    hidden_channels: PositiveInt = 16  # width of the hidden layer
    dropout: Rate = 0.5  # dropout on the hidden layer
    input_dropout: Rate = 0.0  # dropout on the features; above 0, each model needs a separate product
    learning_rate: LearningRate = 0.01  # learning rate of Adam
    weight_decay: NonNegativeFloat = 5e-4  # weight decay, added to the gradient as in Adam
    decay_on: Literal["all", "first-layer"] = "all"  # parameters with weight decay
    bias: bool = True  # whether layers have a bias
    init: Literal["uniform", "glorot"] = "uniform"  # initial weights; uniform: within 1 / sqrt(outputs)
    feature_scaling: FeatureScaling = "sum"  # norm that feature rows are divided by


class StackedParameters(nn.Module):
    """The stacked parameters of `runs` x `peers` models."""

    can_be_recorded: ClassVar[bool] = True  # whether an epoch may be replayed as a CUDA graph

    def __init__(self, runs: int, peers: int, device: torch.device) -> None:
        super().__init__()
        self.runs, self.peers, self.device = runs, peers, device
        self._run_axis: dict[str, int] = {}

    def new_epoch(self) -> None:
        """Draw new dropout masks; all forward passes use them until the next call."""

    def resume_after(self, epoch: int) -> None:
        """Restore the random state after this epoch."""

    def add_parameter(self, name: str, values: Tensor, run_axis: int, *, trained: bool = True) -> None:
        """Register the values of all models as a parameter, or as a buffer if they are not `trained`."""
        self._run_axis[name] = run_axis
        values = values.to(self.device).contiguous()
        if trained:
            self.register_parameter(name, nn.Parameter(values))
        else:
            self.register_buffer(name, values)

    def decayed_parameters(self) -> list[nn.Parameter]:
        """The parameters with weight decay."""
        return list(self.parameters())

    def trained(self) -> dict[str, np.ndarray]:
        """All parameters as arrays with runs as the first axis, for `load_trained`."""
        return {
            name: np.ascontiguousarray(np.moveaxis(getattr(self, name).detach().cpu().numpy(), axis, 0))
            for name, axis in self._run_axis.items()
        }

    @torch.no_grad()
    def load_trained(self, parameters: Mapping[str, np.ndarray]) -> None:
        """Load parameters that `trained` returned for a stack with the same settings, features and classes."""
        for name, axis in self._run_axis.items():
            own = getattr(self, name)
            wanted = tuple(own.movedim(axis, 0).shape)
            given = parameters.get(name, np.empty(0))
            if given.shape != wanted:
                raise InputError(
                    f"stored {name} has shape {given.shape}, this network needs {wanted}; use the settings, features "
                    "and classes of the training"
                )
            own.copy_(torch.from_numpy(np.moveaxis(given, 0, axis).copy()))

    def clone_parameters(self) -> dict[str, Tensor]:
        """A copy of all parameters and buffers."""
        return {name: getattr(self, name).detach().clone() for name in self._run_axis}

    @torch.no_grad()
    def copy_runs(self, given: dict[str, Tensor], target: dict[str, Tensor], runs: Bool[Tensor, "runs *peers"]) -> None:
        """Copy `given` to `target` for the marked runs, or for the marked peers of runs."""
        for name, axis in self._run_axis.items():
            shape = [1] * given[name].ndim
            shape[axis : axis + runs.ndim] = runs.shape  # the axis of peers follows the axis of runs
            target[name].copy_(torch.where(runs.view(shape), given[name], target[name]))


class StackedNetwork(StackedParameters, ABC):
    """`runs` x `peers` networks of one architecture that classify the nodes of one graph."""

    def __init__(self, task: Task, peers: int, settings: NetworkSettings) -> None:
        super().__init__(task.runs, peers, task.device)
        self.task, self.settings = task, settings

    @classmethod
    @abstractmethod
    def bytes_per_model(cls, task: Task, settings: Any) -> int:
        """Approximate memory (bytes) of one model in training."""

    @abstractmethod
    def logits(self) -> NodeValues:
        """Logits of every model at every node, with dropout in training mode."""

    def logits_at(self, index: Int[Tensor, "runs some"]) -> Float[Tensor, "some classes runs peers"]:
        """Logits at a few nodes of each run."""
        return rows_at(self.logits(), index)

    @torch.no_grad()
    def logits_without_dropout(self) -> NodeValues:
        was_training = self.training
        self.eval()
        logits = self.logits()
        self.train(was_training)
        return logits

    def probabilities(self) -> NodeValues:
        """Class probabilities, without dropout."""
        return self.logits_without_dropout().softmax(CLASSES)


class MLP(StackedNetwork):
    """Z = ReLU(X Θ0) Θ1 with dropout on the hidden layer; subclasses define how layers use the graph."""

    FIRST_LAYER: ClassVar[tuple[str, ...]] = ("weight0", "bias0")
    NUMBERS_PER_CLASS: ClassVar[int] = 12  # numbers per node and class in memory during training

    weight0: nn.Parameter  # features, runs, peers, hidden: Θ0
    bias0: Tensor  # runs, peers, hidden; zeros if `bias` is off
    weight1: nn.Parameter  # runs, peers, hidden, classes: Θ1
    bias1: Tensor  # classes, runs, peers; zeros if `bias` is off

    def __init__(
        self,
        task: Task,
        peers: int,
        settings: NetworkSettings,
        input_product: InputProduct | None = None,
        inputs: int | None = None,
    ) -> None:
        super().__init__(task, peers, settings)
        if input_product is None:  # X Θ0, which does not use the graph
            features = scaled_features(task.graph, settings.feature_scaling)
            chain = (operator(features, task.device),)
            input_product = InputProduct(chain, features, None, task, peers, settings.input_dropout)
        self.input = input_product
        inputs, hidden, classes = inputs or task.graph.num_features, self.width(settings), task.num_classes
        bias0, bias1 = self._initial_bias(hidden, label=1), self._initial_bias(classes, label=3).permute(2, 0, 1)
        self.add_parameter("weight0", self._initial(inputs, hidden, label=0).permute(2, 0, 1, 3), run_axis=1)
        self.add_parameter("bias0", bias0, run_axis=0, trained=settings.bias)
        self.add_parameter("weight1", self._initial(hidden, classes, label=2), run_axis=0)
        self.add_parameter("bias1", bias1, run_axis=1, trained=settings.bias)
        self.dropout = DropoutStream(task.seeds, peers * hidden, settings.dropout, task.device)
        self._all_nodes = task.communicator.numbers(task.num_nodes, task.device)

    @staticmethod
    def width(settings: NetworkSettings) -> int:
        """Width of the hidden layer."""
        return settings.hidden_channels

    @classmethod
    def bytes_per_model(cls, task: Task, settings: Any) -> int:
        """Memory of weights with gradient and Adam's two moments, and of activations."""
        hidden = cls.width(settings)
        at_nodes = task.num_nodes * (8 * hidden + cls.NUMBERS_PER_CLASS * task.num_classes)
        return 4 * (4 * task.graph.num_features * hidden + at_nodes)

    def logits(self) -> NodeValues:
        return self._readout(self._hidden())

    def _hidden(self) -> Float[Tensor, "nodes runs peers hidden"]:
        return self._activated(self.input(self.weight0, drops=self.training).add_(self.bias0))

    def _readout(self, hidden: Float[Tensor, "nodes runs peers hidden"]) -> NodeValues:
        return modelwise_product(hidden, self._readout_weight).add_(self.bias1)

    def _activated(self, hidden: Float[Tensor, "nodes runs peers hidden"]) -> Float[Tensor, "nodes runs peers hidden"]:
        """ReLU and, in training, dropout, in place."""
        kept = self.dropout.kept(self._all_nodes).view_as(hidden) if self._drops else None
        activated: Tensor = ReluDropout.apply(hidden, kept)
        return activated

    def _initial(self, inputs: int, outputs: int, label: int) -> Float[Tensor, "runs peers inputs outputs"]:
        bound = 1 / math.sqrt(outputs) if self.settings.init == "uniform" else math.sqrt(6 / (inputs + outputs))
        return uniform(self.task.seeds, (self.peers, inputs, outputs), bound, label)

    def _initial_bias(self, outputs: int, label: int) -> Float[Tensor, "runs peers outputs"]:
        bound = 0.0 if self.settings.init == "glorot" or not self.settings.bias else 1 / math.sqrt(outputs)
        return uniform(self.task.seeds, (self.peers, outputs), bound, label)

    def decayed_parameters(self) -> list[nn.Parameter]:
        if self.settings.decay_on == "all":
            return super().decayed_parameters()
        return [parameter for name, parameter in self.named_parameters() if name in self.FIRST_LAYER]

    def resume_after(self, epoch: int) -> None:
        self.dropout.epoch.fill_(epoch)

    def new_epoch(self) -> None:
        self.dropout.advance()
        self.input.new_epoch()

    @property
    def _drops(self) -> bool:
        return self.training and self.settings.dropout > 0

    @property
    def _readout_weight(self) -> Float[Tensor, "runs peers hidden classes"]:
        """Θ1, scaled by 1 / (1 - dropout) in training, which is cheaper than scaling the hidden layer."""
        return self.weight1 / (1 - self.settings.dropout) if self._drops else self.weight1
