"""Two-dimensional layout by t-SNE (van der Maaten and Hinton, 2008): neighbouring rows stay neighbours.

With points y, affinities p and q_ij proportional to 1 / (1 + |y_i - y_j|^2), point i moves along

    sum_j (p_ij - q_ij) (y_j - y_i) / (1 + |y_i - y_j|^2).

The repulsion, over all pairs, is a convolution of the density with a fixed kernel. It is computed on a grid by Fourier
transforms (Linderman et al., 2019), so that a step takes linear time. Affinities are equal for the nearest neighbours
of a row. For large tables only a sample is laid out; other rows are placed near their nearest rows of this sample.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.fft
import scipy.sparse as sp
import torch

from mtgcn.shapes import Float, Int

NEIGHBOURS = 15
STEPS, EXAGGERATION_STEPS = 300, 100  # all steps, and the first steps, which have early exaggeration
EXAGGERATION = 12.0  # factor of the attraction
MOMENTUM_EXAGGERATED, MOMENTUM = 0.5, 0.8
STEPS_BETWEEN_REPORTS = 10
MIN_ROWS = 5  # fewer rows are laid out by PCA
MIN_NORMALISER = 1e-3  # lower bound of the sum over all pairs
MAX_STEP = 5.0  # largest movement in one step, in units of the kernel's width
START = 1e-4  # standard deviation of the initial points
NOISE = 1e-3  # noise, relative to the spread of the rows, that separates equal rows
CELL = 0.5  # size of a grid cell, in units of the kernel's width
MIN_CELLS, MAX_CELLS = 32, 320  # bounds of the number of grid cells along each side
MAX_ROWS = 20_000  # most rows laid out by t-SNE, whose nearest neighbours take quadratic time
ANCHORS, NEAREST_ANCHORS, SCATTER = 5_000, 5, 0.004  # other rows: median of their nearest anchors, plus noise
ROWS_AT_ONCE = 1024  # rows whose distances to all others are in memory at a time


def layout_2d(
    rows: Float[np.ndarray, "rows columns"], *, seed: int = 0, progress: Callable[[int, int], None] | None = None
) -> Float[np.ndarray, "rows 2"]:
    """Coordinates of the rows: x from 0 to 1, y from 0 to at most 1. Calls `progress(steps_done, steps)` regularly.

    NaN and infinite values count as 0. Equal rows form one round cloud.

    >>> two_groups = np.repeat([[0.0, 0.0, 0.0], [9.0, 9.0, 9.0]], 20, axis=0)
    >>> places = layout_2d(two_groups)
    >>> first, second = places[:20], places[20:]
    >>> apart = np.linalg.norm(first.mean(axis=0) - second.mean(axis=0))
    >>> bool(apart > 2 * max(first.std(), second.std()))
    True
    """
    random = np.random.default_rng(seed)
    table = np.nan_to_num(np.asarray(rows, dtype=np.float64), nan=0, posinf=0, neginf=0)
    table = table - table.mean(axis=0)
    spread = np.sqrt((table**2).sum(axis=1).mean())
    table = table / spread if spread > 0 else table
    table = (table + NOISE * random.standard_normal(table.shape) / np.sqrt(max(1, table.shape[1]))).astype(np.float32)
    if len(table) <= MAX_ROWS:
        return _tsne(table, progress)
    sample = random.permutation(len(table))[:MAX_ROWS]
    placed = _tsne(table[sample], progress)
    places = np.median(placed[nearest_rows(table[sample[:ANCHORS]], NEAREST_ANCHORS, of=table)], axis=1)
    places += SCATTER * random.standard_normal(places.shape)
    places[sample] = placed
    return _laid_wide(places)


def _tsne(table: Float[np.ndarray, "rows columns"], progress: Callable[[int, int], None] | None) -> np.ndarray:
    start = _two_main_directions(table)
    if len(table) < MIN_ROWS:
        return _laid_wide(start)
    first, second, strength = _bonds(table)
    # Axes first, since NumPy is fast with long vectors.
    points = np.ascontiguousarray(START * start.T)
    velocity, gains = np.zeros_like(points), np.ones_like(points)
    rate = len(table) / EXAGGERATION
    for step in range(STEPS):
        exaggerated = step < EXAGGERATION_STEPS
        pull = _attraction(points, first, second, strength)
        slope = 4 * ((EXAGGERATION if exaggerated else 1.0) * pull - _repulsion(points))
        gains = np.maximum(np.where(np.sign(slope) == np.sign(velocity), 0.8 * gains, gains + 0.2), 0.01)
        velocity = (MOMENTUM_EXAGGERATED if exaggerated else MOMENTUM) * velocity - rate * gains * slope
        velocity = np.clip(velocity, -MAX_STEP, MAX_STEP)
        points = points + velocity
        points -= points.mean(axis=1, keepdims=True)
        if progress is not None and (step + 1) % STEPS_BETWEEN_REPORTS == 0:
            progress(step + 1, STEPS)
    return _laid_wide(points.T)


def nearest_rows(
    table: Float[np.ndarray, "rows columns"], count: int, of: Float[np.ndarray, "others columns"] | None = None
) -> Int[np.ndarray, "others count"]:
    """Indices of the rows of `table` that are nearest to each of its rows (itself excluded), or to each row of `of`."""
    rows = torch.from_numpy(np.ascontiguousarray(table))
    squares, asking = rows.square().sum(1), rows if of is None else torch.from_numpy(np.ascontiguousarray(of))
    found = []
    for start in range(0, len(asking), ROWS_AT_ONCE):
        some = asking[start : start + ROWS_AT_ONCE]
        distance = torch.addmm(squares[None], some, rows.T, alpha=-2)  # up to a constant of the row
        if of is None:
            distance[torch.arange(len(some)), torch.arange(start, start + len(some))] = torch.inf
        found.append(distance.topk(count, largest=False).indices)
    return torch.cat(found).numpy()


def _laid_wide(points: np.ndarray) -> np.ndarray:
    """The points, rotated so that the longer side is horizontal, shifted to start at 0 and scaled by one factor."""
    turned = _two_main_directions(points.astype(np.float64))
    extent = np.ptp(turned, axis=0)
    if extent[1] > extent[0]:
        turned, extent = turned[:, ::-1], extent[::-1]
    return (turned - turned.min(axis=0)) / (extent[0] if extent[0] > 0 else 1)


def _two_main_directions(table: np.ndarray) -> np.ndarray:
    """The first two principal components, with a standard deviation of 1 in the first."""
    centred = table - table.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred)  # in ascending order of the eigenvalues
    main = centred @ directions[:, ::-1][:, :2]
    both = np.concatenate([main, np.zeros((len(table), 2 - main.shape[1]), main.dtype)], axis=1)
    return both / max(float(both[:, 0].std()), np.finfo(np.float32).tiny)


def _bonds(table: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of neighbours, each once, and their affinities p, which sum to 1/2."""
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
    """Sum over j of q_ij (y_i - y_j) / (1 + |y_i - y_j|^2), computed for all points on a grid."""
    low = points.min(axis=1, keepdims=True)
    extent = max(float((points - low).max()), START)
    cells = int(np.clip(extent / CELL, MIN_CELLS, MAX_CELLS))
    size = extent / (cells - 1) * 1.0001  # all points lie within the last cell
    corners, weights = _corners_around((points - low) / size, cells)
    density = np.bincount(corners.ravel(), weights.ravel(), cells * cells).reshape(cells, cells)
    # The transform is periodic; padding to twice the length avoids the wrap-around.
    length = scipy.fft.next_fast_len(2 * cells, real=True)
    along = np.arange(length, dtype=np.float32)
    along = size * np.where(along <= length // 2, along, along - length).astype(np.float32)
    kernel = 1 / (1 + along[:, None] ** 2 + along**2)
    spectrum = scipy.fft.rfft2(density.astype(np.float32), (length, length))

    def field_at_points(kernel: np.ndarray) -> np.ndarray:
        field = scipy.fft.irfft2(spectrum * scipy.fft.rfft2(kernel), (length, length))[:cells, :cells]
        return (field.ravel()[corners] * weights).sum(axis=0)

    corner = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    of_corners = kernel[tuple(np.moveaxis(corner[:, None] - corner, 2, 0))]
    itself = ((of_corners @ weights) * weights).sum()  # the points' own contribution
    everything = max(float(field_at_points(kernel).sum() - itself), MIN_NORMALISER)
    return np.stack([field_at_points(along[:, None] * kernel**2), field_at_points(along * kernel**2)]) / everything


def _corners_around(places: np.ndarray, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """The four grid points around each point, and their bilinear weights."""
    corner = np.minimum(places.astype(np.int64), cells - 2)
    inside = (places - corner).astype(np.float32)
    (right, up), (left, down) = inside, 1 - inside
    base = corner[0] * cells + corner[1]
    return (
        np.stack([base, base + 1, base + cells, base + cells + 1]),
        np.stack([left * down, left * up, right * down, right * up]),
    )
