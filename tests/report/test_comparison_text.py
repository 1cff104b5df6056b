"""Comparisons in Markdown and as CSV."""

import csv
import io

import pytest

from mtgcn.report.comparison_text import cell_title, comma_separated, markdown


def test_markdown_has_one_row_per_method(compared):
    text = markdown([compared(), compared(scored=20)])
    assert text.count("## Accuracy on edges_1.csv, 3 labels per class, 4 runs") == 2
    assert "120 nodes, 300 edges, 5 features, 3 classes; 100 nodes scored in a run. Per cent." in text
    [lp, _] = [line for line in text.splitlines() if line.startswith("| lp")]
    assert [cell.strip() for cell in lp.split("|")][2:5] == ["50.0", "50.0 to 50.0", "-20.0"]
    assert text.count("Warning: a run is scored on 20 nodes") == 1


def test_csv_holds_shares(compared):
    rows = list(csv.DictReader(io.StringIO(comma_separated([compared()]))))
    assert [row["method"] for row in rows] == ["lp", "my_gcn <b>", "mt-plus"]
    assert float(rows[0]["accuracy_mean"]) == pytest.approx(0.5)
    assert float(rows[0]["minus_reference_mean"]) == pytest.approx(-0.2)
    assert (rows[2]["reference"], rows[2]["minus_reference_mean"], rows[2]["p_value_holm"]) == ("mt-plus", "", "")


@pytest.mark.parametrize(
    ("split", "words"),
    [
        ("random", "3 labels per class, 4"),
        ("over-all", "3 labels per class drawn over all nodes"),
        ("public", "3 labels per class, public split"),
        ("/some/where/splits.json", "3 labels per class, splits of splits.json"),
    ],
)
def test_a_title_says_where_the_splits_are_from(compared, split, words):
    assert words in cell_title(compared(split=split).cells[0])
