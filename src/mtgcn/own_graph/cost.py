"""What a fit will cost, told before it begins: time and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mtgcn.free_memory import readable, resident_bytes
from mtgcn.machine_speed import measured_speeds
from mtgcn.own_graph.memory_check import needed_bytes
from mtgcn.training.memory import threads_for
from mtgcn.trust.expected_accuracy import why_not_measurable

if TYPE_CHECKING:
    from mtgcn.graph import Graph
    from mtgcn.methods import Method
    from mtgcn.task import Task
    from mtgcn.work import Work

MINUTE, HOUR = 60, 3600


@dataclass(frozen=True)
class Cost:
    """About how long fitting takes, accuracy on held-out labels included, and how much memory the process has then."""

    seconds: float | None  # None where nobody can tell
    bytes: int


def expected_cost(graph: Graph, method: Method, task: Task, folds: int) -> Cost:
    """The cost of a fit of this task and of measuring its accuracy, which fits once more without each fold."""
    fits = 1 + (folds if folds and why_not_measurable(graph, method, folds) is None else 0)
    return Cost(_seconds(method, task, fits), resident_bytes() + needed_bytes(method, task))


def _seconds(method: Method, task: Task, fits: int) -> float | None:
    # What a GPU can do shows only in products far larger than one has the time for here.
    per_run = method.work_per_run(task) if task.device.type == "cpu" else None
    if per_run is None:
        return None
    work: Work = method.shared_work(task) + fits * per_run
    with threads_for(method.bytes_per_run(task)):
        return measured_speeds(task.num_nodes).seconds(work)


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
