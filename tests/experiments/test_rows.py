"""Rows are read as they were written, and what this program cannot have written is refused."""

import json
from dataclasses import asdict

import pytest

from mtgcn.experiments.rows import ComparedRow, StoredRow

ROW = ComparedRow(
    dataset="ring",
    labels_per_class=(2, 1),
    method="constant",
    settings={"favourite": 1},
    run=0,
    seed=0,
    accuracy=1 / 3,
    macro_f1=0.1 + 0.2,
    calibration_error=0.0,
    seconds=0.5,
    device="cpu",
    threads=1,
    versions={"mtgcn": "0"},
    unit="u",
    protocol="ours",
    split="random",
    validation=0,
    runs=1,
    averages=1,
    comparison="c",
    scored_nodes=9,
    graph={"nodes": 12, "edges": 12, "features": 12, "classes": 3},
)


def stored(**changes):
    return json.loads(json.dumps(asdict(ROW) | changes))


def test_a_row_of_a_comparison_is_read_as_it_was_written():
    assert StoredRow.from_json(stored()) == ROW


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scored_nodes": "all"}, "scored_nodes is 'all'"),
        ({"comparison": 7}, "comparison is '7'"),
        ({"graph": {"nodes": 12, "edges": 12, "features": 12}}, "classes is missing"),
        ({"graph": {**ROW.graph, "edges": -1}}, "edges is '-1'"),
    ],
)
def test_a_row_of_a_comparison_tells_what_was_compared(changes, message):
    with pytest.raises(ValueError, match=message):
        StoredRow.from_json(stored(**changes))


def test_a_seed_has_at_most_128_bits():
    assert StoredRow.from_json(stored(seed=2**128)).seed == 2**128
    with pytest.raises(ValueError, match="seed is '34028"):
        StoredRow.from_json(stored(seed=2**128 + 1))
