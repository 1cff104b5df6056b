from dataclasses import replace

import numpy as np
import pytest
import torch

from mtgcn.graph import Graph
from mtgcn.linalg.node_keys import node_keys
from mtgcn.linalg.softmax_regression import fit_to_all
from mtgcn.methods.mt_plus import teaching as module
from mtgcn.methods.mt_plus.cross_validation import Peer, average
from mtgcn.methods.mt_plus.settings import MTPlusSettings
from mtgcn.methods.mt_plus.teaching import Teaching, class_balance, label_imbalance
from mtgcn.splits import Split, draw_splits
from mtgcn.task import observe

NODES, CLASSES = 60, 3


@pytest.fixture
def graph():
    return Graph(np.zeros((NODES, NODES)), labels=np.arange(NODES) % CLASSES)


@pytest.fixture
def task(graph):
    """Of two runs: six labels and three."""
    many, few = (split.train for split in draw_splits(graph, 2, 2, 0))
    return observe(graph, [Split(many, [], []), Split(few[[0, 2, 4]], [], [])], seed=0)


def some_probabilities(seed, runs=2):
    numbers = np.random.default_rng(seed).normal(size=(runs, NODES, CLASSES))
    return torch.from_numpy(2 * numbers).float().softmax(-1)


def some_rows(seed):
    """The class, and noise that differs by peer."""
    values = np.concatenate(
        [np.eye(CLASSES)[np.arange(NODES) % CLASSES], 0.5 * np.random.default_rng(seed).normal(size=(NODES, 4))], axis=1
    )
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    return torch.from_numpy(np.concatenate([values, np.ones((NODES, 1))], axis=1)).float()


def untaught(rows, runs):
    nothing = torch.zeros(runs)
    return Peer(
        weight=torch.zeros(runs, rows.shape[1], CLASSES),
        penalty=torch.full((runs,), 1e-3),
        temperature=nothing,
        held_out=torch.zeros(runs, 1, 1, CLASSES),
        accuracy=nothing,
    )


def teaching_of(task, names="ab", weights=None, pseudo_weight=1.0, balance=1.0, **settings):
    rows = {name: some_rows(ord(name)) for name in names}
    weights = torch.tensor(weights or [1 / len(names)] * len(names)).repeat(task.runs, 1)
    teaching = Teaching(
        task,
        rows,
        node_keys(task.graph, task.device),
        {name: untaught(table, task.runs) for name, table in rows.items()},
        weights,
        torch.full((task.runs,), pseudo_weight),
        task.labelled,
        MTPlusSettings(teaching_weight=1.0, **settings),
    )
    teaching.balance = teaching.by_class = torch.full((task.runs, 1), balance)  # as with unequal numbers of labels
    return teaching


def certain(classes, sure=0.9):
    """Probabilities by run and node, all equally sure but for a hair, by the node."""
    right = torch.eye(CLASSES)[torch.from_numpy(np.asarray(classes))]
    sure = sure + 1e-3 * torch.rand(right.shape[:-1], generator=torch.Generator().manual_seed(0))[..., None]
    return right * sure + (1 - right) * (1 - sure) / (CLASSES - 1)


def labelled(task, run):
    return task.labelled.index[run][task.labelled.present[run]].numpy()


# Pseudo labels


@pytest.mark.parametrize("balance", [0.0, 0.4, 1.0])
def test_pseudo_labels_by_hand(task, balance):
    teacher = some_probabilities(0)
    share, classes = teaching_of(task, balance=balance).pseudo_labels(teacher)
    for run in range(2):
        free = ~np.isin(np.arange(NODES), labelled(task, run))
        shares = np.bincount(task.labelled.classes[run][task.labelled.present[run]], minlength=CLASSES) + 1
        odds = shares / shares.sum() / teacher[run].double().numpy()[free].mean(0)
        corrected = teacher[run].double().numpy() * odds ** (0.3 * balance)
        corrected /= corrected.sum(1, keepdims=True)
        sure, predicted = corrected.max(1), corrected.argmax(1)
        np.testing.assert_array_equal(classes[run], predicted)
        of_class = np.array([sure[free & (predicted == number)].mean() for number in range(CLASSES)])[predicted]
        teaches = free & (sure >= balance * of_class + (1 - balance) * sure[free].mean())
        np.testing.assert_array_equal(share[run] > 0, teaches)
        sizes = np.bincount(predicted[teaches], minlength=CLASSES)
        assert sizes.min() > 0
        expected = np.where(teaches, sizes[predicted] ** -float(balance), 0)
        np.testing.assert_allclose(share[run], expected / expected.sum(), rtol=1e-5)


