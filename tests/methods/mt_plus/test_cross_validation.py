from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from torch.nn import functional

from mtgcn.graph import Graph
from mtgcn.methods.mt_plus import cross_validation as module
from mtgcn.methods.mt_plus.cross_validation import (
    PENALTIES,
    PeerEvidence,
    accuracy_of,
    folds_of,
    held_out_parts,
    peer_evidence,
    skill,
    vote_weights,
)
from mtgcn.splits import Split, draw_splits
from mtgcn.task import MISSING, Nodes, Task, observe

CLASSES = 3
TRUST = {"a": 1.0, "b": 3.0}


@pytest.fixture
def graph():
    """Nodes that differ; peers see rows that tests make."""
    features = np.random.default_rng(0).random((150, 4))
    return Graph(np.zeros((150, 150)), features, np.arange(150) % CLASSES)


def drawn_task(graph, per_class, runs=2, seed=0):
    return observe(graph, draw_splits(graph, per_class, runs, seed), seed)


def task_of(graph, classes, runs=1):
    """The first nodes are labelled, with these classes; MISSING stands for an absent label."""
    classes = torch.tensor(classes)
    index = torch.where(classes == MISSING, MISSING, torch.arange(len(classes)))
    rows = Nodes(index.repeat(runs, 1), classes.clamp(min=0).repeat(runs, 1))
    return Task(graph.without_labels, rows, seeds=tuple(range(runs)))


def with_ones(values):
    rows = functional.normalize(torch.as_tensor(values).float())
    return torch.cat([rows, torch.ones(len(rows), 1)], 1)


def telling_rows(graph, noise=0.0, columns=5):
    """The class is a column of its own; the others say nothing."""
    telling = np.eye(CLASSES)[graph.labels]
    return with_ones(np.concatenate([telling, noise * noise_of(graph, columns)], axis=1))


def noise_of(graph, columns=8, seed=0):
    return np.random.default_rng([seed, columns]).normal(size=(graph.num_nodes, columns))


# Folds


@pytest.mark.parametrize(
    ("labels", "expected"), [(1, 2), (3, 2), (6, 2), (9, 3), (12, 4), (15, 5), (60, 5), (10, 3), (11, 4)]
)
def test_there_are_as_many_folds_as_the_average_class_has_labels(labels, expected):
    assert folds_of(labels, 3) == expected


@pytest.mark.parametrize(
    ("per_class", "folds", "repeats"),
    [(1, 2, 3), (2, 2, 3), (3, 3, 2), (4, 4, 2), (5, 5, 1), (7, 5, 1), ([9, 1, 2], 4, 2)],
)
def test_every_label_is_held_out_equally_often_and_classes_are_spread(graph, per_class, folds, repeats):
    task = drawn_task(graph, per_class)
    parts = held_out_parts(task)
    labels = task.labelled.index.shape[1]
    assert parts.shape == (2, folds * repeats, labels)
    by_repeat = parts.unflatten(1, (repeats, folds))
    assert (by_repeat.sum(2) == 1).all()
    sizes = by_repeat.sum(3)
    assert (sizes.amax(2) - sizes.amin(2)).max() <= 1
    for number in range(CLASSES):
        of_class = (by_repeat & (task.labelled.classes == number)[:, None, None]).sum(3)
        assert (of_class.amax(2) - of_class.amin(2)).max() <= 1


def test_folds_differ_by_repeat_and_by_seed(graph):
    task = drawn_task(graph, 3)
    parts = held_out_parts(task)
    dealt = parts.unflatten(1, (2, 3)).float()
    together = dealt.mT @ dealt  # who shares a fold with whom, by run and repeat
    assert not torch.equal(together[0, 0], together[0, 1])
    same_labels = replace(task, labelled=Nodes(*(part[:1].repeat(2, 1) for part in vars(task.labelled).values())))
    of_seeds = held_out_parts(same_labels)
    assert torch.equal(of_seeds[0], parts[0])
    assert not torch.equal(of_seeds[0], of_seeds[1])


