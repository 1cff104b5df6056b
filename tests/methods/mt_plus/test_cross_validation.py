from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from torch.nn import functional

from mtgcn.graph import Graph
from mtgcn.linalg.node_keys import node_keys
from mtgcn.methods.mt_plus import cross_validation as module
from mtgcn.methods.mt_plus.cross_validation import Peer, held_out_accuracy, num_folds, skill
from mtgcn.methods.mt_plus.settings import MTPlusSettings
from mtgcn.splits import Split, draw_splits
from mtgcn.task import MISSING, Nodes, Task, observe

CLASSES = 3
PRIOR = {"a": 1.0, "b": 3.0}
DEFAULT = MTPlusSettings()


def folds_of(task, settings=DEFAULT):
    keys = node_keys(task.graph, task.device)
    return module.stratified_folds(task.labelled, keys, task.num_classes, task.seeds, settings)


def weights_of(peers, prior, task, folds):
    return module.mixture_weights(peers, prior, task.labelled, folds, DEFAULT)


def trials_of(rows, task, folds):
    return module._fit_trials(rows, task.labelled, CLASSES, folds, DEFAULT)


def label_weights(task, folds):
    return module._label_weights(task.labelled, CLASSES, folds)


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


def informative_rows(graph, noise=0.0, columns=5):
    """One column per class, and columns of noise."""
    informative = np.eye(CLASSES)[graph.labels]
    return with_ones(np.concatenate([informative, noise * noise_of(graph, columns)], axis=1))


def noise_of(graph, columns=8, seed=0):
    return np.random.default_rng([seed, columns]).normal(size=(graph.num_nodes, columns))


# Folds


@pytest.mark.parametrize(
    ("labels", "expected"), [(1, 2), (3, 2), (6, 2), (9, 3), (12, 4), (15, 5), (60, 5), (10, 3), (11, 4)]
)
def test_num_folds(labels, expected):
    assert num_folds(labels, 3, DEFAULT) == expected


@pytest.mark.parametrize(
    ("per_class", "count", "repeats"),
    [(2, 2, 3), (3, 3, 2), (4, 4, 2), (5, 5, 1), (7, 5, 1), ([9, 1, 2], 4, 2)],
)
def test_folds_are_stratified(graph, per_class, count, repeats):
    task = drawn_task(graph, per_class)
    folds = folds_of(task)
    labels = task.labelled.index.shape[1]
    assert folds.shape == (2, count * repeats, labels)
    by_repeat = folds.unflatten(1, (repeats, count))
    counts = torch.stack([(task.labelled.classes == number).sum(1) for number in range(CLASSES)], 1)
    held_out = counts.gather(1, task.labelled.classes) > 1  # the only label of a class is kept
    assert (by_repeat.sum(2) == held_out[:, None]).all()
    sizes = by_repeat.sum(3)
    assert (sizes.amax(2) - sizes.amin(2)).max() <= 1
    for number in range(CLASSES):
        of_class = (by_repeat & (task.labelled.classes == number)[:, None, None]).sum(3)
        assert (of_class.amax(2) - of_class.amin(2)).max() <= 1


def test_folds_differ_by_repeat_and_by_seed(graph):
    task = drawn_task(graph, 3)
    folds = folds_of(task)
    dealt = folds.unflatten(1, (2, 3)).float()
    together = dealt.mT @ dealt  # pairs in one fold, by run and repeat
    assert not torch.equal(together[0, 0], together[0, 1])
    same_labels = replace(task, labelled=Nodes(*(part[:1].repeat(2, 1) for part in vars(task.labelled).values())))
    of_seeds = folds_of(same_labels)
    assert torch.equal(of_seeds[0], folds[0])
    assert not torch.equal(of_seeds[0], of_seeds[1])


def test_folds_follow_the_nodes(graph):
    task = drawn_task(graph, 4)
    folds = folds_of(task)
    order = np.random.default_rng(1).permutation(graph.num_nodes)
    place = torch.from_numpy(np.argsort(order))
    moved = Graph(graph.adjacency, graph.features[order], graph.labels[order])
    shuffled = replace(
        task, graph=moved.without_labels, labelled=replace(task.labelled, index=place[task.labelled.index])
    )
    assert torch.equal(folds_of(shuffled), folds)
    turned = replace(task, labelled=Nodes(task.labelled.index.flip(1), task.labelled.classes.flip(1)))
    assert torch.equal(folds_of(turned), folds.flip(2))


