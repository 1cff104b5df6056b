import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from mtgcn.graph import Graph
from mtgcn.methods import create
from mtgcn.methods.ica import ORDER, _parted
from mtgcn.splits import Split, draw_splits
from mtgcn.task import observe


def liblinear():
    return OneVsRestClassifier(LogisticRegression(C=1.0, solver="liblinear", tol=1e-10, max_iter=10_000))


def one_node_after_the_other(graph, split, order, iterations, *, proportion):
    """Iterative classification without waves and stacks, with scikit-learn's classifiers."""
    features, edges = graph.features.toarray(), graph.adjacency.toarray() * (1 - np.eye(graph.num_nodes))
    edges /= edges[edges > 0].mean()
    train, classes = split.train, graph.num_classes
    local = liblinear().fit(features[train], graph.labels[train])
    called = local.predict(features)
    called[train] = graph.labels[train]

    def described(node):
        seen = np.bincount(called, weights=edges[node], minlength=classes)
        return np.append(features[node], seen / seen.sum() if proportion and seen.sum() else seen)

    relational = liblinear().fit([described(node) for node in train], graph.labels[train])
    probabilities = local.predict_proba(features)
    for _ in range(iterations):
        for node in order:
            if node not in train:
                probabilities[node] = relational.predict_proba([described(node)])
                called[node] = probabilities[node].argmax()
    if iterations:
        probabilities[train] = relational.predict_proba([described(node) for node in train])
    return probabilities


@pytest.mark.parametrize("neighbours", ["count", "proportion"])
def test_equals_sequential_updates(make_graph, neighbours):
    drawn = make_graph(nodes=45, features=15, weighted=True, seed=2)
    edges = drawn.adjacency.toarray()
    edges[4, 4] = 5  # a node is no neighbour of its own
    edges[7], edges[:, 7] = 0, 0
    graph = Graph(edges, drawn.features, drawn.labels)
    splits = draw_splits(graph, 2, runs=3, seed=0)  # the labels of each run are offset by its number
    task = observe(graph, splits, seed=0)
    for iterations in (0, 1, 3):
        found = create("ica", neighbours=neighbours, iterations=iterations).fit(task).probabilities
        for run, split in enumerate(splits):
            position = np.random.default_rng([task.seeds[run], ORDER]).permutation(45)
            expected = one_node_after_the_other(
                graph, split, np.argsort(position), iterations, proportion=neighbours == "proportion"
            )
            np.testing.assert_allclose(found[run], expected, atol=1e-6)


def test_folds_part_each_class(make_graph):
    graph = make_graph(nodes=60)
    task = observe(graph, draw_splits(graph, [7, 3, 2], runs=2, seed=0), seed=0)
    parts = list(_parted(task, 5))
    assert len(parts) == 5
    for run in range(2):
        everything = task.labelled.index[run].numpy()
        held_out = [part.index[run, part.present[run]].numpy() for _, part in parts]
        assert sorted(np.concatenate(held_out)) == sorted(everything)
        for (kept, _), out in zip(parts, held_out, strict=True):
            left = kept.labelled.index[run, kept.labelled.present[run]].numpy()
            assert sorted(np.concatenate([left, out])) == sorted(everything)
            sizes = np.bincount(graph.labels[out], minlength=3)
            assert 1 <= sizes[0] <= 2  # 7 labels in 5 folds
            assert (sizes[1:] <= 1).all()


def test_runs_with_few_labels_have_few_folds(make_graph):
    graph = make_graph(nodes=60)
    splits = [Split([0, 1, 2, 3, 4, 5], [], [20]), *draw_splits(graph, 4, runs=1, seed=0)]
    parts = list(_parted(observe(graph, splits, seed=0), 5))
    assert [part.present.sum(1).tolist() for _, part in parts] == [[3, 3], [3, 3], [0, 3], [0, 3]]


def test_cross_validated_neighbours(make_graph):
    taken = []
    for seed in range(3):
        graph = make_graph(nodes=60, seed=seed)
        task = observe(graph, draw_splits(graph, 5, runs=4, seed=0), seed=0)
        right = {"count": np.zeros(4), "proportion": np.zeros(4)}
        for way, total in right.items():
            for kept, held_out in _parted(task, 5):
                probabilities = create("ica", neighbours=way).fit(kept).probabilities
                for run in range(4):
                    nodes = held_out.index[run, held_out.present[run]].numpy()
                    total[run] += (probabilities[run, nodes].argmax(1) == graph.labels[nodes]).sum()
        answers = {way: create("ica", neighbours=way).fit(task).probabilities for way in right}
        found = create("ica").fit(task).probabilities
        for run in range(4):
            taken.append("proportion" if right["proportion"][run] > right["count"][run] else "count")
            np.testing.assert_allclose(found[run], answers[taken[-1]][run], atol=1e-10)
    assert set(taken) == {"count", "proportion"}


def test_one_label_per_class_is_enough(make_graph):
    graph = make_graph(nodes=60)
    task = observe(graph, draw_splits(graph, 1, runs=2, seed=0), seed=0)
    by_count = create("ica", neighbours="count").fit(task).probabilities
    assert np.array_equal(create("ica").fit(task).probabilities, by_count)  # nothing to hold out: the default
