"""Jobs that torchrun starts, as a person would: the same answer from any number of ranks, an end whatever happens."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn.datasets import load
from mtgcn.distributed.commands import main

pytestmark = pytest.mark.long
PATIENCE = 60  # seconds within which a job ends that has lost a rank


def started(ranks, *typed):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", ranks, "-m", "mtgcn.distributed"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    given = list(map(str, [*command, *typed]))
    return subprocess.Popen(given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def run(ranks, *typed):
    job = started(ranks, *typed)
    out, err = job.communicate(timeout=300)
    return job.returncode, out, err


def complaints(err):
    return [line for line in err.splitlines() if line.startswith("mtgcn: error:")]


def answer_of(folder):
    """What is said of every node by its id, and the losses."""
    rows = {}
    for path in folder.glob("predictions-*.csv"):
        with path.open() as file:
            rows |= {row["id"]: row for row in csv.DictReader(file)}
    return rows, json.loads((folder / "card.json").read_text())["history"]


def same(one, other, tolerance):
    (rows, history), (others, history_of_others) = one, other
    assert rows.keys() == others.keys()
    assert [rows[key]["predicted"] for key in rows] == [others[key]["predicted"] for key in rows]
    assert [rows[key]["pseudo_label_epoch"] for key in rows] == [others[key]["pseudo_label_epoch"] for key in rows]
    for name in ("supervised", "pseudo-label", "consistency"):
        values, theirs = (np.array(one[name], dtype=float) for one in (history, history_of_others))
        np.testing.assert_allclose(values, theirs, rtol=0, atol=tolerance, err_msg=name)


@pytest.fixture(scope="module")
def cora(tmp_path_factory, write_graph):
    """Cora as files, labels of three nodes of each class, and its shards in 4 parts."""
    graph = load("cora")
    folder = tmp_path_factory.mktemp("cora")
    write_graph(folder, graph)
    with (folder / "nodes.csv").open() as file:
        names = [row[0] for row in csv.reader(file)][1:]
    random = np.random.default_rng(0)
    chosen = [(node, one) for one in range(7) for node in random.choice(np.flatnonzero(graph.labels == one), 3, False)]
    (folder / "labels.csv").write_text("id,label\n" + "".join(f"{names[node]},c{one}\n" for node, one in chosen))
    typed = ["shard", "--edges", folder / "edges.csv", "--nodes", folder / "nodes.csv", "--parts", 4]
    assert main(list(map(str, [*typed, "--out", folder / "shards"]))) == 0
    assert sp.issparse(graph.features)
    return folder


@pytest.mark.data
@pytest.mark.parametrize("dropout", [0.5, 0.0])
def test_one_two_and_four_ranks_give_the_same_on_cora(cora, dropout):
    typed = ["fit", cora / "shards", "--labels", cora / "labels.csv", "--set", f"dropout={dropout}"]
    typed += ["--method", "mt-gcn", "--set", "warmup_epochs=20", "--set", "teaching_epochs=20", "--seed", 3]
    assert main(list(map(str, [*typed, "--out", cora / "one"]))) == 0
    alone = answer_of(cora / "one")
    for ranks in (2, 4):
        status, out, err = run(ranks, *typed, "--out", cora / f"of {ranks}")
        assert status == 0, err
        assert f"mt-gcn on {ranks} ranks" in out
        assert len(list((cora / f"of {ranks}").glob("predictions-*.csv"))) == ranks
        same(answer_of(cora / f"of {ranks}"), alone, tolerance=1e-5)


@pytest.mark.parametrize("victim", [0, 2])
def test_a_job_that_loses_a_rank_ends_and_goes_on_with_fewer(files, tmp_path, victim):
    typed = ["fit", files / "shards", "--labels", files / "labels.csv"]
    typed += ["--method", "mt-gcn", "--set", "warmup_epochs=5", "--set", "teaching_epochs=300"]
    kept = ["--checkpoint", tmp_path / "kept", "--every", 5, "--out", tmp_path / "result"]
    job = started(3, *typed, *kept)
    try:
        os.kill(rank_of(job, victim, tmp_path / "kept"), signal.SIGKILL)
        _, err = job.communicate(timeout=PATIENCE)  # or it hangs
    finally:
        job.kill()
    assert job.returncode != 0
    [line] = complaints(err)
    assert line.endswith(f"start the job again with --resume to go on from {tmp_path / 'kept'}")
    assert not (tmp_path / "result").exists()
    if victim == 0:
        return
    status, _, err = run(2, *typed, *kept, "--resume")
    assert status == 0, err
    assert err.count("going on after epoch") == 1
    assert main(list(map(str, [*typed, "--out", tmp_path / "undisturbed"]))) == 0
    same(answer_of(tmp_path / "result"), answer_of(tmp_path / "undisturbed"), tolerance=1e-3)


def rank_of(job, rank, kept, beyond=20):
    """The process that is this rank, once the job is so many epochs into its work."""
    end = time.monotonic() + 300
    while time.monotonic() < end and job.poll() is None:
        try:
            epoch = json.loads((kept / "latest.json").read_text())["epoch"]
        except FileNotFoundError:
            epoch = 0
        if epoch >= beyond:
            children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(job.pid)], capture_output=True, text=True)
            for pid in map(int, children.stdout.split()):
                try:
                    with open(f"/proc/{pid}/environ", "rb") as file:
                        if f"RANK={rank}".encode() in file.read().split(b"\0"):
                            return pid
                except FileNotFoundError:
                    continue
        time.sleep(0.05)
    raise AssertionError(f"the job has ended, or never got as far: {job.communicate()[1]}")


def test_bad_input_is_told_once_and_by_no_traceback_of_a_rank(files, tmp_path):
    shards = shutil.copytree(files / "shards", tmp_path / "shards")
    (tmp_path / "labels.csv").write_text("id,label\nn1,a\nn2,b\nstranger,a\n")
    typed = ["fit", shards, "--out", tmp_path / "result", "--labels"]
    status, out, err = run(2, *typed, tmp_path / "labels.csv")
    assert status != 0
    assert out == ""
    [line] = complaints(err)
    assert "line 4: node 'stranger' is not in the graph" in line
    assert "[rank" not in err  # what torch prints before the traceback of each
    last = shards / "part-00004.npz"  # which rank 1 alone reads
    last.write_bytes(last.read_bytes()[:-1])
    status, _, err = run(2, *typed, files / "labels.csv")
    assert status != 0
    [line] = complaints(err)
    assert "part-00004.npz has" in line