def test_folds_of_runs_with_fewer_labels(graph):
    few, many = (split.train for split in draw_splits(graph, 5, 2, 0))
    task = observe(graph, [Split(few[[0, 1, 5, 6, 10, 11]], [], []), Split(many, [], [])], seed=0)
    folds = folds_of(task)
    assert folds.shape == (2, 6, 15)
    assert not folds[0, :, 6:].any()
    assert (folds[0, :, :6].sum(0) == 3).all()  # two folds, three times
    assert (folds[1, :5].sum(0) == 1).all()
    assert not folds[1, 5].any()  # a part that only the first run needs


# What labels weigh while some are held out


def test_class_weights_are_kept(graph):
    task = task_of(graph, [0, 0, 0, 1, MISSING])
    folds = torch.tensor([[[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0]]]).bool()
    expected = [
        [0, 3 / 8, 3 / 8, 1 / 4, 0],
        [0, 0, 3 / 4, 1 / 4, 0],
        [1 / 3, 1 / 3, 1 / 3, 0, 0],  # no label of the second class is left
        [1 / 4, 1 / 4, 1 / 4, 1 / 4, 0],
        [1 / 4, 1 / 4, 1 / 4, 1 / 4, 0],
    ]
    np.testing.assert_allclose(label_weights(task, folds)[0], expected, rtol=1e-6)


def test_stacked_fits_equal_single_fits(graph, monkeypatch):
    rows = {name: with_ones(noise_of(graph, width)) for name, width in (("a", 3), ("b", 9), ("c", 5))}
    task = drawn_task(graph, 4)
    folds = folds_of(task)
    together = trials_of(rows, task, folds)
    monkeypatch.setattr(module, "NUMBERS_PER_STACK", 1)
    for name, alone in trials_of(rows, task, folds).items():
        torch.testing.assert_close(together[name].logits, alone.logits, rtol=1e-3, atol=1e-3)
        nearest = torch.zeros(2, dtype=torch.int64)
        torch.testing.assert_close(together[name].weight(nearest), alone.weight(nearest), rtol=1e-3, atol=1e-2)


def test_large_penalties_survive_folds(graph):
    # Classes lie close together, and means tell them all apart; with a large penalty their weights would decide.
    rows = torch.from_numpy(np.c_[0.1 * np.eye(CLASSES)[graph.labels], np.ones(graph.num_nodes)]).float()
    task = drawn_task(graph, 7)
    folds = folds_of(task)
    trial = trials_of({"a": rows}, task, folds)["a"]
    for number in range(len(DEFAULT.penalties)):
        found = held_out_accuracy(trial.logits[:, :, number].softmax(-1), task.labelled.classes, folds)
        assert found.tolist() == [1, 1]


# Many labels


def test_many_labels_are_tuned_as_few(graph):
    rows = {"informative": informative_rows(graph, noise=0.5), "noise": with_ones(noise_of(graph, 20))}
    task = drawn_task(graph, 20)
    folds = folds_of(task)
    expected = module.cross_validate(rows, task.labelled, CLASSES, folds, dict.fromkeys(rows, 1.0), DEFAULT)
    found = module.cross_validate(
        rows, task.labelled, CLASSES, folds, dict.fromkeys(rows, 1.0), DEFAULT, fitted_to=task.labelled
    )
    for name, table in rows.items():
        one, other = found[name], expected[name]
        torch.testing.assert_close(one.penalty.log10(), other.penalty.log10(), rtol=0, atol=0.2)
        torch.testing.assert_close(one.accuracy, other.accuracy, rtol=0, atol=0.02)
        answers = [(table @ peer.weight / peer.temperature[:, None, None]).softmax(-1) for peer in (one, other)]
        assert (answers[0] - answers[1]).abs().mean() < 0.02


