"""Nearest neighbours in a table of features: a graph for data without edges, and edges of new rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from mtgcn.errors import InputError, unknown_name
from mtgcn.shapes import Float, Int

METRICS = ("euclidean", "cosine", "manhattan", "chebyshev", "correlation")
MISSING = -1  # pads rows for which the approximate search found fewer neighbours
BY_PRODUCTS = ("euclidean", "cosine", "correlation")  # metrics that are computed from inner products of rows
EXACT_ROWS = 20_000  # larger tables are searched by products or, if that takes too long, approximately
EXACT_WORK = 2**40  # most multiplications of a search by products: half a minute on one core
WORK_PER_PAIR = 32  # multiplications per pair of rows, in addition to one per feature
GROUP, BLOCK_NUMBERS = 64, 2**25  # rows that share one minimum of the distances; distances in memory


def neighbour_graph(
    X: Any,  # noqa: N803  # rows and features, as scikit-learn calls them
    k: int = 10,
    metric: str = "euclidean",
    mutual: bool = False,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> sp.csr_array:
    """Symmetric adjacency matrix of ones: two rows are linked if one is among the `k` nearest of the other or, with
    `mutual`, if each is. Exact up to 20 000 rows, and up to about 100 000 rows of few features; beyond, approximate
    by pynndescent with the given `seed`. `progress` is called with the rows done and all rows.

    >>> neighbour_graph([[0.0], [1.0], [3.0]], k=1).toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]], dtype=float32)
    """
    table = _checked_table(X, "X")
    rows = table.shape[0]
    _check(k, metric, rows - 1, f"{rows} rows, each with {rows - 1} others")
    if rows <= EXACT_ROWS:  # without query rows scikit-learn excludes each row itself, also among duplicates
        found = neighbour_search(table, k, metric)(None)
    elif not sp.issparse(table) and metric in BY_PRODUCTS and rows**2 * (table.shape[1] + WORK_PER_PAIR) <= EXACT_WORK:
        found = _neighbours_by_products(table, k, metric, progress)
    else:
        found = _approximate_neighbours(table, k, metric, seed)
    row, place = np.nonzero(found != MISSING)
    ones = np.ones(len(row), np.float32)
    edges = sp.coo_array((ones, (row, found[row, place])), shape=(rows, rows)).tocsr()
    return sp.csr_array(edges.minimum(edges.T) if mutual else edges.maximum(edges.T))


def neighbour_search(X_train: Any, k: int, metric: str) -> Callable[[Any], Int[np.ndarray, "new k"]]:  # noqa: N803
    """A function that returns the `k` nearest training rows of each new row, nearest first; exact at any size. Called
    with None, it returns the nearest other rows of each training row."""
    known = _checked_table(X_train, "X_train")
    _check(k, metric, known.shape[0], f"{known.shape[0]} known rows")
    from sklearn.neighbors import NearestNeighbors
    from threadpoolctl import ThreadpoolController

    threads = ThreadpoolController()
    with threads.limit(limits=1):
        fitted = NearestNeighbors(n_neighbors=k, metric=metric).fit(known)

    def search(rows: Any) -> np.ndarray:
        # In one thread, since ties depend on how scikit-learn distributes rows over threads.
        with threads.limit(limits=1):
            found: np.ndarray = fitted.kneighbors(rows, k, False)
        return found

    return search


def _neighbours_by_products(table: np.ndarray, k: int, metric: str, progress: Callable[[int, int], None]) -> np.ndarray:
    """The nearest rows, from blocks of |y|² - 2 xy. The k groups with the smallest minima contain the k nearest rows,
    so only these are searched; 2 k candidates are then sorted by exact distances."""
    rows = torch.from_numpy(table)
    rows = rows - rows.mean(1 if metric == "correlation" else 0, keepdim=True) if metric != "cosine" else rows
    rows = rows if metric == "euclidean" else torch.nn.functional.normalize(rows)
    count, wanted = len(rows), 2 * k
    padding = -count % GROUP + GROUP * wanted  # ensures that there are enough groups
    others = torch.nn.functional.pad(rows, (0, 0, 0, padding)).T.contiguous()
    squares = torch.nn.functional.pad(rows.square().sum(1), (0, padding), value=torch.inf)
    found, size = torch.empty(count, k, dtype=torch.int64), max(1, BLOCK_NUMBERS // len(squares))
    memory = torch.empty(size, len(squares))
    for start in range(0, count, size):
        block = rows[start : start + size]
        here = torch.arange(len(block))
        distances = torch.addmm(squares, block, others, alpha=-2, out=memory[: len(block)])
        distances[here, start + here] = torch.inf
        groups = distances.view(len(block), -1, GROUP)
        nearest_groups = groups.amin(2).topk(wanted, largest=False).indices
        members = (nearest_groups[..., None] * GROUP + torch.arange(GROUP)).flatten(1)
        candidates = members.gather(1, distances.gather(1, members).topk(wanted, largest=False).indices).sort(1).values
        exact = (rows[candidates.clamp(max=count - 1)] - block[:, None]).square().sum(2)
        exact[(candidates >= count) | (candidates == (start + here)[:, None])] = torch.inf
        found[start : start + size] = candidates.gather(1, exact.argsort(dim=1, stable=True)[:, :k])
        progress(min(start + size, count), count)
    return found.numpy()


def _approximate_neighbours(table: Any, k: int, metric: str, seed: int) -> np.ndarray:
    from pynndescent import NNDescent

    threads = torch.get_num_threads()
    found = NNDescent(table, metric=metric, n_neighbors=k + 1, random_state=seed).neighbor_graph[0]
    torch.set_num_threads(threads)  # numba sets the number of OpenMP threads, which torch shares
    # The row itself is removed; if duplicates displaced it, the last entry is.
    own = found == np.arange(len(found))[:, None]
    own[~own.any(axis=1), -1] = True
    return found[~own].reshape(len(found), k)


def _checked_table(given: Any, name: str) -> sp.csr_array | Float[np.ndarray, "rows features"]:
    try:
        table: Any = (
            sp.csr_array(given, dtype=np.float32) if sp.issparse(given) else np.asarray(given, dtype=np.float32)
        )
    except (TypeError, ValueError) as problem:
        raise InputError(f"{name} is not a table of numbers ({problem}); give rows and features") from None
    if table.ndim != 2 or not all(table.shape):
        raise InputError(f"{name} has shape {table.shape}; give a table with rows and features")
    if not np.isfinite(table.data if sp.issparse(table) else table).all():
        row = int(np.flatnonzero(~np.isfinite(table.sum(axis=1)))[0])
        raise InputError(f"{name}: a feature of row {row} is NaN or infinite; give finite numbers")
    return table


def _check(k: int, metric: str, largest: int, rows: str) -> None:
    if k < 1:
        raise InputError(f"k={k} is too small; give at least 1")
    if k > largest:
        raise InputError(f"k={k} is too large for {rows}; lower it to at most {largest}")
    if metric not in METRICS:
        raise unknown_name("metric", metric, METRICS)