def test_folds_follow_the_nodes(graph):
    task = drawn_task(graph, 4)
    parts = held_out_parts(task)
    order = np.random.default_rng(1).permutation(graph.num_nodes)
    place = torch.from_numpy(np.argsort(order))
    moved = Graph(graph.adjacency, graph.features[order], graph.labels[order])
    shuffled = replace(
        task, graph=moved.without_labels, labelled=replace(task.labelled, index=place[task.labelled.index])
    )
    assert torch.equal(held_out_parts(shuffled), parts)
    turned = replace(task, labelled=Nodes(task.labelled.index.flip(1), task.labelled.classes.flip(1)))
    assert torch.equal(held_out_parts(turned), parts.flip(2))


def test_runs_with_fewer_labels_hold_out_theirs_alone(graph):
    few, many = (split.train for split in draw_splits(graph, 5, 2, 0))
    task = observe(graph, [Split(few[[0, 5, 10]], [], []), Split(many, [], [])], seed=0)
    parts = held_out_parts(task)
    assert parts.shape == (2, 6, 15)
    assert not parts[0, :, 3:].any()
    assert (parts[0, :, :3].sum(0) == 3).all()  # two folds, three times
    assert (parts[1, :5].sum(0) == 1).all()
    assert not parts[1, 5].any()  # a part that only the first run needs


# What labels weigh while some are held out


def test_a_class_keeps_its_weight_while_some_of_its_labels_are_held_out(graph):
    task = task_of(graph, [0, 0, 0, 1, MISSING])
    parts = torch.tensor([[[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0]]]).bool()
    expected = [
        [0, 3 / 8, 3 / 8, 1 / 4, 0],
        [0, 0, 3 / 4, 1 / 4, 0],
        [1 / 3, 1 / 3, 1 / 3, 0, 0],  # nobody is left to have the weight of the second class
        [1 / 4, 1 / 4, 1 / 4, 1 / 4, 0],
        [1 / 4, 1 / 4, 1 / 4, 1 / 4, 0],
    ]
    np.testing.assert_allclose(module._weights_of_kept(task, parts)[0], expected, rtol=1e-6)


@pytest.mark.parametrize("per_class", [1, 2, 7, [9, 1, 2]])
def test_weights_of_kept_labels_sum_to_one(graph, per_class):
    task = drawn_task(graph, per_class)
    parts = held_out_parts(task)
    weights = module._weights_of_kept(task, parts)
    np.testing.assert_allclose(weights.sum(2), 1, rtol=1e-6)
    assert not weights[:, :-1][parts].any()
    np.testing.assert_allclose(weights[:, -1], 1 / task.labelled.index.shape[1])


def test_peers_that_are_fitted_at_once_are_fitted_as_if_alone(graph, monkeypatch):
    rows = {name: with_ones(noise_of(graph, width)) for name, width in (("a", 3), ("b", 9), ("c", 5))}
    task = drawn_task(graph, 4)
    parts = held_out_parts(task)
    together = module._trials(rows, task, parts)
    monkeypatch.setattr(module, "LARGEST_STACK", 1)
    for name, alone in module._trials(rows, task, parts).items():
        torch.testing.assert_close(together[name].logits, alone.logits, rtol=1e-3, atol=1e-3)
        assert together[name].rows.shape[-1] == rows[name].shape[1]


def test_a_large_penalty_is_not_punished_by_folds(graph):
    # Classes lie close together, and means tell them all apart; with a large penalty their weights would decide.
    rows = torch.from_numpy(np.c_[0.1 * np.eye(CLASSES)[graph.labels], np.ones(graph.num_nodes)]).float()
    task = drawn_task(graph, 7)
    parts = held_out_parts(task)
    trial = module._trials({"a": rows}, task, parts)["a"]
    for number in range(len(PENALTIES)):
        told = accuracy_of(trial.logits[:, :, number].softmax(-1), task.labelled.classes, parts)
        assert told.tolist() == [1, 1]


# Penalties


def small_differences(graph):
    """Classes differ little, and nodes of the same class much in other columns: only a fit with a small penalty sees
    what matters."""
    telling = 0.1 * np.eye(CLASSES)[graph.labels]
    return with_ones(np.concatenate([telling, noise_of(graph, 3)], axis=1))


def many_coincidences(graph):
    """What tells is hidden in a great deal that does not: a fit with a small penalty learns it by heart."""
    return telling_rows(graph, noise=0.3, columns=24)