def test_tuning_sample(graph):
    many = np.concatenate([np.flatnonzero(graph.labels == 0), np.flatnonzero(graph.labels == 1)[:5], [2, 5]])
    task = observe(graph, [Split(many, [], []), Split(many[::-1], [], []), Split([0, 1, 2], [], [])], seed=0)
    keys = node_keys(graph, task.device)
    settings = replace(DEFAULT, tuning_labels=20)
    seeds = (7, 7, 7)
    assert module.tuning_sample(task.labelled, keys, CLASSES, seeds, settings) is task.labelled  # few
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mtgcn.linalg.softmax_regression.STACK_SIZE", 32)
        assert module.tuning_sample(task.labelled, keys, CLASSES, seeds, DEFAULT) is task.labelled  # not that many
        found = module.tuning_sample(task.labelled, keys, CLASSES, seeds, settings)
    assert found.present.sum(1).tolist() == [20, 20, 3]
    assert set(found.index[0].tolist()) == set(found.index[1].tolist()) < set(many.tolist())
    assert np.array_equal(found.classes[0], graph.labels[found.index[0]])
    assert (np.bincount(found.classes[0], minlength=3) >= 2).all()


# Penalties


def small_differences(graph):
    """Classes differ little, and nodes of the same class much in other columns: only a fit with a small penalty sees
    what matters."""
    informative = 0.1 * np.eye(CLASSES)[graph.labels]
    return with_ones(np.concatenate([informative, noise_of(graph, 3)], axis=1))


def many_coincidences(graph):
    """Few informative columns among much noise: a fit with a small penalty overfits."""
    return informative_rows(graph, noise=0.3, columns=24)


@pytest.fixture
def misled(graph):
    """A quarter of the labels are wrong."""
    task = drawn_task(graph, 20, runs=3)
    wrong = torch.rand(task.labelled.index.shape, generator=torch.Generator().manual_seed(0)) < 0.25
    classes = torch.where(wrong, (task.labelled.classes + 1) % CLASSES, task.labelled.classes)
    return replace(task, labelled=replace(task.labelled, classes=classes))


def peers_of(rows, task, prior=None, **settings):
    changed = replace(DEFAULT, **settings)
    folds = folds_of(task, changed)
    return module.cross_validate(rows, task.labelled, CLASSES, folds, prior or dict.fromkeys(rows, 1.0), changed)


def test_penalty_suits_the_view(graph, misled):
    easy = drawn_task(graph, 20, runs=3)
    weak = peers_of({"it": small_differences(graph)}, easy, penalty_pooling=0.0)["it"].penalty
    strong = peers_of({"it": many_coincidences(graph)}, misled, penalty_pooling=0.0)["it"].penalty
    assert (weak < 1e-4).all()
    assert (strong > 1e-3).all()
    assert weak.min() >= DEFAULT.penalties[0] * 0.9999
    assert strong.max() <= DEFAULT.penalties[-1] * 1.0001


@pytest.mark.slow
def test_penalties_are_pooled_by_prior(graph, misled):
    small, many = small_differences(graph), many_coincidences(graph)

    def penalty_beside(other, prior=1.0, **settings):
        return peers_of({"it": many, "other": other}, misled, {"it": 1.0, "other": prior}, **settings)["it"].penalty

    assert (penalty_beside(many) > 10 * penalty_beside(small)).all()
    assert (penalty_beside(small, prior=0.01) > 2 * penalty_beside(small)).all()
    apart = {"penalty_pooling": 0.0}
    torch.testing.assert_close(penalty_beside(many, **apart), penalty_beside(small, **apart), rtol=0, atol=0)


def test_a_peer_is_fitted_to_all_labels(graph):
    task = drawn_task(graph, [4, 2, 1])
    rows = informative_rows(graph, noise=0.5)
    found = peers_of({"it": rows}, task, penalties=(1e-2,))["it"]
    torch.testing.assert_close(found.penalty, torch.tensor([1e-2, 1e-2]))
    for run in range(2):
        mine, classes = rows[task.labelled.index[run]], task.labelled.classes[run]
        error = (mine @ found.weight[run]).softmax(-1) - functional.one_hot(classes, CLASSES)
        gradient = mine.T @ error / len(mine) + 2e-2 * found.weight[run]
        assert gradient.abs().max() < 1e-4


