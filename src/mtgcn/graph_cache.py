"""What takes long to make of a graph, made once and found again as long as the graph is there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from functools import wraps
from inspect import signature
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from mtgcn.graph import Graph

Settings = ParamSpec("Settings")
Made = TypeVar("Made")


def cached_per_graph(
    make: Callable[Concatenate[Graph, Settings], Made],
) -> Callable[Concatenate[Graph, Settings], Made]:
    """Let a function of a graph, and of further arguments that can be hashed, run once for each of them.

    It is given the graph without labels. So it cannot depend on them, and a graph and all that differs from it in
    labels alone, such as `graph.without_labels`, share what was made. That goes when the graph goes; it must not hold
    on to the graph it was made of. Two threads that ask at the same time may both make it, and both get the first's.

    >>> import numpy as np
    >>> @cached_per_graph
    ... def degrees(graph: Graph) -> np.ndarray:
    ...     print("counting")
    ...     return np.diff(graph.adjacency.indptr)
    >>> pair = Graph(np.array([[0, 1], [1, 0]]), labels=[0, 1])
    >>> degrees(pair) is degrees(pair.without_labels)
    counting
    True
    """
    made: WeakKeyDictionary[Graph, dict[Hashable, Made]] = WeakKeyDictionary()
    lock = threading.Lock()
    takes = signature(make)

    @wraps(make)
    def found_or_made(graph: Graph, /, *args: Settings.args, **kwargs: Settings.kwargs) -> Made:
        bare = graph.without_labels
        call = takes.bind(bare, *args, **kwargs)
        call.apply_defaults()
        key = tuple(call.arguments.values())[1:]
        with lock:
            known = made.setdefault(bare, {})
            if key in known:
                return known[key]
        result = make(bare, *args, **kwargs)
        with lock:
            return known.setdefault(key, result)

    return found_or_made
