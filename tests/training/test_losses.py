import math

import numpy as np
import pytest
import torch

from mtgcn.task import Nodes
from mtgcn.training.losses import consistency_loss, pseudo_label_loss, supervised_loss
from mtgcn.training.pseudo_labels import PseudoLabels

RUNS, PEERS, CLASSES, SLOTS = 3, 2, 4, 8
LABELLED = Nodes.of([np.array([5, 2, 7]), np.array([1]), np.array([0, 3])], np.array([0, 3, 2, 1, 0, 1, 2, 3]))


def log_probabilities(rows, seed):
    random = torch.from_numpy(np.random.default_rng(seed).normal(size=(rows, CLASSES, RUNS, PEERS)))
    return (2 * random).float().log_softmax(1)


@pytest.fixture
def chosen():
    """Two slots per class. The first run has all filled, the last none."""
    filled = torch.from_numpy(np.random.default_rng(0).random((SLOTS, RUNS, PEERS)) < 0.6)
    filled[:, 0], filled[:, 2] = True, False
    assert 0 < filled[:, 1].sum() < 2 * SLOTS
    return PseudoLabels(torch.zeros(SLOTS, RUNS, PEERS, dtype=torch.int64), filled, per_class=2)


def test_losses_of_one_model_by_hand():
    labelled = Nodes(torch.tensor([[0, 1]]), torch.tensor([[0, 1]]))
    learner = torch.tensor([[0.5, 0.5], [0.75, 0.25]]).log()[..., None, None]
    assert supervised_loss(learner, labelled, "sum").item() == pytest.approx(math.log(2) + math.log(4))
    assert supervised_loss(learner, labelled, "mean").item() == pytest.approx(1.5 * math.log(2))

    chosen = PseudoLabels(torch.tensor([0, 1])[:, None, None], torch.ones(2, 1, 1, dtype=torch.bool), per_class=1)
    certainty = torch.tensor([1.0, 0.5])[:, None, None]
    assert pseudo_label_loss(learner, certainty, chosen).item() == pytest.approx((math.log(2) + math.log(4) / 2) / 2)
    teacher = torch.tensor([[0.8, 0.2], [0.5, 0.5]]).log()[..., None, None]
    divergences = [
        0.8 * math.log(0.8 / 0.5) + 0.2 * math.log(0.2 / 0.5),
        0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25),
    ]
    assert consistency_loss(learner, teacher, chosen, "sum").item() == pytest.approx(sum(divergences))
    assert consistency_loss(learner, teacher, chosen, "mean").item() == pytest.approx(sum(divergences) / 2)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_supervised_loss_of_every_model_where_runs_have_different_numbers_of_labels(reduction):
    given = log_probabilities(3, seed=1)
    found = supervised_loss(given, LABELLED, reduction)
    for run, classes in enumerate([[1, 2, 3], [3], [0, 1]]):
        for peer in range(PEERS):
            terms = [-given[row, number, run, peer].item() for row, number in enumerate(classes)]
            expected = sum(terms) / (len(terms) if reduction == "mean" else 1)
            assert found[run, peer].item() == pytest.approx(expected, rel=1e-5)


def test_the_mean_is_the_default_reduction(chosen):
    given = log_probabilities(3, seed=1)
    assert torch.equal(supervised_loss(given, LABELLED), supervised_loss(given, LABELLED, "mean"))
    learner, teacher = log_probabilities(SLOTS, 1), log_probabilities(SLOTS, 2)
    assert torch.equal(consistency_loss(learner, teacher, chosen), consistency_loss(learner, teacher, chosen, "mean"))


def test_pseudo_label_loss_of_every_model_with_unfilled_slots(chosen):
    learner, certainty = log_probabilities(SLOTS, seed=1), log_probabilities(SLOTS, seed=2).exp()[:, 0]
    found = pseudo_label_loss(learner, certainty, chosen)
    for run in range(RUNS):
        for peer in range(PEERS):
            terms = [
                -certainty[slot, run, peer].item() * learner[slot, slot // 2, run, peer].item()
                for slot in range(SLOTS)
                if chosen.filled[slot, run, peer]
            ]
            expected = sum(terms) / len(terms) if terms else 0.0
            assert found[run, peer].item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_consistency_loss_of_every_model_with_unfilled_slots(chosen, reduction):
    learner, teacher = log_probabilities(SLOTS, seed=1), log_probabilities(SLOTS, seed=2)
    found = consistency_loss(learner, teacher, chosen, reduction)
    for run in range(RUNS):
        for peer in range(PEERS):
            terms = []
            for slot in range(SLOTS):
                if chosen.filled[slot, run, peer]:
                    taught, learnt = teacher[slot, :, run, peer].tolist(), learner[slot, :, run, peer].tolist()
                    terms.append(sum(math.exp(p) * (p - q) for p, q in zip(taught, learnt, strict=True)))
            expected = sum(terms) / (len(terms) if reduction == "mean" else 1) if terms else 0.0
            assert found[run, peer].item() == pytest.approx(expected, rel=1e-4)


def test_a_teacher_that_is_all_but_certain_leaves_the_loss_and_its_gradient_finite(chosen):
    learner = log_probabilities(SLOTS, seed=1).requires_grad_()
    logits = torch.zeros(SLOTS, CLASSES, RUNS, PEERS)
    logits[:, 2] = 1e4  # far beyond what a probability can hold
    loss = consistency_loss(learner, logits.log_softmax(1), chosen)
    # Where the teacher has no doubt, only what the learner says of that class counts.
    expected = torch.where(chosen.filled, -learner[:, 2], 0).sum(0) / chosen.count.clamp(min=1)
    torch.testing.assert_close(loss, expected)
    loss.sum().backward()
    assert learner.grad.isfinite().all()


def test_slots_and_rows_of_nobody_get_no_gradient(chosen):
    for loss in (
        lambda learner: pseudo_label_loss(learner, torch.ones(SLOTS, RUNS, PEERS), chosen),
        lambda learner: consistency_loss(learner, log_probabilities(SLOTS, seed=2), chosen),
    ):
        learner = log_probabilities(SLOTS, seed=1).requires_grad_()
        loss(learner).sum().backward()
        assert torch.equal(learner.grad.ne(0).any(1), chosen.filled)
    rows = log_probabilities(3, seed=1).requires_grad_()
    supervised_loss(rows, LABELLED).sum().backward()
    assert torch.equal(rows.grad.ne(0).any(1), LABELLED.present.T[..., None].expand(-1, -1, PEERS))
