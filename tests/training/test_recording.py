import numpy as np
import pytest
import torch

from mtgcn.errors import InputError
from mtgcn.methods import create
from mtgcn.methods.base import fit_in_chunks
from mtgcn.splits import draw_splits
from mtgcn.task import MISSING, observe
from mtgcn.training.loop import PseudoLabelRecord, recording


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


SETTINGS = {"warmup_epochs": 6, "teaching_epochs": 8, "per_class": 4, "learning_rate": 0.05}


@pytest.fixture
def task(make_graph):
    graph = make_graph()
    return observe(graph, draw_splits(graph, 2, 3, seed=0), seed=0)


def recorded(task, every, **settings):
    with recording(every) as record:
        prediction = create("mt-gcn", **{**SETTINGS, **settings}).fit(task)
    return record, prediction


def test_recording_changes_no_result(task):
    _, recorded_fit = recorded(task, 2)
    alone = create("mt-gcn", **SETTINGS).fit(task)
    assert np.array_equal(recorded_fit.probabilities, alone.probabilities)
    for name, values in alone.history.items():
        assert np.array_equal(values, recorded_fit.history[name], equal_nan=True)


@pytest.mark.parametrize(("every", "epochs"), [(5, (5, 10, 14)), (7, (7, 14)), (100, (14,))])
def test_snapshot_epochs(task, every, epochs):
    record, prediction = recorded(task, every)
    assert record.epochs == epochs
    assert record.predicted.shape == (3, len(epochs), 40)
    assert np.array_equal(record.predicted[:, -1], prediction.probabilities.argmax(-1))


@pytest.mark.parametrize("output", ["mean", "first"])
def test_snapshots_match_shorter_trainings(task, output):
    record, _ = recorded(task, 3, output=output)
    for number, epoch in enumerate(record.epochs):
        shorter = {"warmup_epochs": min(epoch, 6), "teaching_epochs": max(epoch - 6, 0), "output": output}
        found = create("mt-gcn", **{**SETTINGS, **shorter}).fit(task).probabilities.argmax(-1)
        assert np.array_equal(record.predicted[:, number], found)


def test_chosen_nodes_match_the_pseudo_labels(task):
    record, prediction = recorded(task, 1)
    assert record.chosen.shape == (3, 14, 2, 3, 4)
    assert (record.chosen[:, :6] == MISSING).all()  # no teaching in the warm-up
    for run in range(3):
        first = np.zeros(40, dtype=int)
        for epoch in range(14, 0, -1):
            nodes = record.chosen[run, epoch - 1]
            first[nodes[nodes != MISSING]] = epoch
        assert np.array_equal(first, prediction.pseudo_labelled_at[run])
    counts = (record.chosen[:, 6:] != MISSING).sum((3, 4))  # runs, epochs, peers: of the teacher
    learned = prediction.history["pseudo labels"][6:]  # epochs, runs, peers: of the learner
    assert np.array_equal(np.roll(counts, -1, axis=2), learned.transpose(1, 0, 2))


def test_without_teaching_nothing_is_chosen(task):
    record, _ = recorded(task, 5, teaching_epochs=0)
    assert record.chosen.shape == (3, 2, 2, 3, 0)


def test_chunks_are_concatenated(task):
    whole, _ = recorded(task, 5)
    with recording(5) as record:
        fit_in_chunks(create("mt-gcn", **SETTINGS), task, memory_budget=1)
    assert np.array_equal(record.predicted, whole.predicted)
    assert np.array_equal(record.chosen, whole.chosen)


def test_recording_with_best_training(task):
    record, _ = recorded(task, 5, checkpoint="best-training")
    whole, _ = recorded(task, 5)
    assert np.array_equal(record.predicted, whole.predicted)


def test_recording_ends_with_the_block(task):
    with recording(5) as record:
        pass
    create("mt-gcn", **SETTINGS).fit(task)
    assert record.epochs == ()


def test_interval_is_checked():
    with pytest.raises(InputError, match="every is 0; give at least 1"), recording(0):
        pass
