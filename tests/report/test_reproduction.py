"""Reproduction: page, LaTeX tables and commands."""

import re
from dataclasses import replace

import pytest

from html_page import HtmlPage
from latex_check import count_tables
from mtgcn.datasets import describe
from mtgcn.experiments.curves import Band, Curves
from mtgcn.experiments.plan import place_of
from mtgcn.experiments.protocol import PAPER_TABLES, WORLD
from mtgcn.experiments.tables import stored_evidence
from mtgcn.report.reproduction import commands, findings, html_page, latex_tables

pytestmark = pytest.mark.slow

SECTIONS = {"tables", "label-rates", "differences", "ranks", "calibration"}


def evidence_of(*parts, **options):
    return stored_evidence({name: rows for units in parts for name, rows in units.items()}, **options)


def page_of(*parts, counts=()):
    return html_page(evidence_of(*parts), counts)


@pytest.fixture(scope="module")
def full(stored):
    return page_of(
        stored(ablation=True, tables=["2"]), stored(backbones=True, tables=["3"]), stored(protocol="paper"), stored()
    )


def curves_of(seed=0, **made):
    """Accuracy 10, 20 … per cent; of three classes the first is never taught."""
    names = {"dataset": "cora", "labels_per_class": 2, "runs": 7, "seed": seed, "device": "cpu"}
    made = {**names, "settings": {"warmup_epochs": 20}, **made}
    rising = Band(mean=(0.1, 0.2, 0.3, 0.4), low=(0.05, 0.1, 0.2, 0.3), high=(0.2, 0.3, 0.4, 0.5))
    late = Band(mean=(None, None, 0.7, 0.8), low=(None, None, 0.6, 0.7), high=(None, None, 0.8, 0.9))
    never = Band(*[(None,) * 4] * 3)
    return Curves(
        made=made,
        epochs=(10, 20, 30, 40),
        accuracy=rising,
        losses={"supervised": rising, "pseudo-label": late},
        class_names=("Rare", "Case_Based", "7"),
        precision=(never, late, late),
    )


def test_page_is_self_contained(full):
    page = HtmlPage(full)
    page.assert_self_contained()
    assert {link.removeprefix("#") for link in page.links} == set(page.ids)
    assert not re.search(r"https?:|url\(|@import", full)


def test_page_shows_every_printed_and_measured_value(full, stored):
    rows = HtmlPage(full).rows
    for table in PAPER_TABLES:
        for cell in table.cells:
            for entry in cell.entries:
                if entry.printed is not None:
                    assert any(f"{entry.printed:.1f}" in row for row in rows), (table.name, cell.dataset, entry)
    for unit_rows in stored().values():
        mean = 100 * sum(row.accuracy for row in unit_rows) / len(unit_rows)
        assert any(f"{mean:.1f}" in row for row in rows)


def test_row_shows_paper_ours_interval_difference(stored):
    page = HtmlPage(page_of(stored(tables=["2"], methods=["gcn", "mt-gcn"], runs=1)))
    # Places are numbered cell by cell: GCN has 40.0, 40.2, 40.4 and 40.6 per cent, where 42.6 to 74.9 are printed.
    assert ["gcn", "42.6", "40.0", "one run", "−2.6", "56.9", "40.2", "one run", "−16.7"] in [
        row[:9] for row in page.rows
    ]
    # MT-GCN is always 0.1 ahead.
    assert ["gcn", *["−0.1", "one run", "1"] * 4] in page.rows


def test_optimistic_rows_are_marked(stored, full):
    assert "optimistic" not in page_of(stored(tables=["2"])).split("</style>")[1].lower()
    marked = [row for row in HtmlPage(full).rows if "optimistic" in row]
    assert [row[0] for row in marked] == ["mt-gcn"] * 4


def test_sections_follow_what_is_stored(stored, full):
    assert set(HtmlPage(full).ids) == {*SECTIONS, "ablation", "backbones"}
    alone = HtmlPage(page_of(stored(ablation=True, tables=["2"])))
    assert {"ablation", "tables"} <= set(alone.ids)
    assert "without L_pl" in alone.text
    assert "warm-up of 300 epochs" in alone.text
    units = stored(tables=["2"], methods=["mt-gcn"], runs=1)
    page = page_of(dict([next(iter(units.items()))]))  # a single unit
    assert set(HtmlPage(page).ids) == {"tables", "label-rates", "calibration"}
    assert page.count("<svg") == 2


