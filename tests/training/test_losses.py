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


def reduced(terms, reduction):
    return sum(terms) / (max(1, len(terms)) if reduction == "mean" else 1)


def test_losses_by_hand():
    labelled = Nodes(torch.tensor([[0, 1]]), torch.tensor([[0, 1]]))
    learner = torch.tensor([[0.5, 0.5], [0.75, 0.25]]).log()[..., None, None]
    assert supervised_loss(learner, labelled, "sum").item() == pytest.approx(math.log(2) + math.log(4))
    assert supervised_loss(learner, labelled).item() == pytest.approx(1.5 * math.log(2))

    chosen = PseudoLabels(torch.tensor([0, 1])[:, None, None], torch.ones(2, 1, 1, dtype=torch.bool), per_class=1)
    certainty = torch.tensor([1.0, 0.5])[:, None, None]
    assert pseudo_label_loss(learner, certainty, chosen).item() == pytest.approx((math.log(2) + math.log(4) / 2) / 2)
    teacher = torch.tensor([[0.8, 0.2], [0.5, 0.5]]).log()[..., None, None]
    divergence = 0.8 * math.log(0.8 / 0.5) + 0.2 * math.log(0.2 / 0.5) + 0.5 * math.log(0.5 / 0.75 * 0.5 / 0.25)
    assert consistency_loss(learner, teacher, chosen, "sum").item() == pytest.approx(divergence)
    assert consistency_loss(learner, teacher, chosen).item() == pytest.approx(divergence / 2)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_losses_of_every_model(chosen, reduction):
    """Runs with different numbers of labels and unfilled slots."""
    rows = log_probabilities(3, seed=1)
    learner, teacher = log_probabilities(SLOTS, seed=1), log_probabilities(SLOTS, seed=2)
    certainty = teacher.exp()[:, 0]
    supervised = supervised_loss(rows, LABELLED, reduction)
    pseudo = pseudo_label_loss(learner, certainty, chosen)
    consistency = consistency_loss(learner, teacher, chosen, reduction)
    for run, peer in np.ndindex(RUNS, PEERS):
        model = (..., run, peer)
        terms = [-rows[model][row, number].item() for row, number in enumerate([[1, 2, 3], [3], [0, 1]][run])]
        assert supervised[model].item() == pytest.approx(reduced(terms, reduction), rel=1e-5)
        slots = chosen.filled[model].nonzero().flatten().tolist()
        terms = [-certainty[model][slot].item() * learner[model][slot, slot // 2].item() for slot in slots]
        assert pseudo[model].item() == pytest.approx(reduced(terms, "mean"), rel=1e-5)
        pairs = [(teacher[model][slot].double(), learner[model][slot].double()) for slot in slots]
        terms = [(p.exp() * (p - q)).sum().item() for p, q in pairs]
        assert consistency[model].item() == pytest.approx(reduced(terms, reduction), rel=1e-4)


def test_certain_teacher_has_a_finite_loss(chosen):
    learner = log_probabilities(SLOTS, seed=1).requires_grad_()
    logits = torch.zeros(SLOTS, CLASSES, RUNS, PEERS)
    logits[:, 2] = 1e4  # the other probabilities underflow
    loss = consistency_loss(learner, logits.log_softmax(1), chosen)
    expected = torch.where(chosen.filled, -learner[:, 2], 0).sum(0) / chosen.count.clamp(min=1)
    torch.testing.assert_close(loss, expected)
    loss.sum().backward()
    assert learner.grad.isfinite().all()


def test_empty_slots_and_padding_get_no_gradient(chosen):
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