def test_classes_with_one_or_no_prediction(task):
    alone = next(node for node in range(NODES) if not any(node in labelled(task, run) for run in range(2)))
    for predicted in (2 * (np.arange(NODES) >= 40), 2 * (np.arange(NODES) == alone)):
        share, classes = teaching_of(task).pseudo_labels(certain([predicted, predicted]))
        for run in range(2):
            np.testing.assert_allclose(np.bincount(classes[run], share[run]), [0.5, 0, 0.5], rtol=1e-5)


def test_no_pseudo_labels_at_chance(task):
    teacher = certain([np.arange(NODES) % CLASSES] * 2)
    teacher[1] = 1 / CLASSES
    share, _ = teaching_of(task).pseudo_labels(teacher)
    np.testing.assert_allclose(share.sum(1), [1, 0], rtol=1e-5)


@pytest.mark.parametrize(("per_class", "expected"), [(1, 1), (3, 1), (12, 0.5), ([1, 2, 9], 0.75**0.5)])
def test_class_balance(graph, per_class, expected):
    splits = [*draw_splits(graph, per_class, 1, 0), Split([0], [], [])]  # the second run is padded
    found = class_balance(observe(graph, splits, seed=0).labelled, CLASSES, MTPlusSettings())
    np.testing.assert_allclose(found, [[expected], [1]], rtol=1e-6)


def test_no_pseudo_labels_where_all_nodes_are_labelled(graph):
    task = observe(graph, [Split(np.arange(NODES), [], [])], seed=0)
    teaching = teaching_of(task, rounds=1, steps=3)
    assert not teaching.pseudo_labels(some_probabilities(0, runs=1))[0].any()
    probabilities, _ = teaching.run(dict.fromkeys("ab", some_probabilities(0, runs=1)))
    assert probabilities["a"].isfinite().all()
    assert not teaching.record.first_epochs().any()


# Rounds


def test_labels_have_total_weight_one(task):
    teaching = teaching_of(task)
    taught = torch.full((2, NODES), 0.25)
    for run in range(2):
        taught[run, labelled(task, run)] = 0
    weights, classes = teaching._with_labels(taught, torch.full((2, NODES), 2), *teaching.sample_nodes(0))
    for run in range(2):
        mine = labelled(task, run)
        np.testing.assert_allclose(weights[run, mine], 1 / len(mine))
        np.testing.assert_array_equal(classes[run, mine], mine % CLASSES)
        others = np.setdiff1d(np.arange(NODES), mine)
        assert (weights[run, others] == 0.25).all()
        assert (classes[run, others] == 2).all()


def test_without_pseudo_labels_peers_learn_from_labels(task):
    teaching = teaching_of(task, pseudo_weight=0.0, rounds=2, steps=5)
    probabilities, weights = teaching.run({name: some_probabilities(ord(name)) for name in "ab"})
    for name, table in teaching.views.items():
        share, classes = torch.zeros(2, NODES), torch.zeros(2, NODES, dtype=torch.int64)
        for run in range(2):
            mine = labelled(task, run)
            share[run, mine], classes[run, mine] = 1 / len(mine), torch.from_numpy(mine % CLASSES)
        expected = torch.zeros_like(weights[name])
        for _ in range(2):
            expected, _ = fit_to_all(table, share, classes, torch.full((2,), 1e-3), expected, 5)
        torch.testing.assert_close(weights[name], expected)
        torch.testing.assert_close(probabilities[name], (table @ expected).softmax(-1))


def test_pseudo_weight(task):
    wrong = certain(np.tile((np.arange(NODES) + 1) % CLASSES, (2, 1)))
    right = torch.arange(NODES) % CLASSES

    def accuracy(pseudo_weight):
        probabilities, _ = teaching_of(task, pseudo_weight=pseudo_weight, rounds=1, steps=24).run(
            {"a": wrong, "b": wrong}
        )
        return (probabilities["a"].argmax(-1) == right).float().mean(1)

    assert (accuracy(0.0) > 0.7).all()
    assert (accuracy(10.0) < 0.3).all()


def test_all_peers_teach_all_peers(task):
    before = {name: some_probabilities(ord(name)) for name in "abc"}

    def learned(given):
        return teaching_of(task, "abc", rounds=1, steps=8).run(given)[0]

    usual = learned(before)
    for teacher in "abc":
        other = learned(before | {teacher: some_probabilities(500)})
        for pupil in "abc":
            assert (other[pupil] - usual[pupil]).abs().amax((1, 2)).min() > 0.01


