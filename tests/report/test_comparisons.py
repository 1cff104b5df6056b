"""Comparisons as text, LaTeX, figure and page."""

import csv
import io
import re

import pytest

from html_page import HtmlPage
from latex_check import count_tables
from mtgcn.report.comparisons import cell_title, comma_separated, comparison_page, comparison_tables, markdown


def test_markdown(compared):
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
    ("changes", "words"),
    [
        ({"split": "random"}, "3 labels per class, 4"),
        ({"split": "over-all"}, "3 labels per class on average, drawn over all nodes"),
        ({"split": "public"}, "3 labels per class, public split"),
        ({"split": "/some/where/splits.json"}, "3 labels per class, splits of splits.json"),
        ({"labels_per_class": 1}, "1 label per class, 4"),
        ({"labels_per_class": (1, 2, 3)}, "1, 2, 3 labels of the classes, in order"),
        ({"labels_per_class": None}, "labels that differ from run to run"),
    ],
)
def test_title_names_labels_and_splits(compared, changes, words):
    assert words in cell_title(compared(**changes).cells[0])


def test_latex_table(compared):
    text = comparison_tables([compared()])
    assert count_tables(text) == 1
    assert r"\caption{Accuracy on edges\_1.csv, 3 labels per class, 4 runs (120 nodes, 300 edges" in text
    assert "method & mean & minus mt-plus & p (Holm) & macro F1 & seconds \\\\" in text
    assert r"lp & 50.0 {\scriptsize $[50.0, 50.0]$} & $-20.0$ {\scriptsize $[-20.0, -20.0]$} & " in text
    assert (
        r"mt-plus & \textbf{70.0} {\scriptsize $[70.0, 70.0]$} &  &  & 69.0 {\scriptsize $[69.0, 69.0]$} & 2.0 \\"
        in text
    )


def test_one_method_has_no_differences(compared):
    text = comparison_tables([compared((("lp", 0.5),))])
    assert count_tables(text) == 1
    assert "method & mean & macro F1 & seconds \\\\" in text
    assert "textbf" not in text
    page = HtmlPage(comparison_page([compared((("lp", 0.5),))]))
    assert "Evaluation of lp on edges_1.csv" in page.text
    assert "minus" not in page.text


def test_latex_overview_of_one_graph(compared):
    few, many = compared(), compared((("lp", 0.8), ("gcn", 0.9)), labels_per_class=20)
    text = comparison_tables([few, many, compared(dataset="other.csv")])
    assert count_tables(text) == 1 + 3
    overview = text.split(r"\end{table}")[0]
    assert "method & 3 labels per class & 20 labels per class \\\\" in overview
    assert "\nlp & 50.0 " in overview
    assert re.search(r"\ngcn &  & \\textbf\{90\.0\}", overview)
    with_seeds = comparison_tables([few, compared(seed=8)])
    assert "method & 3 labels per class, seed 7 & 3 labels per class, seed 8 \\\\" in with_seeds


def test_page(compared):
    notes = ["2 edges were listed twice"]
    text = comparison_page([compared()], command="mtgcn compare --edges edges_1.csv", notes=notes)
    page = HtmlPage(text)
    page.assert_self_contained()
    assert "<h1>Comparison of methods on edges_1.csv</h1>" in text
    assert "<code>mtgcn compare --edges edges_1.csv</code>" in text
    assert "<li>2 edges were listed twice</li>" in text
    assert "120 nodes, 300 edges, 5 features, 3 classes; 100 nodes scored in a run" in text
    assert re.search(r'class="cell-start best">70\.0<span class="range">70\.0 to 70\.0', text)
    assert "−20.0" in text
    assert "<dd>alpha=1</dd>" in text
    assert "my_gcn <b>" in page.text
    assert "my_gcn <b>" not in text
    assert "Warning" not in text
    assert "<strong>Warning:</strong> a run is scored on 9 nodes" in comparison_page([compared(scored=9)])
    assert "label-rates" not in page.ids


def test_page_draws_several_label_rates_together(compared):
    page = HtmlPage(comparison_page([compared(), compared(labels_per_class=20)]))
    assert "Accuracy on edges_1.csv over labels per class" in page.text
    assert page.ids == ["label-rates", "comparison-1", "comparison-2"]
