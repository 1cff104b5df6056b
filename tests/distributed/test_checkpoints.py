"""Checkpoints: saving and loading on any numbers of ranks, and an interrupted training that continues."""

import numpy as np
import pytest
import torch

from mtgcn.distributed.fitting import FolderCheckpoints
from mtgcn.distributed.shards import read_local_graph, read_manifest
from mtgcn.errors import InputError
from mtgcn.methods import create
from mtgcn.nn.base import StackedParameters
from mtgcn.training.loop import Adam, Phase, Step, checkpointing, train
from thread_ranks import assert_equal_predictions, fit_on, on_ranks

FIT = {"seed": 3, "method": {"name": "mt-gcn"}}


def kept(files, folder, *, resume=False, fit=FIT, every=10):
    """A function of ranks: the graph of a rank, and its checkpoints."""

    def on(ranks):
        graph = read_local_graph(read_manifest(files / "shards"), ranks)
        return graph, FolderCheckpoints(folder, every, resume, fit, graph)

    return on


def save(files, folder, epoch=10, count=2):
    def work(ranks):
        graph, checkpoints = kept(files, folder)(ranks)
        checkpoints.save({"epoch": np.array([epoch]), "weight": np.arange(3.0)}, graph.numbers[None] * 10)

    on_ranks(count, work)


def load(files, folder, count=1, **options):
    return on_ranks(count, lambda ranks: kept(files, folder, resume=True, **options)(ranks)[1].load())


@pytest.mark.parametrize("count", [1, 2, 5])
def test_load_on_any_number_of_ranks(files, tmp_path, count, capsys):
    for epoch in (10, 20):
        save(files, tmp_path / "kept", epoch)

    def work(ranks):
        graph, checkpoints = kept(files, tmp_path / "kept", resume=True)(ranks)
        state, first_epochs = checkpoints.load()
        assert {name: values.tolist() for name, values in state.items()} == {"epoch": [20], "weight": [0, 1, 2]}
        np.testing.assert_array_equal(first_epochs, graph.numbers[None] * 10)

    on_ranks(count, work)
    assert capsys.readouterr().err.count("resuming after epoch 20") == 1


def test_load_without_resume_or_checkpoint(files, tmp_path, capsys):
    save(files, tmp_path / "kept")
    assert on_ranks(2, lambda ranks: kept(files, tmp_path / "kept")(ranks)[1].load()) == [None, None]
    assert load(files, tmp_path / "other") == [None]
    assert "starting with epoch 1" in capsys.readouterr().err


def test_other_and_damaged_checkpoints_are_refused(files, tmp_path):
    save(files, tmp_path)
    with pytest.raises(InputError, match="was written with a different seed; use the same seed"):
        load(files, tmp_path, 2, fit={**FIT, "seed": 4})
    path = tmp_path / "checkpoint.npz"
    whole = path.read_bytes()
    changed = bytearray(whole)
    changed[150] ^= 1
    for content in (whole[:-5], bytes(changed), b"", b"text"):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"checkpoint.npz is damaged \(.*\); start again without --resume"):
            load(files, tmp_path, 2)


class Killed(Exception):
    pass


class KilledAfter(FolderCheckpoints):
    """Saves, and raises after an epoch."""

    last = 0

    def save(self, state, first_epochs):
        super().save(state, first_epochs)
        if state["epoch"] == self.last:
            raise Killed


@pytest.mark.slow
@pytest.mark.parametrize("last", [2, 4, 6])
@pytest.mark.parametrize("method", ["mt-gcn", "mt-plus"])
def test_interrupted_fit_continues(files, tmp_path, monkeypatch, method, last):
    settings = {
        "mt-gcn": {"warmup_epochs": 3, "teaching_epochs": 3, "per_class": 6},
        "mt-plus": {"dimensions": 8, "edge_directions": 12, "infomax_epochs": 6, "rounds": 2},
    }[method]
    method = create(method, **settings)
    undisturbed = fit_on(1, files, method)
    monkeypatch.setattr(KilledAfter, "last", last)
    with pytest.raises(Killed):
        fit_on(2, files, method, lambda graph: KilledAfter(tmp_path, 2, False, FIT, graph))
    continued = fit_on(3, files, method, lambda graph: FolderCheckpoints(tmp_path, 2, True, FIT, graph))
    assert_equal_predictions(continued, undisturbed, 1e-5)


TARGETS = torch.tensor([1.0, 2.0, 6.0])


class Point(StackedParameters):
    """One number, which should be the mean of its targets."""

    def __init__(self):
        super().__init__(runs=1, peers=1, device=torch.device("cpu"))
        self.add_parameter("place", torch.zeros(1, 1), run_axis=0)

    def phases(self, targets):
        def step(name):
            return Step({name: ((self.place - targets[:, None, None]) ** 2).sum(0) / len(TARGETS)})

        return [Phase(4, lambda: step("first")), Phase(5, lambda: step("second"))]


def test_history_of_a_continued_training(files, tmp_path):
    adam, whole = Adam(0.1), Point()
    history = train(whole, whole.phases(TARGETS), adam)
    [checkpoints] = on_ranks(1, lambda ranks: kept(files, tmp_path, resume=True, every=6)(ranks)[1])
    for point in (Point(), Point()):  # the second continues after epoch 6
        with checkpointing(checkpoints):
            found = train(point, point.phases(TARGETS), adam)
        assert torch.equal(point.place, whole.place)
        for name, values in history.items():
            np.testing.assert_array_equal(found[name], values)
