"""What every method is: frozen settings and `fit`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch

from mtgcn.errors import InputError
from mtgcn.linalg.arrays import all_finite
from mtgcn.memory import check_fits, default_budget, threads_for, trim_freed_blocks
from mtgcn.settings import Settings
from mtgcn.shapes import Float
from mtgcn.task import Prediction, Task
from mtgcn.training.progress import watching_divergence

if TYPE_CHECKING:
    from mtgcn.graph import Graph

CPU = torch.device("cpu")


@dataclass(frozen=True, kw_only=True)
class Method(Settings, ABC):
    """Settings, and a way from a task to a prediction. All runs of the task are fitted together."""

    uses_validation: ClassVar[bool] = False  # whether `task.validation` must be filled
    draws_by_place: ClassVar[bool] = False  # whether random numbers belong to nodes, by where they stand in the graph
    uses_features: ClassVar[bool] = True  # off: edges and labels are all it looks at

    @abstractmethod
    def fit(self, task: Task) -> Prediction:
        """Predict every node of every run from the labels the task holds."""

    def apply(
        self, parameters: Mapping[str, np.ndarray], graph: Graph, device: torch.device = CPU
    ) -> Float[np.ndarray, "runs peers nodes classes"]:
        """What each peer trained before says of the nodes of this graph, which it need not have seen.

        Peers that cannot be applied to unseen nodes leave the vote there, the others' weights rescaled: they repeat
        what the others say together, so that `combined` needs to know nothing of it.
        """
        raise InputError(
            f"{type(self).__name__} keeps nothing that could be applied to another graph; "
            "fit it on the graph that holds the new nodes"
        )

    def remember(self, parameters: Mapping[str, np.ndarray], task: Task) -> None:
        """Prepare fitting this task by what an earlier fit with the same settings on the same graph has learned without
        looking at labels, so that it is not learned again. Most methods learn nothing without labels."""

    @property
    def peers_of_their_graph(self) -> tuple[str, ...]:
        """The names of those peers that `apply` cannot ask, since they know nodes by their place in their graph."""
        return ()

    @property
    def answering_peers(self) -> slice:
        """The peers whose mean is the answer."""
        return slice(None)

    def combined(
        self,
        peers: Float[np.ndarray, "runs peers nodes classes"],
        parameters: Mapping[str, np.ndarray] | None = None,
    ) -> Float[np.ndarray, "runs nodes classes"]:
        """The answer that these peers give together, the same whether `fit` or `apply` asked them. Where votes have
        different weights, these are among the parameters."""
        return peers[:, self.answering_peers].mean(axis=1)

    def bytes_per_run(self, task: Task) -> int:
        """About how much memory one run takes while fitting; 0 if many runs take no more than one."""
        return 0

    def shared_bytes(self, task: Task) -> int:
        """About how much memory fitting takes beside the graph however few runs there are."""
        return 0


def fit_in_chunks(method: Method, task: Task, memory_budget: int | None = None) -> Prediction:
    """`method.fit`, as many runs at a time as fit into `memory_budget` bytes.

    A run's numbers do not depend on its neighbours in the stack, so the cut changes nothing but rounding.
    """
    budget = default_budget(task.device) if memory_budget is None else memory_budget
    per_run = method.bytes_per_run(task)
    if task.device.type == "cpu":
        check_fits(
            per_run, f"fitting {task.num_nodes} nodes", "choose smaller widths in the settings, or a smaller graph"
        )
    at_once = max(1, budget // per_run) if per_run else task.runs
    chunks = math.ceil(task.runs / at_once)
    runs = math.ceil(task.runs / chunks)
    with threads_of_fit(method, task, runs):
        prediction = Prediction.concatenate([_answer(method, chunk) for chunk in task.chunks(runs)])
    trim_freed_blocks()  # which were for training, and fit nothing that comes after it
    return prediction


def threads_of_fit(method: Method, task: Task, runs: int = 1) -> AbstractContextManager[None]:
    """While this lasts, as many threads as fitting so many runs at a time is worth."""
    stack = method.bytes_per_run(task) * runs
    return threads_for(stack and stack + method.shared_bytes(task))


def _answer(method: Method, task: Task) -> Prediction:
    """What the method predicts, if that is what it says it is: methods that others wrote go the same road."""
    name = type(method).__name__
    with watching_divergence() as diverged:
        try:
            prediction = method.fit(task)
        except (np.linalg.LinAlgError, torch.linalg.LinAlgError) as error:  # type: ignore[attr-defined]
            raise InputError(f"{name}.fit {_astray(f'could not be calculated ({error})', method, diverged)}") from error
    return checked_prediction(method, task, prediction, diverged)


def checked_prediction(method: Method, task: Task, prediction: Prediction, diverged: Sequence[str]) -> Prediction:
    """The prediction of a method if it is complete and finite; `diverged` lists what was not finite in training."""
    name = type(method).__name__
    if not isinstance(prediction, Prediction):
        raise InputError(f"{name}.fit answered a {type(prediction).__name__}; return a mtgcn.task.Prediction")
    found, expected = np.shape(prediction.probabilities), (task.runs, task.num_nodes, task.num_classes)
    if found != expected:
        raise InputError(
            f"{name}.fit answered probabilities of shape {found}; here they are runs, nodes, classes: {expected}"
        )
    sums = np.sum(prediction.probabilities, axis=2)
    if not np.isfinite(sums).all():
        raise InputError(f"{name}.fit {_astray('answered probabilities that are not finite (NaN)', method, diverged)}")
    if not np.allclose(sums, 1, atol=1e-3):
        raise InputError(f"{name}.fit answered probabilities that do not sum to 1 at every node; normalise them")
    others = {"peers": prediction.peers, **(prediction.parameters or {})}
    strange = next(
        (key for key, values in others.items() if values is not None and not all_finite(np.asarray(values))), None
    )
    if strange is not None:
        raise InputError(f"{name}.fit {_astray(f'answered {strange} that are not finite (NaN)', method, diverged)}")
    return prediction


def _astray(what: str, method: Method, diverged: Sequence[str]) -> str:
    """What happened, since when, and by which setting that may have come about."""
    since = f": {diverged[0]}" if diverged else ""
    usual = {field.name: field.default for field in fields(method) if isinstance(field.default, float)}
    changed = [key for key, number in usual.items() if getattr(method, key) != number]
    if changed:
        told = ", ".join(f"{key} is {getattr(method, key):g} (usually {usual[key]:g})" for key in changed)
        return f"{what}{since}; {told}, bring {'it' if len(changed) == 1 else 'them'} nearer to that"
    rate = getattr(method, "learning_rate", None)
    lower = "" if rate is None else f"lower learning_rate ({rate:g}), or "
    return f"{what}{since}; did its training diverge? {lower}look for huge numbers among features and edge weights"
