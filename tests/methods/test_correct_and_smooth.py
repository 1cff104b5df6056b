import numpy as np
import pytest

from mtgcn.graph import Graph
from mtgcn.methods import create
from mtgcn.splits import Split, draw_splits
from mtgcn.task import observe


def adjacency_of(graph):
    """S by its formula."""
    weights = graph.adjacency.toarray().astype(np.float64)
    degree = weights.sum(1)
    root = np.where(degree > 0, 1 / np.sqrt(np.where(degree > 0, degree, 1)), 0)
    return root[:, None] * weights * root


def reference(adjacency, predicted, nodes, classes, alphas, steps):
    """One run, line by line as the paper has it."""
    labels = np.eye(predicted.shape[1])[classes]
    error = np.zeros_like(predicted)
    error[nodes] = labels - predicted[nodes]
    place = error
    for _ in range(steps):
        place = np.clip(alphas[0] * adjacency @ place + (1 - alphas[0]) * error, -1, 1)
    usual = np.abs(error[nodes]).sum(1).mean()
    corrected = predicted.copy()
    for node, moved in enumerate(place):
        size = np.abs(moved).sum()
        if size:
            corrected[node] += moved * (usual / size if usual / size <= 1000 else 1)
    corrected[nodes] = labels
    place = corrected
    for _ in range(steps):
        place = np.clip(alphas[1] * adjacency @ place + (1 - alphas[1]) * corrected, 0, 1)
    return place / place.sum(1, keepdims=True)


@pytest.mark.parametrize(("alphas", "steps"), [((0.98, 0.65), 50), ((0.5, 0.9), 3)])
def test_equals_the_formula(make_graph, alphas, steps):
    given = make_graph(nodes=60, weighted=True, unreached=True)
    graph = Graph(given.adjacency, given.features, np.where(np.arange(60) < 55, given.labels, -1))
    splits = draw_splits(graph, [4, 2, 1], runs=2, seed=0) + draw_splits(graph, 1, runs=1, seed=1)
    task = observe(graph, splits, seed=0)
    settings = {"correction_alpha": alphas[0], "smoothing_alpha": alphas[1]}
    settings |= {"correction_steps": steps, "smoothing_steps": steps}
    found = create("correct-and-smooth", penalty=1e-2, **settings).fit(task)
    assert found.parameters is None
    predicted = create("logistic", penalty=1e-2).fit(task).probabilities.astype(np.float64)
    for run, split in enumerate(splits):
        arguments = adjacency_of(graph), predicted[run], split.train, graph.labels[split.train], alphas, steps
        np.testing.assert_allclose(found.probabilities[run], reference(*arguments), atol=1e-4)


def test_a_node_without_edges_keeps_its_base_prediction(make_graph):
    graph = make_graph(nodes=60, unreached=True)
    alone = np.flatnonzero(graph.adjacency.sum(1) == 0)
    assert 55 in alone
    task = observe(graph, draw_splits(graph, 2, runs=2, seed=0), seed=0)
    unlabelled = [node for node in alone if node not in task.labelled.index]
    found = create("correct-and-smooth").fit(task).probabilities[:, unlabelled]
    np.testing.assert_allclose(found, create("logistic").fit(task).probabilities[:, unlabelled], atol=1e-6)


def test_without_steps_labels_alone_are_restored(make_graph):
    graph = make_graph()
    split = Split(np.arange(6), [], [])
    task = observe(graph, [split], seed=0)
    method = create("correct-and-smooth", correction_steps=0, smoothing_steps=0)
    found, base = method.fit(task).probabilities[0], create("logistic").fit(task).probabilities[0]
    np.testing.assert_allclose(found[:6], np.eye(3)[graph.labels[:6]], atol=1e-6)
    np.testing.assert_allclose(found[6:], base[6:], atol=1e-6)
