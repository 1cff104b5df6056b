import numpy as np
import pytest
import torch

from mtgcn.linalg.k_means import cluster_means, farthest_first, k_means, nearest, squared_distances


def stacked(*runs):
    return torch.tensor(runs, dtype=torch.float32)


def same_partition(first, second):
    """Whether two lists of clusters divide the points alike, whatever the clusters are called."""
    return np.array_equal(np.equal.outer(first, first), np.equal.outer(second, second))


def test_distances_by_hand():
    points, centres = stacked([[0, 0], [3, 4]]), stacked([[0, 0], [3, 0]])
    assert squared_distances(points, centres).tolist() == [[[0, 9], [25, 16]]]


def test_centres_start_far_apart():
    # The mean is 3.2: farthest from it is 10; farthest from 10 is 0; then 4 is 4 away, 2 and 1 less.
    points = stacked([[0.0], [1], [2], [4], [10]], [[10.0], [4], [2], [1], [0]])
    assert farthest_first(points, 3).squeeze(2).tolist() == [[10, 0, 4], [10, 0, 4]]


def test_points_are_divided_by_their_nearest_mean():
    points = stacked([[0.0], [1], [2], [4], [10], [11]])
    # The mean is 4.67, so centres start at 11, 0 and 4. 2 is as near to 0 as to 4, and the earlier centre wins. The
    # means are then 10.5, 1 and 4, and nothing changes any more.
    assert same_partition(k_means(points, 3)[0], [0, 0, 0, 1, 2, 2])


def test_no_point_is_nearer_to_the_mean_of_another_cluster(monkeypatch):
    monkeypatch.setattr("mtgcn.linalg.k_means.MAX_ROUNDS", 200)
    monkeypatch.setattr("mtgcn.linalg.k_means.POINTS_AT_ONCE", 7)  # several pieces
    points = torch.from_numpy(np.random.default_rng(0).random((3, 60, 4)))
    cluster = k_means(points, 5)
    for run in range(3):
        means = np.stack([points[run][cluster[run] == number].mean(0) for number in range(5)])
        distances = ((points[run].numpy()[:, None] - means) ** 2).sum(2)
        assert np.array_equal(distances.argmin(1), cluster[run])


def test_clusters_do_not_depend_on_order_or_company():
    points = torch.from_numpy(np.random.default_rng(1).random((2, 50, 3)))
    order = np.random.default_rng(2).permutation(50)
    together, shuffled = k_means(points, 6), k_means(points[:, order], 6)
    assert torch.equal(together[:, order], shuffled)
    assert torch.equal(k_means(points[1:], 6), together[1:])


@pytest.mark.parametrize("clusters", [4, 9])
def test_with_no_fewer_clusters_than_points_each_has_its_own(clusters):
    assert same_partition(k_means(stacked([[0.0], [1], [5], [6]]), clusters)[0], range(4))


def test_equal_points_share_a_cluster():
    assert len(set(k_means(torch.zeros(1, 5, 2), 3)[0].tolist())) == 1


def test_means_of_what_counts_and_of_nothing():
    points = stacked([[1.0], [3], [8]])
    cluster, counted = torch.tensor([[0, 0, 1]]), torch.tensor([[True, True, False]])
    means, count = cluster_means(points, cluster, 3, counted)
    assert means.squeeze(2).tolist() == [[2, 0, 0]]
    assert count.tolist() == [[2, 0, 0]]


def test_of_equally_near_centres_the_first_is_nearest():
    assert nearest(stacked([[1.0]]), stacked([[2.0], [0.0]])).tolist() == [[0]]
