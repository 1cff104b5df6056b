"""Rows of a table as points in the plane, so that rows that are near each other stay near: t-SNE.

t-SNE (van der Maaten and Hinton, 2008) lets every row be drawn to its nearest ones and pushed away by all others. With
y the points, p the share of a pair in all bonds and q_ij in proportion to 1 / (1 + |y_i - y_j|^2), point i moves along

    sum_j (p_ij - q_ij) (y_j - y_i) / (1 + |y_i - y_j|^2).

The second part, over all pairs, is a convolution of how densely the plane is peopled with a fixed kernel, so it is
computed on a grid by Fourier transforms (after Linderman, Rachh, Hoskins, Steinerberger and Kluger, 2019): a step costs
in proportion to the rows, and nothing about it is random. Bonds join each row with its nearest ones, all alike.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.fft
import scipy.sparse as sp
import torch

from mtgcn.shapes import Float, Int

NEIGHBOURS = 15
STEPS, GATHERING_STEPS = 300, 100  # of the former, the first are drawn together harder, so that groups find each other
GATHERING = 12.0  # times as hard
MOMENTUM_GATHERING, MOMENTUM = 0.5, 0.8
STEPS_BETWEEN_REPORTS = 10
LEAST_ROWS = 5  # for fewer there are no neighbours of neighbours
LEAST_CLOSENESS = 1e-3  # of all pairs together; nobody is so far away that the others count for nothing
LONGEST_STEP = 5.0  # in units of the kernel's width; whoever overshoots comes back instead of flying off
START = 1e-4  # the spread of the points before the first step
UNLIKE = 1e-3  # of the spread of the rows: noise that parts equal ones, which would all choose the same neighbours
CELL = 0.5  # of the grid, in units of the kernel's width
CELLS, MOST_CELLS = 32, 320  # along each side
ROWS_AT_ONCE = 1024  # whose distances to all others are held at a time


def layout_2d(
    rows: Float[np.ndarray, "rows columns"], *, seed: int = 0, progress: Callable[[int, int], None] | None = None
) -> Float[np.ndarray, "rows 2"]:
    """Places that lie wide rather than high: x from 0 to 1, y from 0 to at most 1. `progress` is told the steps done
    and all there are.

    Numbers that are none (NaN, infinite) count as 0, and rows that are all the same make one round cloud.

    >>> two_groups = np.repeat([[0.0, 0.0, 0.0], [9.0, 9.0, 9.0]], 20, axis=0)
    >>> places = layout_2d(two_groups)
    >>> first, second = places[:20], places[20:]
    >>> apart = np.linalg.norm(first.mean(axis=0) - second.mean(axis=0))
    >>> bool(apart > 2 * max(first.std(), second.std()))
    True
    """
    random = np.random.default_rng(seed)
    table = _of_unit_spread(np.nan_to_num(np.asarray(rows, dtype=np.float64), nan=0, posinf=0, neginf=0))
    table = (table + UNLIKE * random.standard_normal(table.shape) / np.sqrt(max(1, table.shape[1]))).astype(np.float32)
    start = _two_main_directions(table)
    if len(table) < LEAST_ROWS:
        return _laid_wide(start)
    first, second, strength = _bonds(table)
    # One axis after the other, not one point after the other: long vectors are what numpy is quick with.
    points = np.ascontiguousarray(START * start.T)
    velocity, gains = np.zeros_like(points), np.ones_like(points)
    rate = len(table) / GATHERING
    for step in range(STEPS):
        gathering = step < GATHERING_STEPS
        pull = _attraction(points, first, second, strength)
        slope = 4 * ((GATHERING if gathering else 1.0) * pull - _repulsion(points))
        gains = np.maximum(np.where(np.sign(slope) == np.sign(velocity), 0.8 * gains, gains + 0.2), 0.01)
        velocity = (MOMENTUM_GATHERING if gathering else MOMENTUM) * velocity - rate * gains * slope
        velocity = np.clip(velocity, -LONGEST_STEP, LONGEST_STEP)
        points = points + velocity
        points -= points.mean(axis=1, keepdims=True)
        if progress is not None and (step + 1) % STEPS_BETWEEN_REPORTS == 0:
            progress(step + 1, STEPS)
    return _laid_wide(points.T)


def nearest_rows(table: Float[np.ndarray, "rows columns"], count: int) -> Int[np.ndarray, "rows count"]:
    """For each row the places of its nearest other rows."""
    rows = torch.from_numpy(np.ascontiguousarray(table))
    squares = rows.square().sum(1)
    found = []
    for start in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[start : start + ROWS_AT_ONCE]
        distance = torch.addmm(squares[None], some, rows.T, alpha=-2)  # less what is the same for the whole row
        distance[torch.arange(len(some)), torch.arange(start, start + len(some))] = torch.inf
        found.append(distance.topk(count, largest=False).indices)
    return torch.cat(found).numpy()


def _laid_wide(points: np.ndarray) -> np.ndarray:
    """Turned so that their longer side lies flat, moved and scaled, both axes alike, so that distances keep their
    proportions."""
    turned = _two_main_directions(points.astype(np.float64))
    extent = np.ptp(turned, axis=0)
    if extent[1] > extent[0]:
        turned, extent = turned[:, ::-1], extent[::-1]
    return (turned - turned.min(axis=0)) / (extent[0] if extent[0] > 0 else 1)


def _of_unit_spread(table: np.ndarray) -> np.ndarray:
    centred = table - table.mean(axis=0)
    spread = np.sqrt((centred**2).sum(axis=1).mean())
    return centred / spread if spread > 0 else centred


def _two_main_directions(table: np.ndarray) -> np.ndarray:
    """The rows along the two directions in which they differ most, with a spread of 1 in the first."""
    centred = table - table.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred)  # the largest come last
    main = centred @ directions[:, ::-1][:, :2]
    both = np.concatenate([main, np.zeros((len(table), 2 - main.shape[1]), main.dtype)], axis=1)
    return both / max(float(both[:, 0].std()), np.finfo(np.float32).tiny)


def _bonds(table: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every pair of which one is among the nearest of the other, once, and its share p; all shares sum to 1 where a
    pair counts for both its ends."""
    count = min(NEIGHBOURS, len(table) - 1)
    chosen = nearest_rows(table, count).ravel()
    choosing = np.repeat(np.arange(len(table)), count)
    bonds = sp.coo_array((np.ones(len(chosen), np.float32), (choosing, chosen)), shape=(len(table),) * 2).tocsr()
    pairs = sp.triu(bonds + bonds.T, 1).tocoo()
    return pairs.row, pairs.col, pairs.data / (2 * pairs.data.sum())


