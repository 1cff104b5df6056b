"""What a fit will cost, told before it begins: time and memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mtgcn.free_memory import readable, resident_bytes
from mtgcn.machine_speed import measured_speeds
from mtgcn.methods.base import threads_of_fit
from mtgcn.own_graph.memory_check import needed_bytes, one_run
from mtgcn.trust.expected_accuracy import why_not_measurable
from mtgcn.work import Work

if TYPE_CHECKING:
    import torch

    from mtgcn.graph import Graph
    from mtgcn.methods import Method
    from mtgcn.task import Task

MINUTE, HOUR = 60, 3600


@dataclass(frozen=True)
class Cost:
    """About how long fitting takes, accuracy on held-out labels included, and how much memory the process has then."""

    seconds: float | None  # None where nobody can tell
    bytes: int


def expected_cost(graph: Graph, method: Method, device: torch.device, folds: int, seed: int = 0) -> Cost:
    """The cost of a fit to all labels and of measuring its accuracy, which fits once more without each fold."""
    task = one_run(graph, device, seed)
    measured = folds and why_not_measurable(graph, method, folds) is None
    return Cost(_seconds(method, task, folds if measured else 0), _bytes(method, task))


def _bytes(method: Method, task: Task) -> int:
    already = resident_bytes() if task.device.type == "cpu" else 0  # else it is the device's own memory
    return already + needed_bytes(method, task)


def _seconds(method: Method, task: Task, folds: int) -> float | None:
    # What a GPU can do shows only in products far larger than one has the time for here; and features that are yet to
    # be made from the edges are not counted.
    if task.device.type != "cpu" or (method.uses_features and task.graph.features is None):
        return None
    with threads_of_fit(method, task):
        per_run = method.work_per_run(task)
        if per_run is None:
            return None
        # Folds are fitted as one stack, by the calls that a single one takes.
        stack = replace(folds * per_run, calls=per_run.calls) if folds else Work()
        return measured_speeds(task.num_nodes).seconds(method.shared_work(task) + per_run + stack)


def cost_words(cost: Cost) -> str:
    """The cost as people say it.

    >>> cost_words(Cost(41.7, 5 * 2**28)), cost_words(Cost(None, 2**30)), cost_words(Cost(0.2, 2**30))
    ('about 40 s, 1.2 GiB', 'about 1.0 GiB', 'about 1 s, 1.0 GiB')
    >>> cost_words(Cost(340, 2**30)), cost_words(Cost(9000, 2**30))
    ('about 6 min, 1.0 GiB', 'about 2.5 h, 1.0 GiB')
    """
    return "about " + ", ".join(filter(None, (_duration(cost.seconds), readable(cost.bytes))))


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds >= HOUR:
        return f"{seconds / HOUR:.1f} h"
    if seconds >= 2 * MINUTE:
        return f"{seconds / MINUTE:.0f} min"
    # No more digits than such a prediction is worth.
    return f"{max(1, round(seconds) if seconds < 10 else 5 * round(seconds / 5))} s"
