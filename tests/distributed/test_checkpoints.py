"""A fit that was stopped goes on, on as many ranks as one likes, to the answer of one that never was."""

import json

import numpy as np
import pytest

from mtgcn.distributed.checkpoints import Checkpoints
from mtgcn.distributed.local_graph import read_local_graph
from mtgcn.distributed.shards import read_manifest
from mtgcn.errors import InputError
from thread_ranks import on_ranks

FIT = {"seed": 3, "method": {"name": "mt-gcn"}}


def kept(files, folder, *, resume=False, fit=FIT, every=10):
    """What to do on each rank: its graph, and where its checkpoints are."""

    def on(ranks):
        graph = read_local_graph(read_manifest(files / "shards"), ranks)
        return graph, Checkpoints(folder, every, resume, fit, graph)

    return on


def save(files, folder, epoch=10, count=2):
    def work(ranks):
        graph, checkpoints = kept(files, folder)(ranks)
        checkpoints.save(epoch, {"weight": np.arange(3.0)}, {"first epoch": graph.numbers.numpy()[:, None] * 10})

    on_ranks(count, work)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_any_number_of_ranks_finds_what_two_have_kept(files, tmp_path, count, capsys):
    save(files, tmp_path / "kept", epoch=10)
    save(files, tmp_path / "kept", epoch=20)

    def work(ranks):
        graph, checkpoints = kept(files, tmp_path / "kept", resume=True)(ranks)
        found = checkpoints.found()
        assert found.epoch == 20
        assert found.shared["weight"].tolist() == [0, 1, 2]
        assert found.at_nodes["first epoch"].tolist() == (graph.numbers.numpy()[:, None] * 10).tolist()

    on_ranks(count, work)
    assert capsys.readouterr().err.count("going on after epoch 20") == 1
    assert [path.name for path in (tmp_path / "kept").glob("epoch-*")] == ["epoch-000020"]


def test_one_that_was_not_finished_does_not_count(files, tmp_path):
    save(files, tmp_path, epoch=10)
    later = tmp_path / "epoch-000020"
    later.mkdir()
    (later / "part-00000.npz").write_bytes(b"half of")
    assert on_ranks(2, lambda ranks: kept(files, tmp_path, resume=True)(ranks)[1].found().epoch) == [10, 10]


def test_nothing_is_read_unless_asked_for_and_nothing_may_be_there(files, tmp_path, capsys):
    save(files, tmp_path / "kept")
    assert on_ranks(2, lambda ranks: kept(files, tmp_path / "kept")(ranks)[1].found()) == [None, None]
    assert on_ranks(1, lambda ranks: kept(files, tmp_path / "other", resume=True)(ranks)[1].found()) == [None]
    assert "beginning with epoch 1" in capsys.readouterr().err


def test_another_fit_and_damage_are_refused(files, tmp_path):
    save(files, tmp_path)
    another = kept(files, tmp_path, resume=True, fit={**FIT, "seed": 4})
    with pytest.raises(InputError, match="is of a fit with another seed; give the same"):
        on_ranks(2, lambda ranks: another(ranks)[1].found())
    part = tmp_path / "epoch-000010" / "part-00004.npz"
    part.write_bytes(part.read_bytes()[:-5])
    with pytest.raises(InputError, match=r"part-00004.npz is damaged \(its sum is another\); begin anew"):
        on_ranks(2, lambda ranks: kept(files, tmp_path, resume=True)(ranks)[1].found())
    (tmp_path / "latest.json").write_text(json.dumps({"epoch": 10}))
    with pytest.raises(InputError, match=r"latest.json cannot be read"):
        on_ranks(1, lambda ranks: kept(files, tmp_path, resume=True)(ranks)[1].found())


def test_how_often(files, tmp_path):
    [checkpoints] = on_ranks(1, lambda ranks: kept(files, tmp_path, every=3)(ranks)[1])
    assert [epoch for epoch in range(1, 10) if checkpoints.due(epoch)] == [3, 6, 9]