def _attraction(points: np.ndarray, first: np.ndarray, second: np.ndarray, strength: np.ndarray) -> np.ndarray:
    difference = points[:, first] - points[:, second]
    pull = difference * (strength / (1 + (difference**2).sum(axis=0)))
    count = points.shape[1]
    both = [np.bincount(first, one, count) - np.bincount(second, one, count) for one in pull]
    return np.stack(both).astype(np.float32)


def _repulsion(points: np.ndarray) -> np.ndarray:
    """Sum over j of q_ij (y_i - y_j) / (1 + |y_i - y_j|^2), all at once on a grid."""
    low = points.min(axis=1, keepdims=True)
    extent = max(float((points - low).max()), START)
    cells = int(np.clip(extent / CELL, CELLS, MOST_CELLS))
    size = extent / (cells - 1) * 1.0001  # so that nobody lies on the far side of the last cell
    corners, weights = _corners_around((points - low) / size, cells)
    density = np.bincount(corners.ravel(), weights.ravel(), cells * cells).reshape(cells, cells)
    # A transform takes its input for a ring; twice as long, nobody meets the other end.
    length = scipy.fft.next_fast_len(2 * cells, real=True)
    along = np.arange(length, dtype=np.float32)
    along = size * np.where(along <= length // 2, along, along - length).astype(np.float32)
    kernel = 1 / (1 + along[:, None] ** 2 + along**2)
    spectrum = scipy.fft.rfft2(density.astype(np.float32), (length, length))

    def felt(kernel: np.ndarray) -> np.ndarray:
        field = scipy.fft.irfft2(spectrum * scipy.fft.rfft2(kernel), (length, length))[:cells, :cells]
        return (field.ravel()[corners] * weights).sum(axis=0)

    corner = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    of_corners = kernel[tuple(np.moveaxis(corner[:, None] - corner, 2, 0))]
    itself = ((of_corners @ weights) * weights).sum()  # what the corners of each point take for its neighbour
    everything = max(float(felt(kernel).sum() - itself), LEAST_CLOSENESS)
    return np.stack([felt(along[:, None] * kernel**2), felt(along * kernel**2)]) / everything


def _corners_around(places: np.ndarray, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """The four grid points around each place, and how much of it falls to each."""
    corner = np.minimum(places.astype(np.int64), cells - 2)
    inside = (places - corner).astype(np.float32)
    (right, up), (left, down) = inside, 1 - inside
    base = corner[0] * cells + corner[1]
    return (
        np.stack([base, base + 1, base + cells, base + cells + 1]),
        np.stack([left * down, left * up, right * down, right * up]),
    )
