"""Whether a fit will find the memory it needs; if not, what would fit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch

from mtgcn.errors import InputError
from mtgcn.linalg.structural_features import DIMENSIONS
from mtgcn.memory import free_bytes, is_out_of_memory, readable
from mtgcn.splits import Split
from mtgcn.task import Task, observe

if TYPE_CHECKING:
    from mtgcn.graph import Graph
    from mtgcn.methods import Method

WIDTH_SETTINGS = ("hidden_channels", "dimensions")  # those that memory grows with; a method has one or none


@contextmanager
def within_memory(graph: Graph, method: Method, device: torch.device) -> Iterator[None]:
    """Refuse what will not fit before time is spent on it, and say of what did not fit after all what would."""
    task, needed, free = check_memory(graph, method, device)
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise InputError(
            f"out of memory while fitting {task.num_nodes} nodes, with {readable(free)} free on {device.type} at the "
            f"start; {_what_would_fit(method, task, min(needed, free) // 2)}"
        ) from error


def check_memory(graph: Graph, method: Method, device: torch.device) -> tuple[Task, int, int]:
    """Refuse a fit that needs more memory than is free; the task, the bytes it needs and those that are free."""
    task = one_run(graph, device)
    needed, free = needed_bytes(method, task), available_bytes(device)
    if needed > free:
        raise InputError(
            f"out of memory: fitting {task.num_nodes} nodes takes about {readable(needed)} and {readable(free)} are "
            f"free on {device.type}; {_what_would_fit(method, task, free)}"
        )
    return task, needed, free


def needed_bytes(method: Method, task: Task) -> int:
    """About what fitting one run takes beside the graph that is there already."""
    # Training keeps scaled copies of edges and features, and the features once smoothed over the edges.
    edges, features = _bytes_of(task.graph.adjacency), _bytes_of(task.graph.features)
    if task.graph.features is None and method.uses_features:
        features = task.num_nodes * DIMENSIONS * np.float32().nbytes  # made from the edges
    return method.bytes_per_run(task) + method.shared_bytes(task) + edges + 2 * features


def _bytes_of(matrix: sp.csr_array | np.ndarray | None) -> int:
    if matrix is None:
        return 0
    if isinstance(matrix, np.ndarray):
        return matrix.nbytes
    return matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes


def available_bytes(device: torch.device) -> int:
    """Memory that may still be taken on this device: of the machine and, in a container, of what it was given."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free
    return free_bytes()


def one_run(graph: Graph, device: torch.device, seed: int = 0) -> Task:
    """A fit to all labels that there are."""
    return observe(graph, [Split(graph.known, graph.known[:0], graph.known[:0])], seed=seed, device=device)


def _what_would_fit(method: Method, task: Task, budget: int) -> str:
    choices = [f"a graph of about {int(task.num_nodes * budget / needed_bytes(method, task))} nodes"]
    for setting in WIDTH_SETTINGS:
        narrower = _widest_that_fits(method, setting, task, budget)
        if narrower:
            choices.insert(0, f"--set {setting}={narrower}")
    return f"what would fit: {' or '.join(choices)}"


def _widest_that_fits(method: Method, setting: str, task: Task, budget: int) -> int | None:
    width = getattr(method, setting, 0)
    while (width := width // 2) >= 2:
        if needed_bytes(replace(method, **{setting: width}), task) <= budget:
            return width
    return None
