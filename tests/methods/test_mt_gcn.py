import importlib.util
import math
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import nll_loss

from dense_networks import model_parameters
from mtgcn.datasets import load
from mtgcn.errors import InputError
from mtgcn.methods import create
from mtgcn.methods.mt_gcn import teaching_loss
from mtgcn.nn.networks import GCN
from mtgcn.splits import draw_splits
from mtgcn.task import observe

DOCS = Path(__file__).parents[2] / "docs"

# Features and steps large enough for the peers to be sure of something within a few epochs.
QUICK = {"warmup_epochs": 8, "teaching_epochs": 8, "per_class": 4, "learning_rate": 0.05, "dropout": 0.0}

OPTIONS = [
    *({"supervised_reduction": "sum"}, {"consistency_reduction": "sum"}, {"certainty_of": "learner"}, {"peers": 3}),
    *({"teacher_gradient": True}, {"one_more_per_class": True}),
    *({"pseudo_labels": False}, {"consistency": False}, {"mutual": False}),
]


@pytest.fixture
def module():
    """The explanation in docs/."""
    spec = importlib.util.spec_from_file_location("mt_gcn_in_60_lines", DOCS / "mt_gcn_in_60_lines.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def in_60_lines(module, monkeypatch):
    """The explanation, which has no options: `losses` is replaced, and what it gets is recorded."""
    plain = module.losses

    def fit(graph, nodes, classes, thetas, settings):
        """Probabilities of each peer; then name -> epochs x peers; then node -> epoch of its first pseudo label."""
        history, first, peers = defaultdict(list), {}, len(thetas)

        def supervised(log_p, target):
            loss = nll_loss(log_p, target, reduction=settings.supervised_reduction)
            history["supervised"].append(loss.item())
            return loss

        def losses(learner, teacher, chosen, pseudo, labelled, target):
            epoch = settings.warmup_epochs + len(history["agreement"]) // peers + 1
            for node in chosen.tolist():
                first[node] = min(first.get(node, epoch), epoch)
            found = plain(learner, teacher, chosen, pseudo, labelled, target)
            found = (found[0], *with_options(learner, teacher, chosen, pseudo, settings, *found[1:]))
            history["pseudo-label"].append(found[1].item())
            history["consistency"].append(found[2].item())
            history["pseudo labels"].append(len(chosen))
            history["agreement"].append((learner[chosen].argmax(1) == pseudo).double().mean().item())
            return found

        monkeypatch.setattr(module, "nll_loss", supervised)
        monkeypatch.setattr(module, "losses", losses)
        matrices = [torch.from_numpy(one.toarray().astype(np.float64)) for one in (graph.adjacency, graph.features)]
        per_class = settings.per_class + settings.one_more_per_class
        epochs = {"warmup": settings.warmup_epochs, "teaching": settings.teaching_epochs}
        steps = {"rate": 0, "lr": settings.learning_rate, "weight_decay": settings.weight_decay}
        probabilities = module.mt_gcn(*matrices, nodes, classes, thetas, per_class, **epochs, **steps)
        return probabilities, {name: np.reshape(values, (-1, peers)) for name, values in history.items()}, first

    return fit


def with_options(learner, teacher, chosen, pseudo, settings, pseudo_label, consistency):
    """L_pl and L_cl with the options of the paper's open questions, from those without."""
    learner, teacher = learner[chosen], teacher[chosen]
    if settings.certainty_of == "learner":
        certainty = 1 + (learner.exp() * learner).sum(1).detach() / math.log(learner.shape[1])
        pseudo_label = -(certainty * learner.gather(1, pseudo[:, None])[:, 0]).mean()
    if settings.teacher_gradient:
        consistency = (teacher.exp() * (teacher - learner)).sum(1).mean()
    if settings.consistency_reduction == "sum":
        consistency = consistency * len(chosen)
    return pseudo_label * settings.pseudo_labels, consistency * settings.consistency


@pytest.fixture
def graph(make_graph):
    return make_graph(nodes=40, features=12, weighted=True)


@pytest.fixture
def task(graph):
    few, many = draw_splits(graph, 1, 1, seed=0)[0], draw_splits(graph, [3, 2, 1], 2, seed=1)[1]
    return observe(graph, [few, many], seed=0)


@pytest.mark.parametrize("option", [{}, *OPTIONS], ids=str)
def test_it_equals_plain_pytorch(graph, task, in_60_lines, option):
    method = create("mt-gcn", **{**QUICK, **option})
    found = method.fit(task)
    usual = create("mt-gcn", **QUICK).fit(task)
    assert not option or np.abs(found.probabilities - usual.probabilities).max() > 1e-3  # ten times rounding below
    initial = GCN(task, method.peers, method)
    for run in range(task.runs):
        present = task.labelled.present[run]
        nodes, classes = task.labelled.index[run][present], task.labelled.classes[run][present]
        thetas = [[*model_parameters(initial, run, peer).values()] for peer in range(method.peers)]
        # A single peer is its own teacher.
        groups = [thetas] if method.mutual else [[theta] for theta in thetas]
        fits = [in_60_lines(graph, nodes, classes, group, method) for group in groups]
        peers = [one for probabilities, _, _ in fits for one in probabilities]
        np.testing.assert_allclose(found.peers[run], np.stack(peers), atol=1e-4)
        np.testing.assert_allclose(found.probabilities[run], np.mean(found.peers[run], axis=0), atol=1e-6)
        assert ("pseudo-label" in found.history, "consistency" in found.history) == (
            method.pseudo_labels,
            method.consistency,
        )
        for name, values in found.history.items():
            expected = np.concatenate([history[name] for _, history, _ in fits], axis=1)
            np.testing.assert_allclose(values[-len(expected) :, run], expected, atol=1e-4, rtol=1e-3)
            assert np.isnan(values[: -len(expected)]).all()
        first = [min(firsts.get(node, 99) for _, _, firsts in fits) for node in range(graph.num_nodes)]
        assert found.pseudo_labelled_at[run].tolist() == [0 if epoch == 99 else epoch for epoch in first]


@pytest.mark.parametrize("option", [{}, {"consistency": False}, {"one_more_per_class": True}], ids=str)
def test_teaching_loss_equals_plain_pytorch(module, option):
    logits = list(3 * torch.randn(3, 30, 4, generator=torch.Generator().manual_seed(0)))
    for one in logits:
        one.requires_grad_()
    y = torch.full((30,), -1)
    y[:8] = torch.arange(8) % 4
    found = teaching_loss(logits, y, per_class=3, **option)
    log_p = [one.log_softmax(1) for one in logits]
    t = 3 + option.get("one_more_per_class", False)
    chosen = [module.algorithm_1(one, set(range(8, 30)), t) for one in log_p]
    expected = [
        module.losses(log_p[peer], log_p[(peer + 1) % 3], *chosen[(peer + 1) % 3], torch.arange(8), y[:8])
        for peer in range(3)
    ]
    expected = torch.stack([sum(one[: 3 - ("consistency" in option)]) for one in expected])
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(one.sum(), logits) for one in (found, expected)]
    torch.testing.assert_close(*gradients)


