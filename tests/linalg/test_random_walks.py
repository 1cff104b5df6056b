import numpy as np
import scipy.sparse as sp

from mtgcn.linalg.random_walks import random_walks


def test_every_step_follows_an_edge(make_graph):
    edges = make_graph(nodes=50).adjacency
    starts = np.flatnonzero(np.diff(edges.indptr))
    walks = random_walks(edges, starts, 12, np.random.default_rng(0))
    assert walks.shape == (len(starts), 12)
    assert np.array_equal(walks[:, 0], starts)
    assert (edges.toarray()[walks[:, :-1], walks[:, 1:]] > 0).all()


def test_steps_are_taken_in_proportion_to_weights():
    # From the hub, of weights 1, 3, 0 and 6, in the middle of the stored edges of others.
    weights = np.zeros((5, 5))
    weights[1, [0, 2, 3, 4]] = weights[[0, 2, 3, 4], 1] = 1, 3, 0, 6
    walks = random_walks(sp.csr_array(weights), np.full(20_000, 1), 2, np.random.default_rng(0))
    shares = np.bincount(walks[:, 1], minlength=5) / 20_000
    np.testing.assert_allclose(shares, [0.1, 0, 0.3, 0, 0.6], atol=0.015)  # four standard errors
    assert shares[3] == 0


def test_the_highest_throw_stays_with_its_node():
    class Highest:
        def random(self, count):
            return np.full(count, np.nextafter(1, 0))

    path = sp.csr_array(np.array([[0, 1, 0], [1, 0, 1e-9], [0, 1e-9, 0]]))
    assert random_walks(path, np.array([0, 1, 2]), 3, Highest()).tolist() == [[0, 1, 2], [1, 2, 1], [2, 1, 2]]