@pytest.mark.parametrize("mistaken", "abc")
def test_majority_corrects_a_peer(task, mistaken):
    right = torch.arange(NODES) % CLASSES
    before = dict.fromkeys("abc", certain(right.repeat(2, 1), sure=0.8))
    before[mistaken] = certain((right.repeat(2, 1) + 1) % CLASSES, sure=0.8)
    weights = [0.4 if name == mistaken else 0.3 for name in "abc"]  # the largest weight
    probabilities, _ = teaching_of(task, "abc", weights, pseudo_weight=5.0, rounds=2, steps=16).run(before)
    for one in probabilities.values():
        assert (one.argmax(-1) == right).float().mean() > 0.95
    weights = [0.6 if name == mistaken else 0.2 for name in "abc"]  # a majority
    probabilities, _ = teaching_of(task, "abc", weights, pseudo_weight=5.0, rounds=2, steps=16).run(before)
    for one in probabilities.values():
        assert (one.argmax(-1) == right).float().mean() < 0.5


def test_taught_by_itself(task):
    before = {name: some_probabilities(ord(name)) for name in "abc"}

    def learned(given, taught_by):
        return teaching_of(task, "abc", rounds=3, steps=8, taught_by=taught_by).run(given)[0]

    alone = learned(before, "itself")
    others = learned({name: before["a"] if name == "a" else some_probabilities(500) for name in "abc"}, "itself")
    torch.testing.assert_close(others["a"], alone["a"])
    assert not torch.allclose(others["b"], alone["b"], atol=0.01)
    assert not torch.allclose(learned(before, "all")["a"], alone["a"], atol=0.01)


def test_peers_are_updated_simultaneously(task):
    before = {name: some_probabilities(ord(name)) for name in "abc"}
    weights = [0.5, 0.2, 0.3]
    probabilities, _ = teaching_of(task, "abc", weights, rounds=3, steps=8).run(before)
    turned, _ = teaching_of(task, "cba", weights[::-1], rounds=3, steps=8).run(dict(reversed(before.items())))
    for name in "abc":
        torch.testing.assert_close(turned[name], probabilities[name], rtol=1e-3, atol=1e-4)


def test_a_round_continues_the_previous_one(task):
    before = {name: some_probabilities(ord(name)) for name in "ab"}
    at_once, weights = teaching_of(task, rounds=2, rounds_per_bound=1).run(before)
    probabilities, learned = teaching_of(task, rounds=1).run(before)
    second = teaching_of(task, rounds=1)
    second.peers = {name: replace(one, weight=learned[name]) for name, one in second.peers.items()}
    then, further = second.run(probabilities)
    for name in "ab":
        torch.testing.assert_close(then[name], at_once[name])
        torch.testing.assert_close(further[name], weights[name])


def test_rounds_share_a_bound(task, monkeypatch):
    given = []

    def remember(*args):
        given.append(args[-1])
        return fit_to_all(*args)

    monkeypatch.setattr(module, "fit_to_all", remember)
    teaching_of(task, rounds=5, steps=4).run({name: some_probabilities(ord(name)) for name in "ab"})
    by_round = np.array([bound is not None for bound in given]).reshape(5, 2)
    np.testing.assert_array_equal(by_round, [[False] * 2, [True] * 2, [True] * 2, [False] * 2, [True] * 2])
    assert given[2].shape == given[4].shape == (2, *[teaching_of(task).views["a"].shape[1]] * 2)
    assert not torch.equal(given[2], given[3])  # each peer has its own


def test_no_rounds(task):
    teaching = teaching_of(task, rounds=0)
    before = {name: some_probabilities(ord(name)) for name in "ab"}
    probabilities, weights = teaching.run(before)
    assert all(probabilities[name] is before[name] for name in "ab")
    assert all(weights[name] is teaching.peers[name].weight for name in "ab")
    assert teaching.history() == {}


# Large graphs


