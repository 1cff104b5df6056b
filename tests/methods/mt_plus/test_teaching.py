from dataclasses import replace

import numpy as np
import pytest
import torch

from mtgcn.graph import Graph
from mtgcn.linalg.softmax_regression import fit_to_all
from mtgcn.methods.mt_plus import teaching as lessons_module
from mtgcn.methods.mt_plus.cross_validation import PeerEvidence
from mtgcn.methods.mt_plus.teaching import (
    LARGEST_PENALTY,
    Lessons,
    average,
    evenness_by_labels,
    inequality_of_labels,
)
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
    """They tell the class, and more that differs by peer."""
    values = np.concatenate(
        [np.eye(CLASSES)[np.arange(NODES) % CLASSES], 0.5 * np.random.default_rng(seed).normal(size=(NODES, 4))], axis=1
    )
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    return torch.from_numpy(np.concatenate([values, np.ones((NODES, 1))], axis=1)).float()


def untaught(rows, runs):
    nothing = torch.zeros(runs)
    return PeerEvidence(
        weight=torch.zeros(runs, rows.shape[1], CLASSES),
        penalty=torch.full((runs,), 1e-3),
        temperature=nothing,
        held_out=torch.zeros(runs, 1, 1, CLASSES),
        accuracy=nothing,
    )


def lessons_of(task, names="ab", votes=None, amount=1.0, evenness=1.0):
    rows = {name: some_rows(ord(name)) for name in names}
    votes = torch.tensor(votes or [1 / len(names)] * len(names)).repeat(task.runs, 1)
    lessons = Lessons(
        task,
        rows,
        {name: untaught(table, task.runs) for name, table in rows.items()},
        votes,
        torch.full((task.runs,), amount),
        torch.full((task.runs, 1), evenness),
    )
    lessons.apart = lessons.evenness  # as where classes have unequal numbers of labels
    return lessons


def certain(classes, sure=0.9):
    """Probabilities by run and node, all equally sure but for a hair, by the node."""
    right = torch.eye(CLASSES)[torch.from_numpy(np.asarray(classes))]
    sure = sure + 1e-3 * torch.rand(right.shape[:-1], generator=torch.Generator().manual_seed(0))[..., None]
    return right * sure + (1 - right) * (1 - sure) / (CLASSES - 1)


def labelled(task, run):
    return task.labelled.index[run][task.labelled.present[run]].numpy()


# A lesson


@pytest.mark.parametrize("evenness", [0.0, 0.4, 1.0])
def test_nodes_surer_than_others_teach_and_labelled_ones_do_not(task, evenness):
    teacher = some_probabilities(0)
    share, classes = lessons_of(task, evenness=evenness).lesson(teacher)
    for run in range(2):
        sure, predicted = teacher[run].max(-1).values.numpy(), teacher[run].argmax(-1).numpy()
        np.testing.assert_array_equal(classes[run], predicted)
        free = ~np.isin(np.arange(NODES), labelled(task, run))
        of_class = np.array([sure[free & (predicted == number)].mean() for number in range(CLASSES)])[predicted]
        teaches = free & (sure >= evenness * of_class + (1 - evenness) * sure[free].mean())
        np.testing.assert_array_equal(share[run] > 0, teaches)
        sizes = np.bincount(predicted[teaches], minlength=CLASSES)
        assert sizes.min() > 0
        expected = np.where(teaches, sizes[predicted] ** -float(evenness), 0)
        np.testing.assert_allclose(share[run], expected / expected.sum(), rtol=1e-5)