def test_padding_does_not_change_a_run(graph):
    few, many = (split.train for split in draw_splits(graph, 4, 2, 0))
    task = observe(graph, [Split(many, [], []), Split(few[:9], [], [])], seed=0)
    alone = replace(
        task, labelled=Nodes(task.labelled.index[1:, :9], task.labelled.classes[1:, :9]), seeds=task.seeds[1:]
    )
    rows = {"one": informative_rows(graph, noise=0.5), "other": with_ones(noise_of(graph))}
    prior = {"one": 1.0, "other": 2.0}
    both, single = peers_of(rows, task, prior), peers_of(rows, alone, prior)
    for name in rows:
        for part in ("weight", "penalty", "temperature", "accuracy"):
            ours, theirs = getattr(both[name], part)[1:], getattr(single[name], part)
            torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-3)
    weights = weights_of(both, prior, task, folds_of(task))[1:]
    torch.testing.assert_close(weights, weights_of(single, prior, alone, folds_of(alone)), rtol=1e-2, atol=1e-3)


def test_one_label_per_class_leaves_the_priors(graph):
    task = drawn_task(graph, 1)
    folds = folds_of(task)
    assert not folds.any()
    peers = peers_of({"one": informative_rows(graph), "other": with_ones(noise_of(graph))}, task)
    for one in peers.values():
        assert one.accuracy.isnan().all()
        torch.testing.assert_close(one.penalty, torch.full((2,), 10**-3.5))  # geometric mean of all penalties
        logit_std = one.held_out.log().var(-1, correction=0).mean((1, 2)).sqrt()
        np.testing.assert_allclose(logit_std, DEFAULT.logit_std, rtol=1e-4)
    prior = {"one": 3.0, "other": 1.0}
    weights = weights_of(peers, prior, task, folds)
    torch.testing.assert_close(weights, torch.tensor([[0.75, 0.25]] * 2))
    strength = module.teaching_strength(peers, weights, task.labelled, CLASSES, folds, DEFAULT)
    effective_peers = 1 / (0.75**2 + 0.25**2)
    torch.testing.assert_close(strength, torch.full((2,), effective_peers - 1).clamp(max=1))


# Temperatures