@pytest.fixture
def misled(graph):
    """A quarter of the labels are wrong."""
    task = drawn_task(graph, 20, runs=3)
    wrong = torch.rand(task.labelled.index.shape, generator=torch.Generator().manual_seed(0)) < 0.25
    classes = torch.where(wrong, (task.labelled.classes + 1) % CLASSES, task.labelled.classes)
    return replace(task, labelled=replace(task.labelled, classes=classes))


def evidence_of(rows, task, trust=None):
    return peer_evidence(rows, trust or dict.fromkeys(rows, 1.0), task, held_out_parts(task))


def test_a_peer_takes_the_penalty_that_suits_its_rows(graph, misled, monkeypatch):
    monkeypatch.setattr(module, "POOLED", 0.0)
    weak = evidence_of({"it": small_differences(graph)}, drawn_task(graph, 20, runs=3))["it"].penalty
    strong = evidence_of({"it": many_coincidences(graph)}, misled)["it"].penalty
    assert (weak < 1e-4).all()
    assert (strong > 1e-3).all()
    assert weak.min() >= PENALTIES[0] * 0.9999
    assert strong.max() <= PENALTIES[-1] * 1.0001


@pytest.mark.slow
def test_peers_listen_to_what_others_found(graph, misled, monkeypatch):
    small, many = small_differences(graph), many_coincidences(graph)

    def penalty_beside(other, trust=1.0):
        return evidence_of({"it": many, "other": other}, misled, {"it": 1.0, "other": trust})["it"].penalty

    assert (penalty_beside(many) > 10 * penalty_beside(small)).all()
    assert (penalty_beside(small, trust=0.01) > 2 * penalty_beside(small)).all()  # the more so the more it is trusted
    monkeypatch.setattr(module, "POOLED", 0.0)
    torch.testing.assert_close(penalty_beside(many), penalty_beside(small), rtol=0, atol=0)


def test_a_peer_is_fitted_to_all_labels(graph, monkeypatch):
    monkeypatch.setattr(module, "PENALTIES", (1e-2,))
    task = drawn_task(graph, [4, 2, 1])
    rows = telling_rows(graph, noise=0.5)
    found = evidence_of({"it": rows}, task)["it"]
    torch.testing.assert_close(found.penalty, torch.tensor([1e-2, 1e-2]))
    for run in range(2):
        mine, classes = rows[task.labelled.index[run]], task.labelled.classes[run]
        error = (mine @ found.weight[run]).softmax(-1) - functional.one_hot(classes, CLASSES)
        gradient = mine.T @ error / len(mine) + 2e-2 * found.weight[run]
        assert gradient.abs().max() < 1e-4


def test_runs_with_fewer_labels_find_what_they_find_alone(graph):
    few, many = (split.train for split in draw_splits(graph, 4, 2, 0))
    task = observe(graph, [Split(many, [], []), Split(few[:9], [], [])], seed=0)
    alone = replace(
        task, labelled=Nodes(task.labelled.index[1:, :9], task.labelled.classes[1:, :9]), seeds=task.seeds[1:]
    )
    rows = {"one": telling_rows(graph, noise=0.5), "other": with_ones(noise_of(graph))}
    trust = {"one": 1.0, "other": 2.0}
    both, single = evidence_of(rows, task, trust), evidence_of(rows, alone, trust)
    for name in rows:
        for part in ("weight", "penalty", "temperature", "accuracy"):
            ours, theirs = getattr(both[name], part)[1:], getattr(single[name], part)
            torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-3)
    votes = vote_weights(both, trust, task, held_out_parts(task))[1:]
    torch.testing.assert_close(votes, vote_weights(single, trust, alone, held_out_parts(alone)), rtol=1e-2, atol=1e-3)


def test_one_label_per_class_is_enough(graph):
    task = drawn_task(graph, 1)
    for one in evidence_of({"one": telling_rows(graph), "other": with_ones(noise_of(graph))}, task).values():
        assert all(getattr(one, part).isfinite().all() for part in vars(one))
        torch.testing.assert_close(one.held_out.sum(-1), torch.ones(one.held_out.shape[:3]))
        assert (one.accuracy == 0).all()  # who is held out has nobody of its class left


# Temperatures


def certainty(rows, one):
    return ((rows @ one.weight) / one.temperature[:, None, None]).softmax(-1).amax(-1).mean(1)


