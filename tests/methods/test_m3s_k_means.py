"""k-means of M3S, with centres that start farthest apart."""

import numpy as np
import pytest
import torch

from mtgcn.methods import m3s
from mtgcn.methods.m3s import cluster_means, farthest_first, k_means, nearest


def stacked(*runs):
    return torch.tensor(runs, dtype=torch.float32)


def same_partition(first, second):
    return np.array_equal(np.equal.outer(first, first), np.equal.outer(second, second))


def test_initial_centres_are_far_apart():
    # The mean is 3.2: farthest from it is 10; farthest from 10 is 0; then 4 is 4 away, 2 and 1 less.
    points = stacked([[0.0], [1], [2], [4], [10]], [[10.0], [4], [2], [1], [0]])
    assert farthest_first(points, 3).squeeze(2).tolist() == [[10, 0, 4], [10, 0, 4]]


def test_first_of_equally_near_centres_wins():
    assert nearest(stacked([[1.0]]), stacked([[2.0], [0.0]])).tolist() == [[0]]


@pytest.mark.parametrize(
    ("points", "clusters", "expected"),
    [
        # Centres start at 11, 0 and 4; 2 goes to 0. The means are then 10.5, 1 and 4, and nothing changes any more.
        ([[0.0], [1], [2], [4], [10], [11]], 3, [0, 0, 0, 1, 2, 2]),
        ([[0.0], [1], [5], [6]], 4, range(4)),
        ([[0.0], [1], [5], [6]], 9, range(4)),
        ([[0.0]] * 5, 3, [0] * 5),
    ],
    ids=["by hand", "one each", "more clusters than points", "equal points"],
)
def test_k_means_partition(points, clusters, expected):
    assert same_partition(k_means(stacked(points), clusters)[0], expected)


def test_no_point_is_nearer_to_another_mean(monkeypatch):
    monkeypatch.setattr(m3s, "MAX_ROUNDS", 200)
    monkeypatch.setattr(m3s, "POINTS_AT_ONCE", 7)  # several blocks
    points = torch.from_numpy(np.random.default_rng(0).random((3, 60, 4)))
    cluster = k_means(points, 5)
    for run in range(3):
        means = np.stack([points[run][cluster[run] == number].mean(0) for number in range(5)])
        distances = ((points[run].numpy()[:, None] - means) ** 2).sum(2)
        assert np.array_equal(distances.argmin(1), cluster[run])


def test_k_means_is_order_invariant_and_runs_are_independent():
    points = torch.from_numpy(np.random.default_rng(1).random((2, 50, 3)))
    order = np.random.default_rng(2).permutation(50)
    together = k_means(points, 6)
    assert torch.equal(together[:, order], k_means(points[:, order], 6))
    assert torch.equal(k_means(points[1:], 6), together[1:])


def test_cluster_means_of_counted_points():
    cluster, counted = torch.tensor([[0, 0, 1]]), torch.tensor([[True, True, False]])
    means, count = cluster_means(stacked([[1.0], [3], [8]]), cluster, 3, counted)
    assert means.squeeze(2).tolist() == [[2, 0, 0]]
    assert count.tolist() == [[2, 0, 0]]
