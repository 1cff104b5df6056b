"""`fit --check`: what a fit would start from, and nothing else."""

import json
from dataclasses import asdict

import pytest

from mtgcn.errors import InputError
from mtgcn.io.options import TableOptions
from mtgcn.workflows.checking import check_files, check_lines


@pytest.fixture
def files(tmp_path):
    (tmp_path / "nodes.csv").write_text(
        "id;income;city;note\n"
        + "".join(f"n{row};{row * 1000},5;{'Ulm' if row % 2 else 'Hof'};t{row}\n" for row in range(30))
    )
    (tmp_path / "edges.csv").write_text("from;to\n" + "".join(f"n{row};n{(row + 2) % 30}\n" for row in range(30)))
    (tmp_path / "labels.csv").write_text("id;label\nn0;even\nn1;odd\nn2;NA\n")
    return TableOptions(*(tmp_path / f"{name}.csv" for name in ("edges", "nodes", "labels")))


def test_it_says_what_would_be_done_and_writes_nothing(files, tmp_path):
    before = sorted(tmp_path.iterdir())
    found = check_files(files, method="gcn", device="cpu")
    assert (found.nodes, found.edges, found.features) == (30, 30, 3)
    assert found.labels == {"even": 1, "odd": 1}
    assert found.columns == [
        "income: standardised (decimal commas)",
        "city: 2 values, one-hot",
        "note: left out, 30 different values",
    ]
    lines = list(check_lines(found))
    assert "column      city: 2 values, one-hot" in lines
    assert any(line.startswith("would fit   gcn on cpu: about ") for line in lines)
    assert any(line.startswith("note") and "1 labels are words for a missing value ('NA')" in line for line in lines)
    assert any(line.startswith("warning") and "one label only" in line for line in lines)
    assert json.loads(json.dumps(asdict(found)))["method"] == "gcn"
    assert sorted(tmp_path.iterdir()) == before


def test_what_a_fit_refuses_is_refused(files):
    with pytest.raises(InputError, match="unknown method 'gnc'"):
        check_files(files, method="gnc")
    with pytest.raises(InputError, match="class 'third' has no labelled node"):
        check_files(files, classes=["even", "odd", "third"])
    with pytest.raises(InputError, match="unknown setting 'speed'"):
        check_files(files, method="gcn", settings=["speed=3"])