def test_teaching_loss_refuses_other_shapes():
    two = [torch.zeros(5, 3)] * 2
    for logits, y in ((two[:1], torch.zeros(5)), (two, torch.zeros(4)), ([two[0], torch.zeros(5, 2)], torch.zeros(5))):
        with pytest.raises(InputError, match="give two or more tensors"):
            teaching_loss(logits, y.long(), per_class=1)


def test_output_is_mean_or_first_peer(task):
    mean, first = (create("mt-gcn", **QUICK, output=answer).fit(task) for answer in ("mean", "first"))
    np.testing.assert_allclose(mean.probabilities, mean.peers.mean(axis=1), atol=1e-6)
    assert np.array_equal(first.probabilities, first.peers[:, 0])
    combined = create("mt-gcn", **QUICK, output="first").combined(mean.peers)
    np.testing.assert_array_equal(combined, first.probabilities)
    assert np.array_equal(first.peers, mean.peers)
    assert not np.array_equal(first.probabilities, mean.probabilities)


def test_checkpoint_best_training(task):
    # Without dropout, an epoch's pass over the labels is what the peers believed when the epoch before it was over.
    settings = {**QUICK, "learning_rate": 0.5}  # so wild that the last epoch is not always among the best
    epochs = range(QUICK["warmup_epochs"] + QUICK["teaching_epochs"] + 1)
    probabilities = [
        create("mt-gcn", **{**settings, "warmup_epochs": min(epoch, 8), "teaching_epochs": max(epoch - 8, 0)})
        .fit(task)
        .peers
        for epoch in epochs
    ]
    found = create("mt-gcn", **settings, checkpoint="best-training").fit(task)
    read_at = set()
    for run in range(task.runs):
        present = task.labelled.present[run]
        nodes, classes = task.labelled.index[run][present].numpy(), task.labelled.classes[run][present].numpy()
        for peer in range(2):
            right = [int((moment[run, peer, nodes].argmax(1) == classes).sum()) for moment in probabilities]
            last_best = max(epoch for epoch in epochs[1:] if right[epoch - 1] == max(right[:epoch]))
            read_at.add(last_best)
            np.testing.assert_allclose(found.peers[run, peer], probabilities[last_best][run, peer], atol=1e-4)
    assert read_at != {epochs[-1]}
    np.testing.assert_allclose(found.probabilities, found.peers.mean(axis=1), atol=1e-6)