@pytest.mark.parametrize("evenness", [0.0, 0.4, 1.0])
def test_a_class_weighs_its_size_to_the_power_that_evenness_leaves(task, evenness):
    predicted = np.repeat([0, 0, 0, 0, 1, 2], NODES // 6)
    share, classes = lessons_of(task, evenness=evenness).lesson(certain([predicted, predicted]))
    np.testing.assert_allclose(share.sum(1), 1, rtol=1e-5)
    for run in range(2):
        teach = share[run] > 0
        sizes = np.bincount(classes[run][teach], minlength=CLASSES)
        weights = np.bincount(classes[run], share[run], minlength=CLASSES)
        np.testing.assert_allclose(weights, sizes ** (1 - evenness) / (sizes ** (1 - evenness)).sum(), rtol=1e-5)
        assert sizes[0] > 1.5 * sizes[1:].max()


def test_a_class_that_nobody_predicts_leaves_the_others_their_weight(task):
    predicted = np.repeat([0, 0, 2], NODES // 3)
    share, classes = lessons_of(task).lesson(certain([predicted, predicted]))
    assert share.isfinite().all()
    for run in range(2):
        np.testing.assert_allclose(np.bincount(classes[run], share[run]), [0.5, 0, 0.5], rtol=1e-5)


def test_a_class_of_one_node_weighs_as_much_as_any(task):
    alone = next(node for node in range(NODES) if not any(node in labelled(task, run) for run in range(2)))
    predicted = np.where(np.arange(NODES) == alone, 1, 0)
    share, classes = lessons_of(task).lesson(certain([predicted, predicted]))
    for run in range(2):
        np.testing.assert_allclose(np.bincount(classes[run], share[run]), [0.5, 0.5], rtol=1e-5)


def test_while_labels_are_few_a_class_of_which_nobody_is_sure_teaches_too(task):
    predicted = np.arange(NODES) % CLASSES
    teacher = certain([predicted, predicted])
    teacher[:, predicted == 1] = certain([predicted, predicted], sure=0.5)[:, predicted == 1]
    even, uneven = (lessons_of(task, evenness=evenness).lesson(teacher)[0] for evenness in (1.0, 0.0))
    assert (even[:, predicted == 1] > 0).any(1).all()
    assert not (uneven[:, predicted == 1] > 0).any()


def test_where_all_nodes_are_labelled_nobody_teaches(graph):
    task = observe(graph, [Split(np.arange(NODES), [], [])], seed=0)
    lessons = lessons_of(task)
    share, _ = lessons.lesson(some_probabilities(0, runs=1))
    assert not share.any()
    said, _ = lessons.taught(dict.fromkeys("ab", some_probabilities(0, runs=1)), rounds=1, steps=3)
    assert said["a"].isfinite().all()
    assert not lessons.record.first_epochs().any()


@pytest.mark.parametrize(("per_class", "expected"), [(1, 1), (3, 1), (12, 0.5), ([1, 2, 9], 0.75**0.5)])
def test_the_more_labels_the_less_even(graph, per_class, expected):
    task = observe(graph, draw_splits(graph, per_class, 2, 0), seed=0)
    np.testing.assert_allclose(evenness_by_labels(task), [[expected]] * 2, rtol=1e-6)


def test_absent_labels_make_no_run_less_even(graph):
    many, few = (split.train for split in draw_splits(graph, 12, 2, 0))
    task = observe(graph, [Split(many, [], []), Split(few[::4], [], [])], seed=0)
    np.testing.assert_allclose(evenness_by_labels(task), [[0.5], [1]], rtol=1e-6)


# What is learned


def test_labels_weigh_one_in_all_and_have_their_own_class(task):
    lessons = lessons_of(task)
    taught = torch.full((2, NODES), 0.25)
    for run in range(2):
        taught[run, labelled(task, run)] = 0  # as a lesson has it
    weights, classes = lessons._with_labels(taught, torch.full((2, NODES), 2), slice(None))
    for run in range(2):
        mine = labelled(task, run)
        np.testing.assert_allclose(weights[run, mine], 1 / len(mine))
        np.testing.assert_array_equal(classes[run, mine], mine % CLASSES)
        others = np.setdiff1d(np.arange(NODES), mine)
        assert (weights[run, others] == 0.25).all()
        assert (classes[run, others] == 2).all()


def test_peers_that_teach_nothing_learn_from_labels_alone(task):
    lessons = lessons_of(task, amount=0.0)
    said, weights = lessons.taught({name: some_probabilities(ord(name)) for name in "ab"}, rounds=2, steps=5)
    for name, table in lessons.rows.items():
        share, classes = torch.zeros(2, NODES), torch.zeros(2, NODES, dtype=torch.int64)
        for run in range(2):
            mine = labelled(task, run)
            share[run, mine], classes[run, mine] = 1 / len(mine), torch.from_numpy(mine % CLASSES)
        expected = torch.zeros_like(weights[name])
        for _ in range(2):
            expected, _ = fit_to_all(table, share, classes, torch.full((2,), 1e-3), expected, 5)
        torch.testing.assert_close(weights[name], expected)
        torch.testing.assert_close(said[name], (table @ expected).softmax(-1))


def test_what_is_taught_is_learned_in_proportion_to_the_amount(task):
    wrong = certain(np.tile((np.arange(NODES) + 1) % CLASSES, (2, 1)))
    right = torch.arange(NODES) % CLASSES

    def accuracy(amount):
        said, _ = lessons_of(task, amount=amount).taught({"a": wrong, "b": wrong}, rounds=1, steps=24)
        return (said["a"].argmax(-1) == right).float().mean(1)

    assert (accuracy(0.0) > 0.7).all()
    assert (accuracy(10.0) < 0.3).all()


def test_every_peer_teaches_every_peer(task):
    before = {name: some_probabilities(ord(name)) for name in "abc"}

    def learned(given):
        return lessons_of(task, "abc").taught(given, rounds=1, steps=8)[0]

    usual = learned(before)
    for teacher in "abc":
        other = learned(before | {teacher: some_probabilities(500)})
        for pupil in "abc":
            assert (other[pupil] - usual[pupil]).abs().amax((1, 2)).min() > 0.01


@pytest.mark.parametrize("mistaken", "abc")
def test_a_peer_that_is_wrong_is_outvoted_and_learns_what_is_right(task, mistaken):
    right = torch.arange(NODES) % CLASSES
    before = dict.fromkeys("abc", certain(right.repeat(2, 1), sure=0.8))
    before[mistaken] = certain((right.repeat(2, 1) + 1) % CLASSES, sure=0.8)
    votes = [0.4 if name == mistaken else 0.3 for name in "abc"]  # it has more to say than any other
    said, _ = lessons_of(task, "abc", votes, amount=5.0).taught(before, rounds=2, steps=16)
    for probabilities in said.values():
        assert (probabilities.argmax(-1) == right).float().mean() > 0.95
    votes = [0.6 if name == mistaken else 0.2 for name in "abc"]  # and here more than both
    said, _ = lessons_of(task, "abc", votes, amount=5.0).taught(before, rounds=2, steps=16)
    for probabilities in said.values():
        assert (probabilities.argmax(-1) == right).float().mean() < 0.5


def test_who_is_taught_by_itself_learns_nothing_of_others(task):
    before = {name: some_probabilities(ord(name)) for name in "abc"}

    def learned(given, taught_by):
        return lessons_of(task, "abc").taught(given, rounds=3, steps=8, taught_by=taught_by)[0]

    alone = learned(before, "itself")
    others = learned({name: before["a"] if name == "a" else some_probabilities(500) for name in "abc"}, "itself")
    torch.testing.assert_close(others["a"], alone["a"])
    assert not torch.allclose(others["b"], alone["b"], atol=0.01)
    assert not torch.allclose(learned(before, "all")["a"], alone["a"], atol=0.01)


def test_in_a_round_no_peer_sees_what_another_has_just_learned(task):
    before = {name: some_probabilities(ord(name)) for name in "abc"}
    votes = [0.5, 0.2, 0.3]
    said, _ = lessons_of(task, "abc", votes).taught(before, rounds=3, steps=8)
    turned, _ = lessons_of(task, "cba", votes[::-1]).taught(dict(reversed(before.items())), rounds=3, steps=8)
    for name in "abc":
        torch.testing.assert_close(turned[name], said[name], rtol=1e-3, atol=1e-4)


@pytest.fixture
def rounds_apart(monkeypatch):
    """Every round learns with a bound of its own, as if it were the only one."""
    monkeypatch.setattr(lessons_module, "ROUNDS_ALIKE", 1)


@pytest.mark.usefixtures("rounds_apart")
def test_a_round_goes_on_from_the_one_before(task):
    before = {name: some_probabilities(ord(name)) for name in "ab"}
    at_once, weights = lessons_of(task).taught(before, rounds=2, steps=4)
    first = lessons_of(task)
    said, learned = first.taught(before, rounds=1, steps=4)
    second = lessons_of(task)
    second.evidence = {name: replace(one, weight=learned[name]) for name, one in second.evidence.items()}
    then, further = second.taught(said, rounds=1, steps=4)
    for name in "ab":
        torch.testing.assert_close(then[name], at_once[name])
        torch.testing.assert_close(further[name], weights[name])


def test_rounds_after_each_other_learn_with_the_same_bound(task, monkeypatch):
    given = []

    def remember(*args):
        given.append(args[-1])
        return fit_to_all(*args)

    monkeypatch.setattr(lessons_module, "fit_to_all", remember)
    lessons_of(task).taught({name: some_probabilities(ord(name)) for name in "ab"}, rounds=5, steps=4)
    by_round = np.array([bound is not None for bound in given]).reshape(5, 2)
    np.testing.assert_array_equal(by_round, [[False] * 2, [True] * 2, [True] * 2, [False] * 2, [True] * 2])
    assert given[2].shape == given[4].shape == (2, *[lessons_of(task).rows["a"].shape[1]] * 2)
    assert not torch.equal(given[2], given[3])  # each peer has its own


def test_without_rounds_nothing_changes(task):
    lessons = lessons_of(task)
    before = {name: some_probabilities(ord(name)) for name in "ab"}
    said, weights = lessons.taught(before, rounds=0, steps=8)
    assert all(said[name] is before[name] for name in "ab")
    assert all(weights[name] is lessons.evidence[name].weight for name in "ab")
    assert lessons.history() == {}


def test_runs_do_not_depend_on_each_other(task):
    before = {name: some_probabilities(ord(name)) for name in "ab"}
    together, _ = lessons_of(task).taught(before, rounds=2, steps=4)
    for run, one in enumerate(task.chunks(1)):
        mine = {name: values[run : run + 1] for name, values in before.items()}
        alone, _ = lessons_of(one).taught(mine, rounds=2, steps=4)
        for name in "ab":
            torch.testing.assert_close(alone[name][0], together[name][run], rtol=1e-3, atol=1e-4)


# Large graphs


def test_a_round_looks_at_other_nodes_than_the_last_and_at_all_labelled_ones(task, monkeypatch):
    monkeypatch.setattr(lessons_module, "LARGEST_CLASS", NODES // 4)
    lessons = lessons_of(task)
    mine = {node for run in range(2) for node in labelled(task, run)}
    attended = [set(lessons._attending(number).tolist()) for number in range(5)]
    for one in attended:
        assert mine <= one
        assert len(one) <= NODES // 4 + len(mine)
    assert set.union(*attended[:4]) == set(range(NODES))
    assert attended[4] == attended[0]  # and begins again


def test_labels_find_their_place_among_those_who_attend(task, monkeypatch):
    monkeypatch.setattr(lessons_module, "LARGEST_CLASS", NODES // 4)
    lessons = lessons_of(task)
    here = lessons._attending(0)
    weights, classes = lessons._with_labels(torch.zeros(2, len(here)), torch.full((2, len(here)), 2), here)
    for run in range(2):
        mine = labelled(task, run)
        assert sorted(here[weights[run] > 0].tolist()) == sorted(mine)
        np.testing.assert_array_equal(classes[run][weights[run] > 0], here[weights[run] > 0] % CLASSES)


def test_who_has_not_attended_is_not_pseudo_labelled_but_answered(task, monkeypatch):
    everybody, _ = lessons_of(task).taught(dict.fromkeys("ab", some_probabilities(0)), rounds=4, steps=20)
    monkeypatch.setattr(lessons_module, "LARGEST_CLASS", NODES // 2)
    lessons = lessons_of(task)
    said, _ = lessons.taught(dict.fromkeys("ab", some_probabilities(0)), rounds=1, steps=20)
    absent = np.setdiff1d(np.arange(NODES), lessons._attending(0))
    assert len(absent) > 0
    assert not lessons.record.first_epochs()[:, absent].any()
    assert said["a"].shape == everybody["a"].shape
    said, _ = lessons_of(task).taught(dict.fromkeys("ab", some_probabilities(0)), rounds=4, steps=20)
    assert (said["a"].argmax(-1) == everybody["a"].argmax(-1)).float().mean() > 0.8


# What is told of it


@pytest.mark.usefixtures("rounds_apart")
@pytest.mark.parametrize("taught_by", ["all", "itself"])
def test_the_record_and_the_history_count_rounds(task, taught_by):
    lessons = lessons_of(task)
    said = {name: some_probabilities(ord(name)) for name in "ab"}
    counts, first = [], np.zeros((2, NODES), dtype=int)
    for number in (1, 2, 3):
        together = average(lessons.votes, list(said.values()))
        shares = [lessons.lesson(together if taught_by == "all" else said[name])[0] for name in "ab"]
        teach = np.stack([share.numpy() > 0 for share in shares], 1)
        counts.append(teach.sum(2))
        first = np.where((first == 0) & teach.any(1), number, first)
        said, weights = lessons.taught(said, rounds=1, steps=8, taught_by=taught_by)
        lessons.evidence = {name: replace(one, weight=weights[name]) for name, one in lessons.evidence.items()}
    at_once = lessons_of(task)
    at_once.taught({name: some_probabilities(ord(name)) for name in "ab"}, rounds=3, steps=8, taught_by=taught_by)
    for one in (lessons, at_once):
        np.testing.assert_array_equal(one.history()["pseudo labels"], counts)
        np.testing.assert_array_equal(one.record.first_epochs(), first)
    assert set(np.unique(first)) >= {0, 1, 2}
    for run in range(2):
        assert not first[run, labelled(task, run)].any()


def test_an_average_is_weighted_by_votes_run_by_run():
    one = torch.tensor([[[1.0, 0.0]], [[0.6, 0.4]]])
    other = torch.tensor([[[0.0, 1.0]], [[0.2, 0.8]]])
    found = average(torch.tensor([[0.25, 0.75], [0.5, 0.5]]), [one, other])
    np.testing.assert_allclose(found, [[[0.25, 0.75]], [[0.4, 0.6]]])
    assert one[0, 0, 0] == 1


@pytest.mark.parametrize("evenness", [0.0, 0.5, 1.0])
def test_nodes_that_are_all_equally_sure_all_teach(task, evenness):
    lessons = lessons_of(task, evenness=evenness)
    for sure in np.linspace(0.4, 0.99, 40):
        teacher = torch.tensor([sure, (1 - sure) / 2, (1 - sure) / 2]).float().expand(task.runs, NODES, CLASSES)
        share, _ = lessons.lesson(teacher)
        assert torch.equal(share > 0, lessons.free)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [([2, 2, 2], 0.0), ([4, 4, 3], 4 / 11), ([6, 1, 2], 1.0), ([3, 3, 0], 0.0), ([1, 0, 0], 0.0)],
)
def test_how_unequal_labels_are(graph, counts, expected):
    chosen = np.concatenate([np.flatnonzero(graph.labels == number)[:count] for number, count in enumerate(counts)])
    task = observe(graph, [Split(chosen, [], [])], seed=0)
    assert inequality_of_labels(task).item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("counts", [(2, 2, 2), (6, 1, 2), (4, 4, 3)], ids=str)
def test_the_average_node_of_a_class_counts_where_labels_are_unequal(graph, counts):
    chosen = np.concatenate([np.flatnonzero(graph.labels == number)[:count] for number, count in enumerate(counts)])
    task = observe(graph, [Split(chosen, [], [])], seed=0)
    rows = {"a": some_rows(0)}
    evenness = torch.ones(1, 1)
    lessons = Lessons(task, rows, {"a": untaught(rows["a"], 1)}, torch.ones(1, 1), torch.ones(1), evenness)
    torch.testing.assert_close(lessons.apart, inequality_of_labels(task))
    teacher = certain(np.arange(NODES)[None] % CLASSES)
    teacher[:, ::CLASSES] = teacher[:, ::CLASSES].lerp(torch.full((CLASSES,), 1 / CLASSES), 0.5)  # unsure of one class
    share, classes = lessons.lesson(teacher)
    taught = set(classes[share > 0].tolist())
    assert taught == ({0, 1, 2} if counts == (6, 1, 2) else {1, 2})


def test_a_penalty_that_suits_a_handful_of_labels_is_not_kept_while_thousands_of_nodes_teach(task, monkeypatch):
    found = []

    def remember(rows, weights, classes, penalty, start, steps, total, bound):
        found.append(penalty.tolist())
        return start, bound

    monkeypatch.setattr(lessons_module, "fit_to_all", remember)
    lessons = lessons_of(task)
    small, large = LARGEST_PENALTY / 10, LARGEST_PENALTY * 10
    for evidence in lessons.evidence.values():
        evidence.penalty[:] = torch.tensor([small, large])
    lessons.taught({name: some_probabilities(0) for name in lessons.rows}, rounds=1, steps=1)
    np.testing.assert_allclose(found, [[small, LARGEST_PENALTY]] * 2, rtol=1e-6)