def test_rounds_sample_all_nodes_in_turn(task):
    teaching = teaching_of(task, nodes_per_round=NODES // 4)
    mine = {node for run in range(2) for node in labelled(task, run)}
    sampled = [set(teaching.sample_nodes(number)[0].tolist()) for number in range(5)]
    for one in sampled:
        assert mine <= one
        assert len(one) <= NODES // 4 + len(mine)
    assert set.union(*sampled[:4]) == set(range(NODES))
    assert sampled[4] == sampled[0]


def test_rounds_sample_many_labels_in_turn(graph):
    task = observe(graph, [Split(np.arange(40), [], [])], seed=0)
    teaching = teaching_of(task, nodes_per_round=6, labels_per_round=10)
    used = []
    for number in range(4):
        nodes, labels = teaching.sample_nodes(number)
        used.append(set(task.labelled.index[labels].tolist()))
        assert used[-1] <= set(nodes.tolist())
        weights, _ = teaching._with_labels(torch.zeros(1, len(nodes)), torch.zeros(1, len(nodes)).long(), nodes, labels)
        np.testing.assert_allclose(weights.sum(), 1, rtol=1e-6)
        assert set(nodes[weights[0] > 0].tolist()) == used[-1]
    assert max(map(len, used)) < 20
    assert set.union(*used) == set(range(40))


def test_nodes_outside_the_sample_are_predicted(task):
    before = dict.fromkeys("ab", some_probabilities(0))
    whole, _ = teaching_of(task, rounds=4, steps=20).run(before)
    teaching = teaching_of(task, rounds=1, steps=20, nodes_per_round=NODES // 2)
    probabilities, _ = teaching.run(before)
    absent = np.setdiff1d(np.arange(NODES), teaching.sample_nodes(0)[0])
    assert len(absent) > 0
    assert not teaching.record.first_epochs()[:, absent].any()
    assert probabilities["a"].shape == whole["a"].shape
    probabilities, _ = teaching_of(task, rounds=4, steps=20, nodes_per_round=NODES // 2).run(before)
    assert (probabilities["a"].argmax(-1) == whole["a"].argmax(-1)).float().mean() > 0.8


# Record


@pytest.mark.parametrize("taught_by", ["all", "itself"])
def test_record_and_history_by_round(task, taught_by):
    before = {name: some_probabilities(ord(name)) for name in "ab"}
    teaching = teaching_of(task, rounds=1, steps=8, taught_by=taught_by)
    probabilities, counts, first = before, [], np.zeros((2, NODES), dtype=int)
    for number in (1, 2, 3):
        together = average(teaching.weights, list(probabilities.values()))
        shares = [teaching.pseudo_labels(together if taught_by == "all" else probabilities[name])[0] for name in "ab"]
        taught = np.stack([share.numpy() > 0 for share in shares], 1)
        counts.append(taught.sum(2))
        first = np.where((first == 0) & taught.any(1), number, first)
        probabilities, weights = teaching.run(probabilities)
        teaching.peers = {name: replace(one, weight=weights[name]) for name, one in teaching.peers.items()}
    at_once = teaching_of(task, rounds=3, steps=8, taught_by=taught_by, rounds_per_bound=1)
    at_once.run(before)
    for one in (teaching, at_once):
        np.testing.assert_array_equal(one.history()["pseudo labels"], counts)
        np.testing.assert_array_equal(one.record.first_epochs(), first)
    assert set(np.unique(first)) >= {0, 1, 2}
    for run in range(2):
        assert not first[run, labelled(task, run)].any()


@pytest.mark.parametrize("balance", [0.0, 0.5, 1.0])
def test_equally_confident_nodes_all_count(task, balance):
    teaching = teaching_of(task, balance=balance)
    for sure in np.linspace(0.4, 0.99, 40):
        teacher = torch.tensor([sure, (1 - sure) / 2, (1 - sure) / 2]).float().expand(task.runs, NODES, CLASSES)
        share, _ = teaching.pseudo_labels(teacher)
        assert torch.equal(share > 0, teaching.unlabelled)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [([2, 2, 2], 0.0), ([4, 4, 3], 4 / 11), ([6, 1, 2], 1.0), ([3, 3, 0], 0.0), ([1, 0, 0], 0.0)],
)
def test_label_imbalance(graph, counts, expected):
    chosen = np.concatenate([np.flatnonzero(graph.labels == number)[:count] for number, count in enumerate(counts)])
    task = observe(graph, [Split(chosen, [], [])], seed=0)
    assert label_imbalance(task.labelled, CLASSES).item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("counts", [(2, 2, 2), (6, 1, 2), (4, 4, 3)], ids=str)
def test_threshold_is_by_class_where_labels_are_unequal(graph, counts):
    chosen = np.concatenate([np.flatnonzero(graph.labels == number)[:count] for number, count in enumerate(counts)])
    task = observe(graph, [Split(chosen, [], [])], seed=0)
    teaching = teaching_of(task, "a")
    teaching.by_class = label_imbalance(task.labelled, CLASSES)
    teacher = certain(np.arange(NODES)[None] % CLASSES)
    teacher[:, ::CLASSES] = teacher[:, ::CLASSES].lerp(torch.full((CLASSES,), 1 / CLASSES), 0.5)  # unsure of one class
    share, classes = teaching.pseudo_labels(teacher)
    taught = set(classes[share > 0].tolist())
    assert taught == ({0, 1, 2} if counts == (6, 1, 2) else {1, 2})


def test_penalty_is_bounded_while_teaching(task, monkeypatch):
    found = []

    def remember(rows, weights, classes, penalty, start, steps, total, bound):
        found.append(penalty.tolist())
        return start, bound

    monkeypatch.setattr(module, "fit_to_all", remember)
    teaching = teaching_of(task, rounds=1, taught_penalty=1e-3)
    for peer in teaching.peers.values():
        peer.penalty[:] = torch.tensor([1e-4, 1e-2])
    teaching.run({name: some_probabilities(0) for name in teaching.views})
    np.testing.assert_allclose(found, [[1e-4, 1e-3]] * 2, rtol=1e-6)