@pytest.mark.parametrize("noise", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("per_class", [2, 5, 20])
def test_temperature_formula(graph, per_class, noise):
    task = drawn_task(graph, per_class, runs=4)
    folds = folds_of(task)
    found = peers_of({"it": informative_rows(graph, noise)}, task, penalties=(1e-3,))["it"]
    for run in range(4):
        times, labels = np.nonzero(folds[run].numpy())
        logits = found.held_out[run].log().double().numpy()[times, labels] * found.temperature[run].item()
        classes = task.labelled.classes[run].numpy()[labels]
        expected = np.sqrt(logits.var(1).mean()) / 2

        def worth(factor, logits=logits, classes=classes, expected=expected):
            found = log_softmax(logits / (factor * expected), axis=1)[np.arange(len(logits)), classes]
            return 3 * per_class * found.mean() - 4 * np.log(factor) ** 2

        best = max((2.0**power for power in range(-9, 6)), key=worth)
        assert found.temperature[run].item() == pytest.approx(best * expected, rel=1e-3)


# Accuracy, skill and weights


def test_held_out_accuracy():
    found = torch.tensor([[0, 1, 1, 2], [0, 0, 2, 2]])  # by part and label
    folds = torch.tensor([[[1, 1, 0, 0], [0, 0, 1, 1]], [[1, 0, 0, 0], [0, 1, 1, 0]], [[0] * 4] * 2]).bool()
    held_out = functional.one_hot(found, 3).float().repeat(3, 1, 1, 1)
    classes = torch.tensor([[0, 2, 2, 2], [1, 0, 2, 0], [0, 0, 0, 0]])
    np.testing.assert_allclose(held_out_accuracy(held_out, classes, folds), [3 / 4, 2 / 3, np.nan])


def test_skill():
    accuracy = torch.tensor([0.0, 0.25, 0.625, 1.0])
    np.testing.assert_allclose(skill(accuracy, 4), [0, 0, 0.5, 1])


def peer_that_gives(right, task, folds):
    """A peer that gives held-out labels these probabilities; the other classes share the rest."""
    right = torch.tensor(right).float()
    of_right = functional.one_hot(task.labelled.classes, CLASSES).float()
    held_out = of_right * right[..., None] + (1 - of_right) * (1 - right[..., None]) / (CLASSES - 1)
    nothing = torch.ones(task.runs)
    held_out = held_out[:, None].expand(-1, folds.shape[1], -1, -1)
    return Peer(torch.zeros(task.runs, 2, CLASSES), nothing, nothing, held_out, nothing)


def test_weights_by_hand(graph):
    # Where only one of two peers thinks a label possible, it owes all of it to that one; the prior is worth two labels.
    task = task_of(graph, [0, 1, 2, 0])
    folds = torch.tensor([[[1, 0, 1, 0], [0, 1, 0, 1]]]).bool()
    right = {"a": [[1, 0.5, 1, 0]], "b": [[0, 0, 0, 0.1]]}
    peers = {name: peer_that_gives(values, task, folds) for name, values in right.items()}
    for prior, share in [({"a": 1, "b": 1}, 1 / 2), ({"a": 1, "b": 3}, 1 / 4), ({"a": 20, "b": 5}, 4 / 5)]:
        expected = (3 + 2 * share) / (4 + 2)
        np.testing.assert_allclose(weights_of(peers, prior, task, folds), [[expected, 1 - expected]], rtol=1e-5)


def test_weights_maximise_the_posterior(graph):
    task = task_of(graph, [0, 1, 2, 0, 1, 2])
    folds = torch.eye(6)[None].bool()
    right = np.random.default_rng(0).uniform(0.05, 0.95, (2, 6))
    peers = {name: peer_that_gives(values[None], task, folds) for name, values in zip("ab", right, strict=True)}
    prior = {"a": 1, "b": 2}
    first = np.linspace(1e-4, 1 - 1e-4, 100_000)
    likelihood = np.log(first[:, None] * right[0] + (1 - first[:, None]) * right[1]).sum(1)
    log_prior = 2 * (np.log(first) / 3 + 2 * np.log(1 - first) / 3)
    best = first[(likelihood + log_prior).argmax()]
    np.testing.assert_allclose(weights_of(peers, prior, task, folds), [[best, 1 - best]], atol=1e-3)


def test_repeated_folds_count_once(graph):
    task = task_of(graph, [0, 1, 2, MISSING])
    once = torch.eye(4)[None, :3].bool()
    thrice = once.repeat(1, 3, 1)
    right = {"a": [[0.9, 0.2, 0.6, 0]], "b": [[0.3, 0.5, 0.2, 1]]}
    found = [
        weights_of({name: peer_that_gives(values, task, folds) for name, values in right.items()}, PRIOR, task, folds)
        for folds in (once, thrice)
    ]
    torch.testing.assert_close(*found)


def test_impossible_labels_leave_the_prior(graph):
    task = task_of(graph, [0, 1])
    folds = torch.eye(2)[None].bool()
    peers = {name: peer_that_gives([[0, 0]], task, folds) for name in "ab"}
    np.testing.assert_allclose(weights_of(peers, PRIOR, task, folds), [[0.25, 0.75]], rtol=1e-6)


def test_informative_peer_outweighs_noise(graph):
    task = drawn_task(graph, 8, runs=3)
    folds = folds_of(task)
    rows = {"noise": with_ones(noise_of(graph, 20)), "informative": informative_rows(graph, 0.2)}
    prior = {"noise": 2.0, "informative": 1.0}
    weights = weights_of(module.cross_validate(rows, task.labelled, CLASSES, folds, prior, DEFAULT), prior, task, folds)
    assert weights.shape == (3, 2)
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-6)
    assert (weights[:, 1] > 0.8).all()
