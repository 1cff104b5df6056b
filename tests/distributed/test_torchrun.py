"""Jobs started by torchrun: the same predictions on any number of ranks, and one line when a job fails."""

import json
import shutil

import numpy as np
import psutil
import pytest
import scipy.sparse as sp

from mtgcn.datasets import load
from mtgcn.distributed.__main__ import main
from own_files import read_csv
from sweep import finished, started, wait_until

pytestmark = pytest.mark.long
TIME_LIMIT = 60  # seconds within which a job ends that has lost a rank


def torchrun(ranks, *arguments):
    return "-m", "torch.distributed.run", "--nproc-per-node", ranks, "-m", "mtgcn.distributed", *arguments


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def errors_in(err):
    return [line for line in err.splitlines() if line.startswith("mtgcn: error:")]


def result_of(folder):
    """The predictions by id, and the history."""
    rows = {}
    for path in folder.glob("predictions-*.csv"):
        rows |= {row["id"]: row for row in read_csv(path)}
    return rows, json.loads((folder / "card.json").read_text())["history"]


def same(one, other, tolerance):
    (rows, history), (others, history_of_others) = one, other
    assert rows.keys() == others.keys()
    for key, row in rows.items():
        assert row["predicted"] == others[key]["predicted"]
        assert row["pseudo_label_epoch"] == others[key]["pseudo_label_epoch"]
    for name, values in history.items():
        found, expected = (np.array(one, dtype=float) for one in (values, history_of_others[name]))
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance, err_msg=name)


@pytest.fixture(scope="module")
def cora(tmp_path_factory, write_graph):
    """Cora as files, labels of three nodes of each class, and its shards in 4 parts."""
    graph = load("cora")
    folder = tmp_path_factory.mktemp("cora")
    write_graph(folder, graph)
    names = [row["id"] for row in read_csv(folder / "nodes.csv")]
    random = np.random.default_rng(0)
    chosen = [(node, one) for one in range(7) for node in random.choice(np.flatnonzero(graph.labels == one), 3, False)]
    (folder / "labels.csv").write_text("id,label\n" + "".join(f"{names[node]},c{one}\n" for node, one in chosen))
    arguments = ["shard", "--edges", folder / "edges.csv", "--nodes", folder / "nodes.csv", "--parts", 4]
    assert main(list(map(str, [*arguments, "--out", folder / "shards"]))) == 0
    assert sp.issparse(graph.features)
    return folder


@pytest.mark.data
@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("mt-gcn", ["dropout=0.5", "warmup_epochs=20", "teaching_epochs=20"]),
        ("mt-gcn", ["dropout=0", "warmup_epochs=20", "teaching_epochs=20"]),
        ("mt-plus", ["infomax_epochs=40"]),
    ],
)
def test_cora_on_any_number_of_ranks(cora, tmp_path, method, settings):
    arguments = ["fit", cora / "shards", "--labels", cora / "labels.csv", "--method", method, "--device", "cpu"]
    arguments += [part for setting in settings for part in ("--set", setting)]
    assert main(list(map(str, [*arguments, "--out", tmp_path / "1"]))) == 0
    for ranks in (2, 4):
        status, out, err = finished(*torchrun(ranks, *arguments, "--out", tmp_path / str(ranks)))
        assert status == 0, err
        assert f"{method} on {ranks} ranks" in out
        assert len(list((tmp_path / str(ranks)).glob("predictions-*.csv"))) == ranks
        same(result_of(tmp_path / str(ranks)), result_of(tmp_path / "1"), tolerance=1e-4)


@pytest.mark.parametrize("victim", [0, 2])
def test_killed_rank_and_resume(files, tmp_path, victim):
    arguments = ["fit", files / "shards", "--labels", files / "labels.csv"]
    arguments += ["--method", "mt-gcn", "--set", "warmup_epochs=5", "--set", "teaching_epochs=300"]
    kept = ["--checkpoint", tmp_path / "kept", "--every", 5, "--out", tmp_path / "result"]
    with started(*torchrun(3, *arguments, *kept)) as job:
        wait_until(lambda: epochs_done(job, tmp_path / "kept") >= 20, seconds=300)
        ranks = psutil.Process(job.pid).children()
        next(rank for rank in ranks if rank.environ().get("RANK") == str(victim)).kill()
        _, err = job.communicate(timeout=TIME_LIMIT)  # or it hangs
    assert job.returncode != 0
    [line] = errors_in(err)
    assert line.endswith(f"start the job again with --resume to continue from {tmp_path / 'kept'}")
    assert not (tmp_path / "result").exists()
    if victim == 0:
        return
    status, _, err = finished(*torchrun(2, *arguments, *kept, "--resume"))
    assert status == 0, err
    assert err.count("resuming after epoch") == 1
    assert main(list(map(str, [*arguments, "--out", tmp_path / "undisturbed"]))) == 0
    same(result_of(tmp_path / "result"), result_of(tmp_path / "undisturbed"), tolerance=1e-3)


def epochs_done(job, kept):
    assert job.poll() is None, job.communicate()[1]
    try:
        return np.load(kept / "checkpoint.npz")["epoch"].item()
    except FileNotFoundError:
        return 0


def test_bad_input_is_reported_once(files, tmp_path):
    shards = shutil.copytree(files / "shards", tmp_path / "shards")
    (tmp_path / "labels.csv").write_text("id,label\nn1,a\nn2,b\nstranger,a\n")
    arguments = ["fit", shards, "--out", tmp_path / "result", "--labels"]
    status, out, err = finished(*torchrun(2, *arguments, tmp_path / "labels.csv"))
    assert status != 0
    assert out == ""
    [line] = errors_in(err)
    assert "line 4: node 'stranger' is not in the graph" in line
    assert "[rank" not in err
    last = shards / "part-00004.npz"  # which rank 1 alone reads
    last.write_bytes(last.read_bytes()[:-1])
    status, _, err = finished(*torchrun(2, *arguments, files / "labels.csv"))
    assert status != 0
    [line] = errors_in(err)
    assert "part-00004.npz was changed" in line
