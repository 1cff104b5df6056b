"""What every method is: frozen settings and `fit`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from mtgcn.memory import default_budget, keeping_freed_blocks, threads_for
from mtgcn.task import Prediction, Task


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """Settings, and a way from a task to a prediction. All runs of the task are fitted together."""

    uses_validation: ClassVar[bool] = False  # whether `task.validation` must be filled
    draws_by_place: ClassVar[bool] = False  # whether random numbers belong to nodes, by where they stand in the graph

    @abstractmethod
    def fit(self, task: Task) -> Prediction:
        """Predict every node of every run from the labels the task holds."""

    def bytes_per_run(self, task: Task) -> int:
        """About how much memory one run takes while fitting; 0 if many runs take no more than one."""
        return 0


def fit_in_chunks(method: Method, task: Task, memory_budget: int | None = None) -> Prediction:
    """`method.fit`, as many runs at a time as fit into `memory_budget` bytes.

    A run's numbers do not depend on its neighbours in the stack, so the cut changes nothing but rounding.
    """
    budget = default_budget(task.device) if memory_budget is None else memory_budget
    per_run = method.bytes_per_run(task)
    at_once = max(1, budget // per_run) if per_run else task.runs
    chunks = math.ceil(task.runs / at_once)
    runs = math.ceil(task.runs / chunks)
    with keeping_freed_blocks(), threads_for(per_run * runs):
        return Prediction.concatenate([method.fit(chunk) for chunk in task.chunks(runs)])
