"""Co-training, self-training, union, intersection, multi-stage and m3s: one way to grow a label set, six settings."""

import dataclasses

import numpy as np
import pytest
import torch

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.methods import create, m3s
from mtgcn.methods.base import supervised_step
from mtgcn.methods.m3s import classes_by_cluster, cluster_means, default_stages, farthest_first, k_means, nearest
from mtgcn.nn.base import mean_of_peers
from mtgcn.nn.networks import GCN
from mtgcn.splits import Split, draw_splits
from mtgcn.task import Nodes, observe, run_seed
from mtgcn.training.loop import Adam, Phase, train

GROWING = ("co-training", "self-training", "union", "intersection", "multi-stage", "m3s")
EPOCHS = 8


@pytest.fixture
def task(make_graph):
    graph = make_graph(nodes=60, seed=1)
    return observe(graph, draw_splits(graph, 2, runs=2, seed=0), seed=0)


def pairs(marks, run=0):
    return {(node, its_class) for node, its_class in marks[..., run].nonzero().tolist()}


def trained(task, method, rounds):
    """Probabilities of a GCN trained on one label set after another."""
    network = GCN(task, 1, method)
    phases = [Phase(EPOCHS, lambda task=task: supervised_step(network, task)) for task in rounds]
    train(network, phases, Adam(method.learning_rate, method.weight_decay))
    return mean_of_peers(network.probabilities())


def with_labels(task, rows):
    """The task with further (node, class) pairs in each run, in order."""
    index = [[*own.tolist(), *(node for node, _ in row)] for own, row in zip(task.labelled.index, rows, strict=True)]
    classes = [
        [*known.tolist(), *(number for _, number in row)]
        for known, row in zip(task.labelled.classes, rows, strict=True)
    ]
    longest = max(map(len, index))
    index = [row + [-1] * (longest - len(row)) for row in index]
    classes = [row + [0] * (longest - len(row)) for row in classes]
    return dataclasses.replace(task, labelled=Nodes(torch.tensor(index), torch.tensor(classes)))


def surest(probabilities, labelled, per_class):
    """Algorithm 1 by a loop: the surest of those predicted as each class."""
    order = sorted(range(len(probabilities)), key=lambda node: -probabilities[node].max())
    taken = []
    for number in range(probabilities.shape[1]):
        mine = [node for node in order if probabilities[node].argmax() == number and node not in labelled]
        taken += [(node, number) for node in mine[:per_class]]
    return taken


def grown(task, probabilities, per_class):
    """The task with the surest of those predicted as each class."""
    labelled = task.labelled.index.numpy()
    return with_labels(task, [surest(*run, per_class) for run in zip(probabilities, labelled, strict=True)])


def absorbing(graph, alpha, labelled, classes, per_class):
    """Algorithm 1 of Li et al. by a loop, with a dense inverse."""
    weights = graph.adjacency.toarray().astype(np.float64)
    inverse = np.linalg.inv(np.diag(weights.sum(1)) - weights + alpha * np.eye(len(weights)))
    taken = []
    for number in range(graph.num_classes):
        score = inverse[:, labelled[classes == number]].sum(1)
        score[labelled] = 0
        taken += [(int(node), number) for node in np.argsort(-score, kind="stable")[:per_class]]
    return taken


def test_co_training_equals_gcn_on_walk_labels(task):
    method = create("co-training", per_class=3, epochs=EPOCHS, alpha=0.05)
    found = method.fit(task)
    rows = [
        absorbing(task.graph, 0.05, index.numpy(), classes.numpy(), 3)
        for index, classes in zip(task.labelled.index, task.labelled.classes, strict=True)
    ]
    np.testing.assert_allclose(found.probabilities, trained(task, method, [with_labels(task, rows)]), atol=1e-5)
    for run, row in enumerate(rows):
        assert set(np.flatnonzero(found.pseudo_labelled_at[run])) == {node for node, _ in row}
        assert set(found.pseudo_labelled_at[run]) == {0, 1}


@pytest.mark.parametrize("name", ["self-training", "union", "intersection"])
def test_one_growth(task, name):
    method = create(name, per_class=4, epochs=EPOCHS, dropout=0.0)
    probabilities = trained(task, method, [task])
    rows = []
    for run, index in enumerate(task.labelled.index.numpy()):
        own = set(surest(probabilities[run], index, 4))
        walks = set(absorbing(task.graph, 1e-6, index, task.labelled.classes[run].numpy(), 4))
        rows.append(sorted({"self-training": own, "union": own | walks, "intersection": own & walks}[name]))
    assert all(rows)
    found = method.fit(task)
    np.testing.assert_allclose(found.probabilities, trained(task, method, [task, with_labels(task, rows)]), atol=1e-5)
    for run, row in enumerate(rows):
        assert set(np.flatnonzero(found.pseudo_labelled_at[run])) == {node for node, _ in row}
        assert set(found.pseudo_labelled_at[run]) == {0, EPOCHS + 1}


def test_multi_stage_divides_labels_among_stages(task):
    method = create("multi-stage", per_class=5, stages=3, epochs=EPOCHS, dropout=0.0, fresh_stages=False)
    rounds = [task]
    for _ in range(3):
        rounds.append(grown(rounds[-1], trained(task, method, rounds), 2))
    found = method.fit(task)
    np.testing.assert_allclose(found.probabilities, trained(task, method, rounds), atol=1e-5)
    assert set(found.pseudo_labelled_at[0]) == {0, EPOCHS + 1, 2 * EPOCHS + 1, 3 * EPOCHS + 1}
    assert len(found.history["supervised"]) == 4 * EPOCHS


