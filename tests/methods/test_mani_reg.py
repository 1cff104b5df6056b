import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn.errors import InputError
from mtgcn.methods import create
from mtgcn.methods.mani_reg import AMBIENTS, RATIOS
from mtgcn.splits import Split
from mtgcn.task import observe

# The second run has fewer labels, and one class more often than the others.
SPLITS = [Split([0, 1, 2, 3, 4, 5, 9, 10], [], [20]), Split([12, 8, 11, 15, 7], [], [20])]


def closed_form(graph, nodes, ambient, ratio, prior=None):
    """Belkin, Niyogi and Sindhwani's minimum in the weights of the features: scores of all nodes, in doubles."""
    features = graph.features.toarray() if sp.issparse(graph.features) else graph.features
    features = features.astype(np.float64)
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    features = np.divide(features, lengths, out=features, where=lengths > 0)
    adjacency = graph.adjacency.toarray().astype(np.float64)
    degree = adjacency.sum(1)
    scale = np.array([1 / np.sqrt(one) if one else 0 for one in degree])
    laplacian = np.eye(len(degree)) - scale[:, None] * adjacency * scale
    targets = np.eye(graph.num_classes)[graph.labels[nodes]]
    prior = targets.mean(0) if prior is None else prior
    penalty = ambient * (np.eye(features.shape[1]) + ratio * features.T @ laplacian @ features)
    rows = features[nodes]
    weights = np.linalg.solve(rows.T @ rows + penalty, rows.T @ (targets - prior))
    return features @ weights + prior


def as_probabilities(scores):
    scores = np.clip(scores, 0, None)
    return scores / scores.sum(1, keepdims=True)


@pytest.mark.parametrize(("ambient", "ratio"), [(0.005, 9.0), (0.5, 0.1), (0.05, 0.0)])
@pytest.mark.parametrize("sparse", [True, False])
def test_it_is_the_closed_form(make_graph, ambient, ratio, sparse):
    graph = make_graph(weighted=True, unreached=True, sparse=sparse)
    found = create("mani-reg", ambient=ambient, ratio=ratio).fit(observe(graph, SPLITS, seed=0)).probabilities
    for run, split in enumerate(SPLITS):
        expected = as_probabilities(closed_form(graph, split.train, ambient, ratio))
        np.testing.assert_allclose(found[run], expected, rtol=1e-5, atol=1e-6)


def test_weights_minimise_leave_one_out_error(make_graph):
    graph = make_graph(weighted=True, features=30, seed=2)
    found = create("mani-reg").fit(observe(graph, SPLITS, seed=0)).probabilities
    chosen = []
    for run, split in enumerate(SPLITS):
        prior = np.eye(3)[graph.labels[split.train]].mean(0)

        def missed(ambient, ratio, nodes=split.train, prior=prior):
            """The squared error on each label in turn, of a fit without it; the prior stays that of all of them."""
            misses = [
                np.eye(3)[graph.labels[node]] - closed_form(graph, nodes[nodes != node], ambient, ratio, prior)[node]
                for node in nodes
            ]
            return np.square(misses).sum()

        best = min(((ambient, ratio) for ratio in RATIOS for ambient in AMBIENTS), key=lambda pair: missed(*pair))
        chosen.append(best)
        np.testing.assert_allclose(
            found[run], as_probabilities(closed_form(graph, split.train, *best)), rtol=1e-5, atol=1e-6
        )
    assert len(set(chosen)) == 2  # every run for itself


def test_too_many_features_are_refused(make_graph, monkeypatch):
    monkeypatch.setattr("mtgcn.methods.mani_reg.MOST_FEATURES", 11)
    with pytest.raises(InputError, match=r"12 features exceed the limit of 11"):
        create("mani-reg").fit(observe(make_graph(), SPLITS, seed=0))
