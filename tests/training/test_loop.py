from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from mtgcn.errors import InputError
from mtgcn.methods import create, fit_in_chunks
from mtgcn.nn.base import NetworkSettings
from mtgcn.nn.networks import GCN
from mtgcn.splits import draw_splits
from mtgcn.task import MISSING, observe
from mtgcn.training.loop import Adam, Optimiser, Phase, PseudoLabelRecord, Step, recording, train
from mtgcn.training.progress import progress_callbacks


def two_parameters():
    """One that decays and one that does not."""
    both = [torch.linspace(-1, 1, 6).view(2, 3).requires_grad_() for _ in range(2)]
    return SimpleNamespace(parameters=lambda: both, decayed_parameters=lambda: both[:1])


# Gradients of 1e-8 are as small as Adam's epsilon.
@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-8])
@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
def test_adam_matches_torch(size, weight_decay):
    ours, (decays, stays) = two_parameters(), two_parameters().parameters()
    groups = [{"params": [decays], "weight_decay": weight_decay}, {"params": [stays]}]
    reference = torch.optim.Adam(groups, lr=0.1)
    optimisation = Optimiser(Adam(0.1, weight_decay), ours)
    for step in range(5):
        gradient = size * torch.randn(2, 3, generator=torch.Generator().manual_seed(step))
        for parameter in (*ours.parameters(), decays, stays):
            parameter.grad = gradient.clone()
        optimisation.step()
        reference.step()
    for found, expected in zip(ours.parameters(), (decays, stays), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    optimisation.zero_grad()
    assert all(parameter.grad is None for parameter in ours.parameters())


@pytest.fixture
def task(make_graph):
    graph = make_graph(nodes=48, weighted=True)
    return observe(graph, draw_splits(graph, 2, runs=3, seed=0, validation=6), seed=0, with_validation=True)


def test_callbacks_of_a_phase(task):
    network, calls, seen = GCN(task, 1, NetworkSettings()), [], []

    def phase(name, epochs):
        def step():
            calls.append(f"{name} step")
            seen.append(network.logits())
            return Step({"nothing": 0 * seen[-1].sum((0, 1))})

        return Phase(epochs, step, lambda: calls.append(f"{name} after"), lambda: calls.append(f"{name} before"))

    train(network, [phase("1", 2), phase("2", 1)], Adam(learning_rate=0.01))
    assert calls == ["1 before", "1 step", "1 after", "1 step", "1 after", "2 before", "2 step", "2 after"]
    assert not any(torch.equal(*pair) for pair in pairwise(seen))  # every epoch has another dropout


def test_chunks_fit_the_memory_budget(task, monkeypatch):
    method, sizes = create("gcn", epochs=2), []
    fit = type(method).fit
    monkeypatch.setattr(type(method), "fit", lambda self, part: sizes.append(part.runs) or fit(self, part))
    for budget in (2 * method.bytes_per_run(task), 1, None):
        found = fit_in_chunks(method, task, memory_budget=budget)
        np.testing.assert_allclose(found.probabilities, method.fit(task).probabilities, atol=2e-5)
    assert sizes == [2, 1, 3, 1, 1, 1, 3, 3, 3]


# Progress


def test_rounds_of_mt_plus_are_reported(two_runs):
    rounds = []
    with progress_callbacks(lambda *counts: rounds.append(counts)):
        history = create("mt-plus", infomax_epochs=0, rounds=3).fit(two_runs).history
    assert rounds[-3:] == [(1, 3), (2, 3), (3, 3)]
    assert len(history["pseudo labels"]) == 3


def test_progress_of_epochs_is_reported_within_the_context(two_runs):
    calls, method = [], create("gcn", epochs=23)
    with progress_callbacks(lambda *counts: calls.append(counts)):
        method.fit(two_runs)
    method.fit(two_runs)
    assert calls == [(10, 23), (20, 23), (23, 23)]


# Records


def marks(*pairs):
    result = torch.zeros(40, 2, dtype=torch.bool)
    for node, run in pairs:
        result[node, run] = True
    return result


def test_first_epochs(two_runs):
    record = PseudoLabelRecord(two_runs, epochs_before=5)
    record.next_epoch(marks((3, 0), (4, 1)))
    record.next_epoch(marks((3, 0), (3, 1)))
    record.next_epoch(marks((7, 0)))
    record.add(marks((7, 0), (2, 1)), epoch=17)
    expected = np.zeros((2, 40), dtype=np.int32)
    expected[0, [3, 7]], expected[1, [2, 3, 4]] = (6, 8), (17, 7, 6)
    np.testing.assert_array_equal(record.first_epochs(), expected, strict=True)


TEACHING = {"warmup_epochs": 6, "teaching_epochs": 8, "per_class": 4, "learning_rate": 0.05}


def recorded(task, every, **settings):
    with recording(every) as record:
        prediction = create("mt-gcn", **{**TEACHING, **settings}).fit(task)
    return record, prediction


def test_recording_changes_no_result(task):
    _, recorded_fit = recorded(task, 2)
    alone = create("mt-gcn", **TEACHING).fit(task)
    assert np.array_equal(recorded_fit.probabilities, alone.probabilities)
    for name, values in alone.history.items():
        assert np.array_equal(values, recorded_fit.history[name], equal_nan=True)


@pytest.mark.parametrize(("every", "epochs"), [(5, (5, 10, 14)), (7, (7, 14)), (100, (14,))])
def test_snapshot_epochs(task, every, epochs):
    record, prediction = recorded(task, every)
    assert record.epochs == epochs
    assert record.predicted.shape == (3, len(epochs), 48)
    assert np.array_equal(record.predicted[:, -1], prediction.probabilities.argmax(-1))


@pytest.mark.parametrize("output", ["mean", "first"])
def test_snapshots_match_shorter_trainings(task, output):
    record, _ = recorded(task, 3, output=output)
    for number, epoch in enumerate(record.epochs):
        shorter = {"warmup_epochs": min(epoch, 6), "teaching_epochs": max(epoch - 6, 0), "output": output}
        found = create("mt-gcn", **{**TEACHING, **shorter}).fit(task).probabilities.argmax(-1)
        assert np.array_equal(record.predicted[:, number], found)


def test_chosen_nodes_match_the_pseudo_labels(task):
    record, prediction = recorded(task, 1)
    assert record.chosen.shape == (3, 14, 2, 3, 4)
    assert (record.chosen[:, :6] == MISSING).all()  # no teaching in the warm-up
    for run in range(3):
        first = np.zeros(48, dtype=int)
        for epoch in range(14, 0, -1):
            nodes = record.chosen[run, epoch - 1]
            first[nodes[nodes != MISSING]] = epoch
        assert np.array_equal(first, prediction.pseudo_labelled_at[run])
    counts = (record.chosen[:, 6:] != MISSING).sum((3, 4))  # runs, epochs, peers: of the teacher
    learned = prediction.history["pseudo labels"][6:]  # epochs, runs, peers: of the learner
    assert np.array_equal(np.roll(counts, -1, axis=2), learned.transpose(1, 0, 2))


def test_records_of_other_fits(task):
    whole, _ = recorded(task, 5)
    record, _ = recorded(task, 5, teaching_epochs=0)
    assert record.chosen.shape == (3, 2, 2, 3, 0)
    record, _ = recorded(task, 5, checkpoint="best-training")
    assert np.array_equal(record.predicted, whole.predicted)
    with recording(5) as record:
        fit_in_chunks(create("mt-gcn", **TEACHING), task, memory_budget=1)
    assert np.array_equal(record.predicted, whole.predicted)
    assert np.array_equal(record.chosen, whole.chosen)
    with recording(5) as record:
        pass
    create("mt-gcn", **TEACHING).fit(task)  # after the block
    assert record.epochs == ()
    with pytest.raises(InputError, match="every is 0; give at least 1"), recording(0):
        pass