def test_m3s_selects_a_subset_of_multi_stage(task):
    settings = {"per_class": 12, "stages": 1, "epochs": EPOCHS}
    alone = create("multi-stage", **settings).fit(task).pseudo_labelled_at > 0
    checked = create("m3s", clusters=6, **settings).fit(task).pseudo_labelled_at > 0
    assert not (checked & ~alone).any()
    assert 0 < checked.sum() < alone.sum()


def test_classes_of_clusters_by_hand():
    points = torch.tensor([[[0.0], [1], [2], [9], [10], [20], [21]]])  # clusters {0, 1, 2}, {9, 10} and {20, 21}
    graph = Graph(adjacency=np.zeros((7, 7)), labels=[0, -1, -1, -1, 1, -1, 1])
    # Labels at 0 and 21: the cluster {9, 10} with mean 9.5 is nearer to the former, of class 0.
    task = observe(graph, [Split([0, 6], [], [])], seed=0)
    assert classes_by_cluster(points, 3, task).tolist() == [[0, 0, 0, 0, 0, 1, 1]]
    # With a label at 10, class 1 has the mean 15.5, and what is left of the cluster, 9, is nearer to that than to 0.
    task = observe(graph, [Split([0, 6, 4], [], [])], seed=0)
    assert classes_by_cluster(points, 3, task).tolist() == [[0, 0, 0, 1, 1, 1, 1]]


def test_class_without_labels_has_no_cluster():
    points = torch.tensor([[[0.0], [1], [5], [6]]])
    graph = Graph(adjacency=np.zeros((4, 4)), labels=[2, -1, -1, 1])
    task = observe(graph, [Split([0, 3], [], [])], seed=0)
    assert classes_by_cluster(points, 2, task).tolist() == [[2, 2, 1, 1]]


def test_contested_nodes():
    graph = Graph(adjacency=np.eye(5, k=1) + np.eye(5, k=-1), features=np.eye(5) + 0.1, labels=[0, -1, -1, -1, 1])
    task = observe(graph, [Split([0, 4], [], [])], seed=0)
    settings = {"per_class": 2, "epochs": 1}
    both = create("co-training", **settings).fit(task)
    neither = create("co-training", contested="neither", **settings).fit(task)
    assert np.flatnonzero(both.pseudo_labelled_at[0]).tolist() == [1, 2, 3]
    assert np.flatnonzero(neither.pseudo_labelled_at[0]).tolist() == [1, 3]


@pytest.mark.parametrize("name", ["self-training", "multi-stage"])
def test_restart_keeps_labels(task, name):
    settings = {"per_class": 4, "epochs": EPOCHS} | ({"stages": 1} if name == "multi-stage" else {})
    found, going_on = create(name, restart=True, **settings).fit(task), create(name, **settings).fit(task)
    first = found.pseudo_labelled_at == EPOCHS + 1
    assert np.array_equal(first, going_on.pseudo_labelled_at == EPOCHS + 1)
    losses = found.history["supervised"][..., 0], going_on.history["supervised"][..., 0]
    assert losses[0].shape == losses[1].shape
    np.testing.assert_array_equal(losses[0][:EPOCHS], losses[1][:EPOCHS])
    # A fresh network knows less than one that has learnt.
    assert (losses[0][EPOCHS] > losses[1][EPOCHS]).all()


def test_fresh_stages(task):
    method = create("multi-stage", per_class=4, stages=2, epochs=EPOCHS, dropout=0.0)
    second = dataclasses.replace(task, seeds=tuple(run_seed(seed, 1) for seed in task.seeds))
    once = grown(task, trained(task, method, [task]), 2)
    twice = grown(once, trained(second, method, [once]), 2)
    np.testing.assert_allclose(method.fit(task).probabilities, trained(second, method, [once, twice]), atol=1e-5)


def test_stages_of_the_paper():
    def stages(name, nodes, labels):
        graph = Graph(adjacency=np.zeros((nodes, nodes)), labels=[0] * nodes, name=name)
        return default_stages(observe(graph, [Split(range(labels), [], [])], seed=0))

    # Label rates of 0.5, 1, 2 and 3 % on Cora.
    assert [stages("cora", 2708, count) for count in (14, 28, 56, 84)] == [5, 4, 2, 2]
    assert [stages(name, 200, 3) for name in ("citeseer", "pubmed", "")] == [3, 4, 3]


def test_different_stages_are_refused():
    graph = Graph(adjacency=np.zeros((1000, 1000)), labels=[0] * 1000, name="cora")
    task = observe(graph, [Split(range(5), [], []), Split(range(50), [], [])], seed=0)
    with pytest.raises(InputError, match=r"0\.50% and 5\.00% .* 5 and 2 stages; set stages"):
        default_stages(task)


@pytest.mark.parametrize("name", GROWING)
def test_per_class_may_exceed_nodes(task, name):
    found = create(name, per_class=1000, epochs=1).fit(task).probabilities
    assert np.isfinite(found).all()


# k-means of M3S, with centres that start farthest apart


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
