"""A cache for functions of a graph, with the lifetime of the graph."""

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
    """Cache a function of a graph and further hashable arguments.

    The function receives the graph without labels, so graphs that differ only in labels share results. Results live as
    long as the graph and must not refer to it. Concurrent calls may compute a result twice, but return the first one.

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
        from mtgcn.environment import usual_torch

        with usual_torch():  # results outlive the current mode of torch
            result = make(bare, *args, **kwargs)
        with lock:
            return known.setdefault(key, result)

    return found_or_made