def test_checkpoint_does_not_change_training(task):
    settings = {**QUICK, "dropout": 0.5}
    last, best = (create("mt-gcn", **settings, checkpoint=reading).fit(task) for reading in ("last", "best-training"))
    for name, values in last.history.items():
        assert np.array_equal(values, best.history[name], equal_nan=True)


def test_selection_without_dropout(task, algorithm_1):
    settings = {**QUICK, "dropout": 0.5, "teaching_epochs": 1}
    before = create("mt-gcn", **{**settings, "teaching_epochs": 0}).fit(task)
    expected = []  # for each run, the nodes that any peer is surest of
    for run, peers in enumerate(before.peers):
        unlabelled = set(range(task.num_nodes)) - set(task.labelled.index[run].tolist())
        chosen = [algorithm_1(p.max(1), p.argmax(1), unlabelled, task.num_classes, 4) for p in peers]
        expected.append({node for one in chosen for row in one for node in row})
    for choose_with_dropout in (False, True):
        found = create("mt-gcn", **settings, choose_with_dropout=choose_with_dropout).fit(task).pseudo_labelled_at
        assert set(np.unique(found)) == {0, 9}  # never, or in the first epoch after eight of warm-up
        assert ([set(np.flatnonzero(row)) for row in found] == expected) != choose_with_dropout


def test_selection_without_dropout_trains_with_dropout(task):
    settings = {**QUICK, "teaching_epochs": 1, "choose_with_dropout": False}
    with_dropout = create("mt-gcn", **{**settings, "dropout": 0.5}).fit(task)
    before = create("mt-gcn", **{**settings, "dropout": 0.5, "warmup_epochs": 9, "teaching_epochs": 0}).fit(task)
    # In one epoch, with the same masks, the supervised loss is the same whether the epoch teaches or not.
    np.testing.assert_allclose(with_dropout.history["supervised"], before.history["supervised"], rtol=1e-4)


def test_all_unlabelled_nodes_may_be_selected(task):
    pseudo_labelled_at = create("mt-gcn", **{**QUICK, "per_class": 1000}).fit(task).pseudo_labelled_at
    for run in range(task.runs):
        labelled = task.labelled.index[run][task.labelled.present[run]].tolist()
        assert np.flatnonzero(pseudo_labelled_at[run] == 0).tolist() == sorted(labelled)


def test_certain_teacher_has_a_finite_loss():
    learner = torch.randn(8, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    teacher = torch.zeros(8, 4)
    teacher[:, 2] = 1e4  # the other probabilities underflow
    y = torch.tensor([0, *[-1] * 7])
    loss = teaching_loss([learner, teacher], y, per_class=5, pseudo_labels=False)[0]
    log_p = learner.log_softmax(1)
    torch.testing.assert_close(loss, -log_p[0, 0] - log_p[1:6, 2].mean())
    loss.backward()
    assert learner.grad.isfinite().all()


@pytest.mark.long
@pytest.mark.data
def test_accuracy_on_cora():
    graph = load("cora")
    splits = draw_splits(graph, 2, runs=10, seed=0)
    probabilities = create("mt-gcn").fit(observe(graph, splits, seed=0)).probabilities
    accuracy = [
        100 * np.mean(probabilities[run, split.test].argmax(1) == graph.labels[split.test])
        for run, split in enumerate(splits)
    ]
    # 64.3 is itself a mean, of 100 splits, with a standard error of 0.5.
    standard_error = np.hypot(np.std(accuracy, ddof=1) / np.sqrt(10), 0.5)
    assert abs(np.mean(accuracy) - 64.3) < 3 * standard_error