def test_a_peer_that_knows_nothing_is_made_to_whisper(graph):
    task = drawn_task(graph, 10)
    rows = {"telling": telling_rows(graph, noise=0.1), "noise": with_ones(noise_of(graph, columns=20))}
    found = evidence_of(rows, task)
    telling, noise = (certainty(rows[name], found[name]) for name in rows)
    assert (telling > 0.9).all()
    assert (noise < 0.7).all()


def test_without_evidence_all_peers_are_equally_sharp(graph, monkeypatch):
    monkeypatch.setattr(module, "CAUTION", 1e9)
    task = drawn_task(graph, 10)
    parts = held_out_parts(task)
    rows = {"telling": telling_rows(graph, noise=0.1), "noise": with_ones(noise_of(graph, columns=20))}
    for one in evidence_of(rows, task).values():
        square = one.held_out.log().var(-1, correction=0)
        for run in range(2):
            np.testing.assert_allclose(square[run][parts[run]].mean().sqrt(), module.SHARPNESS, rtol=1e-4)


@pytest.mark.parametrize("noise", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("per_class", [2, 5, 20])
def test_a_temperature_e_times_as_high_or_low_has_four_labels_against_it(graph, monkeypatch, per_class, noise):
    monkeypatch.setattr(module, "PENALTIES", (1e-3,))
    task = drawn_task(graph, per_class, runs=4)
    parts = held_out_parts(task)
    found = evidence_of({"it": telling_rows(graph, noise)}, task)["it"]
    for run in range(4):
        times, labels = np.nonzero(parts[run].numpy())
        logits = found.held_out[run].log().double().numpy()[times, labels] * found.temperature[run].item()
        classes = task.labelled.classes[run].numpy()[labels]
        expected = np.sqrt(logits.var(1).mean()) / 2

        def worth(factor, logits=logits, classes=classes, expected=expected):
            told = log_softmax(logits / (factor * expected), axis=1)[np.arange(len(logits)), classes]
            return 3 * per_class * told.mean() - 4 * np.log(factor) ** 2

        best = max((2.0**power for power in range(-9, 6)), key=worth)
        assert found.temperature[run].item() == pytest.approx(best * expected, rel=1e-3)


def test_few_labels_move_the_temperature_less_than_many(graph):
    rows = {"it": telling_rows(graph, noise=0.1)}

    def sharpness(per_class):
        found = evidence_of(rows, drawn_task(graph, per_class, runs=4))["it"]
        return (rows["it"] @ found.weight / found.temperature[:, None, None]).std(-1).mean()

    assert sharpness(30) > 1.4 * sharpness(2)


# Accuracy, skill and votes


def test_accuracy_counts_held_out_labels_alone():
    told = torch.tensor([[0, 1, 1, 2], [0, 0, 2, 2]])  # by part and label
    parts = torch.tensor([[[1, 1, 0, 0], [0, 0, 1, 1]], [[1, 0, 0, 0], [0, 1, 1, 0]], [[0] * 4] * 2]).bool()
    held_out = functional.one_hot(told, 3).float().repeat(3, 1, 1, 1)
    classes = torch.tensor([[0, 2, 2, 2], [1, 0, 2, 0], [0, 0, 0, 0]])
    np.testing.assert_allclose(accuracy_of(held_out, classes, parts), [3 / 4, 2 / 3, 0])


def test_skill_is_the_way_from_chance_to_always_right():
    accuracy = torch.tensor([0.0, 0.25, 0.625, 1.0])
    np.testing.assert_allclose(skill(accuracy, 4), [0, 0, 0.5, 1])


def peer_that_gives(right, task, parts):
    """What tells held-out labels with these probabilities, by label; other probabilities are shared."""
    right = torch.tensor(right).float()
    of_right = functional.one_hot(task.labelled.classes, CLASSES).float()
    held_out = of_right * right[..., None] + (1 - of_right) * (1 - right[..., None]) / (CLASSES - 1)
    nothing = torch.ones(task.runs)
    held_out = held_out[:, None].expand(-1, parts.shape[1], -1, -1)
    return PeerEvidence(torch.zeros(task.runs, 2, CLASSES), nothing, nothing, held_out, nothing)


def test_votes_are_shared_by_who_was_right_and_by_trust(graph):
    # Where only one of two peers thinks a label possible, it owes all of it to that one; the prior is worth two labels.
    task = task_of(graph, [0, 1, 2, 0])
    parts = torch.tensor([[[1, 0, 1, 0], [0, 1, 0, 1]]]).bool()
    right = {"a": [[1, 0.5, 1, 0]], "b": [[0, 0, 0, 0.1]]}
    evidence = {name: peer_that_gives(values, task, parts) for name, values in right.items()}
    for trust, share in [({"a": 1, "b": 1}, 1 / 2), ({"a": 1, "b": 3}, 1 / 4), ({"a": 20, "b": 5}, 4 / 5)]:
        expected = (3 + 2 * share) / (4 + 2)
        np.testing.assert_allclose(vote_weights(evidence, trust, task, parts), [[expected, 1 - expected]], rtol=1e-5)


def test_votes_make_held_out_labels_likeliest(graph):
    task = task_of(graph, [0, 1, 2, 0, 1, 2])
    parts = torch.eye(6)[None].bool()
    right = np.random.default_rng(0).uniform(0.05, 0.95, (2, 6))
    evidence = {name: peer_that_gives(values[None], task, parts) for name, values in zip("ab", right, strict=True)}
    trust = {"a": 1, "b": 2}
    first = np.linspace(1e-4, 1 - 1e-4, 100_000)
    likelihood = np.log(first[:, None] * right[0] + (1 - first[:, None]) * right[1]).sum(1)
    prior = 2 * (np.log(first) / 3 + 2 * np.log(1 - first) / 3)
    best = first[(likelihood + prior).argmax()]
    np.testing.assert_allclose(vote_weights(evidence, trust, task, parts), [[best, 1 - best]], atol=1e-3)


def test_a_label_that_is_held_out_three_times_counts_once(graph):
    task = task_of(graph, [0, 1, 2, MISSING])
    once = torch.eye(4)[None, :3].bool()
    thrice = once.repeat(1, 3, 1)
    right = {"a": [[0.9, 0.2, 0.6, 0]], "b": [[0.3, 0.5, 0.2, 1]]}
    found = [
        vote_weights({name: peer_that_gives(values, task, parts) for name, values in right.items()}, TRUST, task, parts)
        for parts in (once, thrice)
    ]
    torch.testing.assert_close(*found)


def test_with_few_labels_votes_stay_near_trust_and_with_none_there(graph):
    away = []
    for labels in (0, 2, 30):
        task = task_of(graph, [0, 1, 2] * 10 if labels == 30 else [0, 1][:labels] + [MISSING] * (2 - labels))
        parts = torch.eye(task.labelled.index.shape[1])[None].bool() & task.labelled.present[:, None]
        width = parts.shape[2]
        right = {"a": [[0.8] * width], "b": [[0.2] * width]}
        evidence = {name: peer_that_gives(values, task, parts) for name, values in right.items()}
        votes = vote_weights(evidence, TRUST, task, parts)
        np.testing.assert_allclose(votes.sum(1), 1, rtol=1e-6)
        away.append(votes[0, 0].item() - 0.25)
    assert away[0] == pytest.approx(0, abs=1e-6)
    assert 0.1 < away[1] < 0.4
    assert away[2] > 0.6


def test_labels_that_nobody_thinks_possible_leave_trust_as_it_is(graph):
    task = task_of(graph, [0, 1])
    parts = torch.eye(2)[None].bool()
    evidence = {name: peer_that_gives([[0, 0]], task, parts) for name in "ab"}
    np.testing.assert_allclose(vote_weights(evidence, TRUST, task, parts), [[0.25, 0.75]], rtol=1e-6)


def test_who_tells_outvotes_noise_and_runs_do_not_depend_on_each_other(graph):
    task = drawn_task(graph, 8, runs=3)
    parts = held_out_parts(task)
    rows = {"noise": with_ones(noise_of(graph, 20)), "telling": telling_rows(graph, 0.2)}
    trust = {"noise": 2.0, "telling": 1.0}
    votes = vote_weights(peer_evidence(rows, trust, task, parts), trust, task, parts)
    assert votes.shape == (3, 2)
    np.testing.assert_allclose(votes.sum(1), 1, rtol=1e-6)
    assert (votes[:, 1] > 0.8).all()
    for run, one in enumerate(task.chunks(1)):
        mine = parts[run : run + 1]
        alone = vote_weights(peer_evidence(rows, trust, one, mine), trust, one, mine)
        torch.testing.assert_close(alone[0], votes[run], rtol=1e-2, atol=1e-3)
