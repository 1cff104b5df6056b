"""predictions.csv: what stands in it, and that it is written whole or not at all."""

import csv
import errno
from dataclasses import replace

import numpy as np
import pytest

from mtgcn.errors import InputError
from mtgcn.workflows import predictions as module
from mtgcn.workflows.predictions import Predictions, write_predictions

HEADER = 'id,predicted,probability,probability_a,"probability_b, or ""c""",peers_agree,role,pseudo_label_epoch'


@pytest.fixture
def four_nodes():
    """One given, one that taught, one that did not, and one whose peers are at odds."""
    peers = np.array(
        [[[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]], [[0.7, 0.3], [0.4, 0.6], [0.8, 0.2], [0.1, 0.9]]]
    )
    return Predictions(
        ids=np.array(["007", "n, 2", "Käse", "=1+1"]),
        class_names=("a", 'b, or "c"'),
        probabilities=peers.mean(0),
        peers=peers,
        labeled_iter=np.array([0, 201, -1, -1]),
    )


def test_the_table_line_by_line(four_nodes, tmp_path):
    path = tmp_path / "predictions.csv"
    write_predictions(path, four_nodes)
    assert path.read_bytes().decode().split("\n") == [
        HEADER,
        "007,a,0.800000,0.800000,0.200000,yes,given,",
        '"n, 2","b, or ""c""",0.700000,0.300000,0.700000,yes,pseudo-label,201',
        "Käse,a,0.700000,0.700000,0.300000,yes,neither,",
        '=1+1,"b, or ""c""",0.600000,0.400000,0.600000,no,neither,',
        "",
    ]
    assert four_nodes.count_by_class() == {"a": 2, 'b, or "c"': 2}


def test_peers_with_small_votes_do_not_decide_whether_the_peers_agree(four_nodes):
    assert four_nodes.peers_agree.tolist() == [True, True, True, False]
    assert replace(four_nodes, weights=np.array([0.85, 0.15])).peers_agree.all()
    assert replace(four_nodes, weights=np.array([0.7, 0.3])).peers_agree.tolist() == [True, True, True, False]


def test_many_rows_are_all_there(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 3)
    probabilities = np.random.default_rng(0).dirichlet([1, 1], size=10)
    path = tmp_path / "new" / "predictions.csv"
    write_predictions(path, Predictions(np.arange(10) * 7, ("x", "y"), probabilities, None, np.full(10, -1)))
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [row["id"] for row in rows] == [str(7 * number) for number in range(10)]
    assert np.allclose(
        [[float(row["probability_x"]), float(row["probability_y"])] for row in rows], probabilities, atol=1e-6
    )
    assert {row["peers_agree"] for row in rows} == {""}  # no peers, so nothing to say
    assert {(row["role"], row["pseudo_label_epoch"]) for row in rows} == {("neither", "")}


def test_a_full_disk_leaves_the_old_file(four_nodes, tmp_path, monkeypatch):
    path = tmp_path / "predictions.csv"
    path.write_text("older")

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("mtgcn.storage.files.os.fsync", full)
    with pytest.raises(InputError, match=r"cannot write .*predictions.csv: No space left on device; make room"):
        write_predictions(path, four_nodes)
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("predictions.csv", "older")]