def test_backbones_show_alone_taught_gain(stored):
    units = stored(backbones=True, tables=["2"], runs=1)
    page = HtmlPage(page_of(units))
    # Places are numbered cell by cell: gcn alone, gcn taught, chebyshev alone …, each 0.1 above the one before.
    assert ["appnp", "4", "+0.1", "+0.1", "+0.1", "0", "0"] in page.rows  # cells, mean, smallest, largest, sure ones
    [alone] = [row for row in page.rows if row[0] == "appnp alone"]
    assert alone[1:5] == ["40.4", "one run", "41.2", "one run"]  # of two cells
    [taught] = [row for row in page.rows if row[0] == "appnp taught"]
    assert taught[1:7] == ["40.5", "one run", "+0.1", "one run", "1", "41.3"]
    page = HtmlPage(page_of(dict([next(iter(units.items()))])))  # a network without taught runs
    assert ["gcn alone", "40.0", "one run"] in page.rows
    assert "smallest largest" not in page.text


def test_training_curves(stored):
    units = stored(tables=["2"], methods=["mt-gcn"])
    page = html_page(stored_evidence(units), curves=[curves_of(), curves_of(seed=3)])
    section = page.split('<section id="training">')[1].split("</section>")[0]
    HtmlPage(page)
    assert section.count("<h3>") == 1  # the other seed is left out
    assert "cora, 2 labels per class" in section
    assert "Mean of 7 runs on cpu." in section
    assert section.count("<svg") == 3
    assert section.count("teaching begins</text>") == 2  # the third chart begins there
    assert "Case Based" in section
    assert "class 7" in section
    assert "Rare" not in section  # which was never taught
    assert "--curves" in page
    assert "--curves" not in html_page(stored_evidence(units), curves=[curves_of(seed=3)])


def test_rows_of_another_device_are_marked(stored):
    here = stored(tables=["2"], methods=["gcn", "mt-gcn"], device="cuda (some GPU)", runs=1)
    there = stored(tables=["2"], methods=["lp"], runs=1)
    page = HtmlPage(page_of(here, there))
    assert {row[1] for row in page.rows if row[0] == "lp"} == {"on cpu"}
    assert not any("on cpu" in row for row in page.rows if row[0] in ("gcn", "mt-gcn"))
    assert "some rows cpu, 1 thread per unit of work" in page.text
    evidence = stored_evidence(here | there)
    assert commands(evidence) == [
        "mtgcn reproduce --table 2 --methods lp --runs 1 --device cpu",
        "mtgcn reproduce --table 2 --methods gcn,mt-gcn --runs 1 --device cuda",
    ]


def world(stored, ahead, **selection):
    """The page of a suite in which lines have 50 per cent and the given excess; and its evidence."""
    units = {}
    for name, rows in stored(suite="world", runs=1, **selection).items():
        title = place_of(rows[0]).title
        accuracy = 0.5 + ahead.get((title, rows[0].labels_per_class), ahead.get(title, 0.0))
        units[name] = tuple(replace(row, accuracy=accuracy) for row in rows)
    evidence = stored_evidence(units, suite=WORLD)
    return html_page(evidence), evidence


def test_suite_page(stored):
    text, evidence = world(stored, {"gcn, none": 0.01, "mt-gcn, length": 0.02, "mt-plus": 0.03, ("mt-plus", 5): 0.01})
    page = HtmlPage(text)
    assert "mt-plus on graphs of many kinds" in page.text
    assert "Zhan and Niu" not in page.text
    assert set(page.ids) == SECTIONS
    assert "Eight graphs" in page.text
    assert "mt-plus has the highest mean in 16 of 24 cells with random splits." in page.text
    assert (
        "mt-plus against the best of the 11 others, which is known only afterwards: above it in 16 of 24 cells; the "
        "95 % interval of the difference is above 0 in 0 and below 0 in 0; mean margin +0.3 points, median +1.0, "
        "smallest −1.0 (mt-gcn, length on cora, 5 labels per class on average, drawn over all nodes)."
    ) in page.text
    assert ["gcn, none", *["51.0", "one run"] * 3] in page.rows
    assert ["gcn, none", "−2.0", "one run", "1", "−2.0", "one run", "1", "+0.0", "one run", "1"] in page.rows
    columns = ["3 labels per class", "20 labels per class", "5 labels per class on average, drawn over all nodes"]
    assert ["method", *columns] in page.rows
    assert text.count("5 on average, over all</text>") == 8
    assert text.count('<tr class="reference">') == 8
    assert commands(evidence) == ["mtgcn reproduce --suite world --runs 1 --device cpu"]


