"""k-means for a stack of runs, each with points of its own.

Initial centres are chosen farthest first instead of at random, so that the result does not depend on the node order.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mtgcn.shapes import Bool, Float, Int

POINTS_AT_ONCE = 1024  # in one block of distances
MAX_ROUNDS = 20


def k_means(points: Float[Tensor, "runs nodes width"], clusters: int) -> Int[Tensor, "runs nodes"]:
    """The cluster of every point."""
    centres = farthest_first(points, min(clusters, points.shape[1]))
    cluster = nearest(points, centres)
    for _ in range(MAX_ROUNDS):
        means, count = cluster_means(points, cluster, centres.shape[1])
        centres = torch.where(count[..., None] > 0, means, centres)
        before, cluster = cluster, nearest(points, centres)
        if torch.equal(before, cluster):
            break
    return cluster


def farthest_first(points: Float[Tensor, "runs nodes width"], count: int) -> Float[Tensor, "runs count width"]:
    """Initial centres: the point farthest from the mean, then repeatedly the point farthest from all chosen ones."""
    each_run = torch.arange(len(points), device=points.device)
    distance = squared_distances(points, points.mean(1, keepdim=True)).squeeze(2)
    chosen = []
    for number in range(count):
        chosen.append(points[each_run, distance.argmax(1)])
        to_chosen = squared_distances(points, chosen[-1][:, None]).squeeze(2)
        distance = torch.minimum(distance, to_chosen) if number else to_chosen
    return torch.stack(chosen, 1)


def nearest(
    points: Float[Tensor, "runs nodes width"], centres: Float[Tensor, "runs centres width"]
) -> Int[Tensor, "runs nodes"]:
    """The nearest centre of every point; of equal distances the first."""
    parts = [squared_distances(some, centres).argmin(2) for some in points.split(POINTS_AT_ONCE, 1)]
    return torch.cat(parts, 1)


def cluster_means(
    points: Float[Tensor, "runs nodes width"],
    cluster: Int[Tensor, "runs nodes"],
    clusters: int,
    counted: Bool[Tensor, "runs nodes"] | None = None,
) -> tuple[Float[Tensor, "runs clusters width"], Int[Tensor, "runs clusters"]]:
    """The mean of each cluster, or of its `counted` points, and their number; 0 for an empty cluster."""
    sums = points.new_zeros(len(points), clusters, points.shape[2])
    count = torch.zeros(len(points), clusters, dtype=torch.int64, device=points.device)
    numbers = torch.arange(clusters, device=points.device)[:, None]
    for start in range(0, points.shape[1], POINTS_AT_ONCE):
        some = slice(start, start + POINTS_AT_ONCE)
        member = cluster[:, None, some] == numbers  # runs, clusters, some
        if counted is not None:
            member &= counted[:, None, some]
        # A product, since scatter-add has no fixed order on a GPU.
        sums.baddbmm_(member.to(points.dtype), points[:, some])
        count += member.sum(2)
    return sums / count.clamp(min=1)[..., None], count


def squared_distances(
    points: Float[Tensor, "runs nodes width"], centres: Float[Tensor, "runs centres width"]
) -> Float[Tensor, "runs nodes centres"]:
    """From every point to every centre of its run."""
    lengths = points.square().sum(2)[..., None] + centres.square().sum(2)[:, None]
    return torch.baddbmm(lengths, points, centres.transpose(1, 2), alpha=-2)
