"""Base classes: `Method`, and methods that train a network."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import wraps
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.communicator import ONE_PROCESS, Communicator
from mtgcn.environment import Device, threads_for, usual_torch
from mtgcn.errors import InputError
from mtgcn.graph import UNLABELED, Graph
from mtgcn.linalg.operators import all_finite
from mtgcn.linalg.structural_features import with_structural_features
from mtgcn.memory import check_fits, default_budget, trim_freed_blocks
from mtgcn.nn.base import CLASSES, NetworkSettings, StackedNetwork, each_peer, mean_of_peers
from mtgcn.nn.networks import GCN
from mtgcn.settings import NonNegativeInt, Settings
from mtgcn.shapes import Float, Int
from mtgcn.splits import Split
from mtgcn.task import Nodes, PeerProbabilities, Prediction, Task, observe
from mtgcn.training.loop import Adam, Phase, Step, train

CPU = torch.device("cpu")
Parameters = Mapping[str, np.ndarray]  # trained parameters, with runs as the first axis
Reduction = Literal["mean", "sum"]


def _with_usual_torch(function: Callable[..., Any]) -> Callable[..., Any]:
    """Run a function within `usual_torch`. As a decorator, that would hold a generator, which Ray cannot send."""

    @wraps(function)
    def within(*given: Any, **named: Any) -> Any:
        with usual_torch():
            return function(*given, **named)

    return within


@dataclass(frozen=True, kw_only=True)
class Method(Settings, ABC):
    """Base class of methods: settings, and `fit` from a task to a prediction. All runs are fitted together."""

    uses_validation: ClassVar[bool] = False  # whether `task.validation` is required
    draws_by_place: ClassVar[bool] = False  # whether random numbers depend on the order of nodes
    uses_features: ClassVar[bool] = True  # False: only edges and labels are used
    arena_groups: ClassVar[tuple[str, ...]] = ("graphs",)  # groups of the arena in which the method is compared

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in {"fit", "apply"} & vars(cls).keys():
            setattr(cls, name, _with_usual_torch(getattr(cls, name)))

    @abstractmethod
    def fit(self, task: Task) -> Prediction:
        """Predict all nodes of every run from the labels of the task."""

    def apply(self, parameters: Parameters, graph: Graph, device: torch.device = CPU) -> PeerProbabilities:
        """Class probabilities of each fitted peer for the nodes of this graph, which may be new.

        A peer that cannot be applied to new nodes repeats the weighted mean of the others, so that `combined` gives
        that mean.
        """
        raise InputError(
            f"{type(self).__name__} has no trained parameters for other graphs; fit it on a graph with the new nodes"
        )

    def apply_to_new(
        self,
        parameters: Parameters,
        graph: Graph,
        new: Graph,
        to_known: sp.csr_array,
        device: torch.device,
        state: dict[str, Any],
    ) -> Float[np.ndarray, "runs peers new classes"]:
        """`apply` for new nodes that join the graph of the fit by edges to its nodes (`to_known`, new x known).

        Results that depend only on the graph of the fit may be kept in `state`.
        """
        tables: Any = graph.features, new.features
        count = graph.num_nodes + new.num_nodes
        features = sp.vstack(tables, format="csr") if sp.issparse(graph.features) else np.concatenate(tables)
        edges = sp.block_array([[graph.adjacency, to_known.T], [to_known, new.adjacency]], format="csr")
        labels = np.full(count, UNLABELED)
        joint = replace(graph, adjacency=edges, features=features, labels=labels, node_ids=np.arange(count))
        return self.apply(parameters, joint, device)[:, :, graph.num_nodes :]

    def remember(self, parameters: Parameters, task: Task) -> None:
        """Reuse what an earlier fit with the same settings learned on the same graph without labels."""

    @property
    def peers_of_their_graph(self) -> tuple[str, ...]:
        """Names of the peers that `apply` cannot use, since they know only the nodes of the fit."""
        return ()

    def explainer(self, parameters: Mapping[str, np.ndarray], graph: Graph) -> Any:
        """An object that decomposes predictions for the nodes of the fit; None if the method has none."""
        return None

    @property
    def answering_peers(self) -> slice:
        """The peers whose mean is the prediction."""
        return slice(None)

    def combined(
        self, peers: PeerProbabilities, parameters: Parameters | None = None
    ) -> Float[np.ndarray, "runs nodes classes"]:
        """The prediction from the probabilities of all peers, after `fit` and `apply` alike. The parameters
        include the weights of the peers."""
        return peers[:, self.answering_peers].mean(axis=1)

    def bytes_per_run(self, task: Task) -> int:
        """Approximate memory (bytes) of one run while fitting; 0 if many runs need no more than one."""
        return 0

    def shared_bytes(self, task: Task) -> int:
        """Approximate memory (bytes) of fitting that is shared by all runs, in addition to the graph."""
        return 0


@dataclass(frozen=True, kw_only=True)
class NetworkMethod(NetworkSettings, Method):
    """Base class of methods that train a network for every run."""

    architecture: ClassVar[type[StackedNetwork]] = GCN

    def network(self, task: Task) -> StackedNetwork:
        """The untrained networks of all runs."""
        return self.architecture(task, 1, self)

    def train(self, network: StackedNetwork, phases: Sequence[Phase], **more: Any) -> dict[str, np.ndarray]:
        """Train the network with Adam; returns the history."""
        return train(network, phases, Adam(self.learning_rate, self.weight_decay), **more)

    def apply(self, parameters: Parameters, graph: Graph, device: torch.device = CPU) -> PeerProbabilities:
        if not parameters:
            raise ValueError("there are none")
        runs = len(next(iter(parameters.values())))
        network = self.network(Task.without_labels(graph, runs, device))
        network.load_trained(parameters)
        return each_peer(network.probabilities())

    def bytes_per_run(self, task: Task) -> int:
        return self.architecture.bytes_per_model(task, self)


@dataclass(frozen=True, kw_only=True)
class TrainedOnLabels(NetworkMethod):
    """One network per run, trained for a fixed number of epochs. The prediction is that of the last epoch or, in
    subclasses with `uses_validation`, of the epoch with the best validation accuracy."""

    epochs: NonNegativeInt = 200  # training epochs

    def step(self, network: StackedNetwork, task: Task) -> Step:
        """The losses of one epoch, from a forward pass."""
        return supervised_step(network, task)

    def phases(self, network: StackedNetwork, task: Task) -> list[Phase]:
        """The phases of training."""
        return [Phase(self.epochs, lambda: self.step(network, task))]

    def fit(self, task: Task) -> Prediction:
        network = self.network(task)
        phases = self.phases(network, task)
        if not self.uses_validation:
            return network_prediction(network, self.train(network, phases))
        if task.validation is None:
            raise InputError(
                f"{type(self).__name__} needs validation nodes, which this task does not have; "
                "add some, or use the method without +v"
            )
        best = BestValidationAccuracy(network, task.validation)
        history = self.train(network, [replace(phase, after_epoch=best.keep) for phase in phases])
        network.load_state_dict(best.parameters)
        return network_prediction(network, history)


class BestValidationAccuracy:
    """Keeps the parameters of the epoch with the best validation accuracy; ties go to the smallest loss."""

    def __init__(self, network: StackedNetwork, validation: Nodes) -> None:
        self.network, self.validation = network, validation
        self.parameters = network.clone_parameters()
        self.best = torch.full((network.runs,), -torch.inf, device=network.device)

    @torch.no_grad()
    def keep(self) -> None:
        network, validation = self.network, self.validation
        network.eval()
        log_probabilities = network.logits_at(validation.index).log_softmax(CLASSES)
        network.train()
        correct = (log_probabilities.max(CLASSES).indices[..., 0] == validation.classes.T) & validation.present.T
        # The bonus for a small loss is smaller than any difference in accuracy.
        score = correct.sum(0) + 0.5 / (1 + supervised_loss(log_probabilities, validation)[:, 0])
        network.copy_runs(network.clone_parameters(), self.parameters, score > self.best)
        torch.maximum(score, self.best, out=self.best)


def network_prediction(network: StackedNetwork, history: dict[str, np.ndarray], **more: Any) -> Prediction:
    """The mean of the peers, with the parameters that `NetworkMethod.apply` reads."""
    return Prediction(mean_of_peers(network.probabilities()), history, parameters=network.trained(), **more)


def supervised_step(network: StackedNetwork, task: Task, reduction: Reduction = "mean") -> Step:
    """The supervised loss, computed at the labelled nodes only."""
    log_probabilities = network.logits_at(task.labelled.index).log_softmax(CLASSES)
    return Step({"supervised": supervised_loss(log_probabilities, task.labelled, reduction, task.communicator)})


def supervised_loss(
    log_probabilities: Float[Tensor, "labelled classes runs peers"],
    labelled: Nodes,
    reduction: Reduction = "mean",
    communicator: Communicator = ONE_PROCESS,
) -> Float[Tensor, "runs peers"]:
    """Cross-entropy of every model, given its log-probabilities at the labelled nodes. With several processes, each
    returns a partial sum."""
    classes = labelled.classes.T[:, None, :, None].expand(-1, 1, -1, log_probabilities.shape[-1])
    target_log_prob = log_probabilities.gather(CLASSES, classes).squeeze(CLASSES)  # labelled, runs, peers
    present = labelled.present.T[..., None]
    return reduced(-torch.where(present, target_log_prob, 0), communicator.sum(present.sum(0)), reduction)


def reduced(
    terms: Float[Tensor, "terms runs peers"], count: Int[Tensor, "runs any"], reduction: Reduction
) -> Float[Tensor, "runs peers"]:
    return terms.sum(0) / count.clamp(min=1) if reduction == "mean" else terms.sum(0)


def task_of(method: Method, graph: Graph, splits: Sequence[Split], seed: int, device: Device = "cpu") -> Task:
    """The task of these splits for a method. A graph without features gets structural ones if the method uses any."""
    if graph.features is None and method.uses_features:
        graph = with_structural_features(graph, seed)
    return observe(graph, splits, seed, with_validation=method.uses_validation, device=device)


def fit_in_chunks(method: Method, task: Task, memory_budget: int | None = None) -> Prediction:
    """`method.fit`, as many runs at a time as fit into `memory_budget` bytes.

    Runs are independent, so chunks change results by rounding only.
    """
    budget = default_budget(task.device) if memory_budget is None else memory_budget
    per_run = method.bytes_per_run(task)
    if task.device.type == "cpu":
        remedy = "choose smaller widths in the settings, fewer labels or a smaller graph"
        check_fits(per_run, f"fitting {described_size(task)}", remedy)
    at_once = max(1, budget // per_run) if per_run else task.runs
    runs = math.ceil(task.runs / math.ceil(task.runs / at_once))
    parts = []
    with threads_for(per_run and per_run * runs + method.shared_bytes(task)):
        for chunk in task.chunks(runs):
            try:
                prediction = method.fit(chunk)
            except (np.linalg.LinAlgError, torch.linalg.LinAlgError) as error:  # type: ignore[attr-defined]
                raise _failure(f"could not be calculated ({error})", method) from error
            parts.append(checked_prediction(method, chunk, prediction))
    trim_freed_blocks()
    return Prediction.concatenate(parts)


def described_size(task: Task) -> str:
    """A description of the task sizes that determine the memory of a fit."""
    labels = int(task.labelled.present.sum(1).max())
    return f"{task.num_nodes} nodes with {labels} labels of {task.num_classes} classes"


def checked_prediction(method: Method, task: Task, prediction: Prediction) -> Prediction:
    """The prediction; raises an `InputError` if it is incomplete or not finite."""
    name = type(method).__name__
    if not isinstance(prediction, Prediction):
        raise InputError(f"{name}.fit returned a {type(prediction).__name__}; return a mtgcn.task.Prediction")
    found, expected = np.shape(prediction.probabilities), (task.runs, task.num_nodes, task.num_classes)
    if found != expected:
        raise InputError(
            f"{name}.fit returned probabilities of shape {found}; return (runs, nodes, classes) = {expected}"
        )
    sums = np.sum(prediction.probabilities, axis=2)
    if not np.isfinite(sums).all():
        raise _failure("returned probabilities that are not finite (NaN)", method)
    if not np.allclose(sums, 1, atol=1e-3):
        raise InputError(f"{name}.fit returned probabilities that do not sum to 1; normalise them")
    for key, values in {"peers": prediction.peers, **(prediction.parameters or {})}.items():
        if values is not None and not all_finite(np.asarray(values)):
            raise _failure(f"returned {key} that are not finite (NaN)", method)
    return prediction


def _failure(what: str, method: Method) -> InputError:
    """The error for a failed fit, with the settings that may be the cause."""
    what = f"{type(method).__name__}.fit {what}"
    usual = {field.name: field.default for field in fields(method) if isinstance(field.default, float)}
    changed = [key for key, default in usual.items() if getattr(method, key) != default]
    if changed:
        values = ", ".join(f"{key} is {getattr(method, key):g} (usually {usual[key]:g})" for key in changed)
        return InputError(f"{what}; {values}, bring {'it' if len(changed) == 1 else 'them'} nearer to that")
    rate = getattr(method, "learning_rate", None)
    lower = "" if rate is None else f"lower learning_rate ({rate:g}), or "
    return InputError(f"{what}; did its training diverge? {lower}look for huge numbers among features and edge weights")


# The friends of each of the 34 members, as far as they have a larger number.
_FRIENDS = (
    "1 2 3 4 5 6 7 8 10 11 12 13 17 19 21 31;2 3 7 13 17 19 21 30;3 7 8 9 13 27 28 32;7 12 13;6 10;6 10 16;16;;"
    "30 32 33;33;;;;33;32 33;32 33;;;32 33;33;32 33;;32 33;25 27 29 32 33;25 27 31;31;29 33;33;31 33;32 33;32 33;"
    "32 33;33;"
)
_INSTRUCTOR_SIDE = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 16, 17, 19, 21]


def karate_club(*, with_validation: bool = False) -> tuple[Task, Callable[[Prediction], float]]:
    """Zachary's karate club (1977) as a task of one run with two labels per class, and a function that returns the
    accuracy of a prediction on the other nodes. The features of a member are its row of A + I.

    >>> task, accuracy = karate_club()
    >>> task.graph
    Graph('karate', nodes=34, edges=78, features=34, classes=2)
    """
    adjacency = np.zeros((34, 34))
    for member, friends in enumerate(_FRIENDS.split(";")):
        adjacency[member, [int(friend) for friend in friends.split()]] = 1
    labels = np.ones(34, dtype=np.int64)
    labels[_INSTRUCTOR_SIDE] = 0
    adjacency += adjacency.T
    sides = ("instructor", "officers")
    graph = Graph(adjacency, features=adjacency + np.eye(34), labels=labels, class_names=sides, name="karate")
    labelled, validation = np.array([0, 11, 26, 33]), np.array([2, 3, 23, 31])
    test = np.setdiff1d(np.arange(34), [*labelled, *validation])
    split = Split(train=labelled, validation=validation, test=test)

    def accuracy(prediction: Prediction) -> float:
        return float(np.mean(prediction.probabilities[0, test].argmax(axis=1) == labels[test]))

    return observe(graph, [split], seed=0, with_validation=with_validation), accuracy