def test_number_of_opponents_is_named(stored):
    text, evidence = world(stored, {"mt-plus": -0.004}, datasets=["dblp", "cora"], methods=["gcn", "mt-plus"])
    assert "the best of the 3 others, which is known only afterwards: above it in 0 of 6" in HtmlPage(text).text
    assert commands(evidence) == [
        "mtgcn reproduce --suite world --datasets cora,dblp --methods gcn,mt-plus --runs 1 --device cpu"
    ]
    text, evidence = world(stored, {}, datasets=["dblp"], methods=["gcn"])  # without the reference
    assert findings(evidence) == []
    HtmlPage(text)


def test_shared_runs_are_explained(stored):
    units = stored(tables=["2"], methods=["gcn", "mt-gcn"])
    assert "share random parts" not in page_of(units)
    grouped = {name: tuple(replace(row, group=row.run // 2) for row in rows) for name, rows in units.items()}
    assert "share random parts" in page_of(grouped)


def test_table_1(stored):
    counts = [describe("digits"), replace(describe("digits"), name="cora", nodes=3, edges_listed=4)]
    page = HtmlPage(page_of(stored(tables=["2"], methods=["gcn"]), counts=counts))
    assert ["dataset", "nodes", "edges listed", "classes", "features"] in page.rows
    assert ["cora", "3 (2708 printed)", "4 (5429 printed)", "10 (7 printed)", "64 (1433 printed)"] in page.rows
    assert "digits" not in {row[0] for row in page.rows}  # not in the paper


@pytest.mark.parametrize(
    ("selection", "command"),
    [
        ({"runs": None}, "mtgcn reproduce --device cpu"),
        ({"runs": None, "backbones": True, "tables": ["2"]}, "mtgcn reproduce --table 2 --backbones --device cpu"),
        ({"runs": None, "protocol": "paper"}, "mtgcn reproduce --protocol paper --device cpu"),
        (
            {"tables": ["2", "5"], "datasets": ["cora"], "methods": ["gcn", "mt-gcn"], "runs": 3, "seed": 7},
            "mtgcn reproduce --table 2,5 --datasets cora --methods gcn,mt-gcn --runs 3 --seed 7 --device cpu",
        ),
        (
            {"tables": ["2"], "runs": None, "seed": 1_000_000, "threads": 2, "methods": ["mt-gcn"]},
            "mtgcn reproduce --table 2 --methods mt-gcn --final --threads 2 --device cpu",
        ),
    ],
)
def test_command_reproduces_the_rows(stored, selection, command):
    assert commands(stored_evidence(stored(**selection)))[-1] == command


def test_latex_tables_are_well_formed(stored):
    text = latex_tables(
        evidence_of(stored(), stored(protocol="paper"), stored(ablation=True, tables=["2"]), stored(backbones=True))
    )
    # Tables 2 to 5, the last with two kinds of splits, the ablation of one and the backbones of all.
    assert count_tables(text) == 5 + 1 + 4


def test_latex_rows(stored):
    text = latex_tables(evidence_of(stored(tables=["2"], methods=["gcn", "mt-gcn"], runs=1)))
    # Places are numbered cell by cell, 0.1 per cent apart from 40; the last of a cell, MT-GCN, is best.
    assert "\ngcn & 42.6 & 40.0 & $-2.6$ & 56.9 & 40.2 & $-16.7$ &" in text
    assert "\nmt-gcn & 66.9 & \\textbf{40.1} & $-26.8$ &" in text
    text = latex_tables(evidence_of(stored(tables=["2"], protocol="paper")))
    # The mean is 40.0. The last of ten averages of four runs lies higher by 1e-6 ((36² + … + 39²) / 4 - 513.5).
    assert "mt-gcn (optimistic) & 66.9 & 40.1 & $-26.8$ &" in text
    assert "OPTIMISTIC" in text
    text = latex_tables(
        evidence_of(stored(suite="world", datasets=["dblp"], methods=["gcn", "mt-plus"], runs=1), suite=WORLD)
    )
    assert r"\caption{Accuracy on dblp. Per cent;" in text
    assert r" & 5 labels per class on average, drawn over all nodes \\" in text
    assert "\ngcn, none & 40.2 & 40.6 & 41.0 \\\\\n" in text
    assert "\nmt-plus & \\textbf{40.3} & \\textbf{40.7} & \\textbf{41.1} \\\\\n" in text
