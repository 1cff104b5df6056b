import numpy as np
import pytest

from mtgcn.errors import InputError
from mtgcn.graph_sources import GraphArrays, check_edges, merge_edges


def merged(pairs, weights=None, nodes=4):
    sources, targets = np.array(pairs).T
    return merge_edges(sources, targets, None if weights is None else np.array(weights), nodes)


def test_a_pair_listed_again_in_either_direction_is_one_edge_of_weight_one():
    edges = merged([(0, 1), (1, 0), (0, 1), (2, 1), (3, 3)])
    expected = np.zeros((4, 4))
    expected[0, 1] = expected[1, 0] = expected[1, 2] = expected[2, 1] = expected[3, 3] = 1
    assert edges.adjacency(4).toarray().tolist() == expected.tolist()
    assert (edges.one_way, edges.both_ways, edges.uneven) == (1, 1, 0)


def test_the_largest_weight_of_a_pair_counts():
    edges = merged([(0, 1), (1, 0), (1, 2), (1, 2)], [2, 5, 3, 1])
    assert edges.adjacency(3).toarray().tolist() == [[0, 5, 0], [5, 0, 3], [0, 3, 0]]
    assert (edges.one_way, edges.both_ways, edges.uneven) == (1, 1, 1)


def test_merging_agrees_with_a_dense_matrix():
    random = np.random.default_rng(0)
    pairs, weights = random.integers(0, 12, (200, 2)), random.random(200).astype(np.float32)
    dense = np.zeros((12, 12), np.float32)
    for (one, other), weight in zip(pairs, weights, strict=True):
        dense[one, other] = dense[other, one] = max(dense[one, other], weight)
    assert np.array_equal(merged(pairs, weights, 12).adjacency(12).toarray(), dense)


@pytest.mark.parametrize(
    ("edges", "weights", "message"),
    [
        ([[], []], None, "here holds no edge; give at least one"),
        ([[0, 5], [1, 1]], None, "edge 1 ends in node 5 and there are 3"),
        ([[0, -1], [1, 1]], None, "edge 1 ends in node -1"),
        ([[0, 1], [1, 2]], [1.0, -2.0], "edge 1 weighs -2; give finite weights >= 0"),
        ([[0, 1], [1, 2]], [np.nan, 1.0], "edge 0 weighs nan"),
        ([[0, 1], [1, 2]], [1.0, np.inf], "edge 1 weighs inf"),
        ([[0, 1], [1, 2]], [1.0], r"weights of shape \(1,\) for 2 edges"),
    ],
)
def test_edges_that_cannot_be(edges, weights, message):
    sources, targets = np.array(edges, dtype=np.int64)
    with pytest.raises(InputError, match=message):
        check_edges(GraphArrays(np.arange(3), sources, targets, weights and np.array(weights)), "here")
