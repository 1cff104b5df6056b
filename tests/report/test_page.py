"""The page: sound HTML that needs no other file, and every number in it."""

import re
from html.parser import HTMLParser

import pytest

from mtgcn.benchmark.curves import Band, Curves
from mtgcn.benchmark.protocol import PAPER_TABLES
from mtgcn.benchmark.tables import stored_evidence
from mtgcn.datasets import describe
from mtgcn.report.page import html_page
from mtgcn.report.page_commands import commands

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Checked(HTMLParser):
    """Reads a page; every element must be closed in its turn."""

    def __init__(self, page):
        super().__init__()
        self.open, self.resources, self.ids, self.links, self.texts, self.tables = [], [], [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag in ("script", "link", "img", "iframe", "object", "use"):
            self.resources.append((tag, attributes))
        self.links += [attributes[name] for name in ("href", "src", "xlink:href") if name in attributes]
        self.ids += [attributes["id"]] if "id" in attributes else []
        if tag == "tr":
            self.tables.append([])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert "svg" in self.open, f"<{tag}/> is no HTML"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        if "tr" in self.open and data.strip():
            self.tables[-1].append(data.strip())

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def page_of(*parts, counts=()):
    return html_page(stored_evidence({name: rows for units in parts for name, rows in units.items()}), counts)


@pytest.fixture
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


def test_the_page_is_sound_and_needs_nothing_but_itself(full):
    page = Checked(full)
    assert page.resources == []
    assert page.links
    assert all(link.startswith("#") for link in page.links)
    assert {link.removeprefix("#") for link in page.links} == set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert not re.search(r"https?:|url\(|@import", full)


def test_every_printed_and_every_measured_value_is_there(full, stored):
    rows = Checked(full).tables
    for table in PAPER_TABLES:
        for cell in table.cells:
            for entry in cell.entries:
                if entry.printed is not None:
                    assert any(f"{entry.printed:.1f}" in row for row in rows), (table.name, cell.dataset, entry)
    for unit_rows in stored().values():
        mean = 100 * sum(row.accuracy for row in unit_rows) / len(unit_rows)
        assert any(f"{mean:.1f}" in row for row in rows)


def test_a_row_says_paper_ours_interval_and_difference(stored):
    page = Checked(page_of(stored(tables=["2"], methods=["gcn", "mt-gcn"], runs=1)))
    # Places are numbered cell by cell: GCN has 40.0, 40.2, 40.4 and 40.6 per cent, where 42.6 to 74.9 are printed.
    assert ["GCN-V", "42.6", "40.0", "one run", "−2.6", "56.9", "40.2", "one run", "−16.7"] in [
        row[:9] for row in page.tables
    ]
    # MT-GCN is always 0.1 ahead.
    assert ["GCN-V", *["−0.1", "one run", "1"] * 4] in page.tables
    assert ["GCN-V", *["1.50"] * 4] in page.tables  # seconds
    assert ["GCN-V", *["12.5", "one run"] * 4] in page.tables  # calibration error


def test_optimistic_numbers_say_so(stored, full):
    assert "optimistic" not in page_of(stored(tables=["2"])).split("</style>")[1].lower()
    marked = [row for row in Checked(full).tables if "authors’ way, optimistic" in row]
    assert [row[0] for row in marked] == ["MT-GCN"] * 4
    assert Checked(page_of(stored(protocol="paper"))).text.count("authors’ way, optimistic") == 4


def test_a_single_unit_makes_a_page(stored):
    units = stored(tables=["2"], methods=["mt-gcn"], runs=1)
    name = next(iter(units))
    page = page_of({name: units[name]})
    assert set(Checked(page).ids) == {"tables", "label-rates", "calibration", "time"}
    assert page.count("<svg") == 2


def test_sections_follow_what_is_stored(stored, full):
    assert set(Checked(full).ids) == {
        "tables",
        "label-rates",
        "differences",
        "ranks",
        "calibration",
        "time",
        "ablation",
        "backbones",
    }
    alone = Checked(page_of(stored(ablation=True, tables=["2"])))
    assert {"ablation", "tables"} <= set(alone.ids)
    assert "without L_pl" in alone.text
    assert "warm-up of 300 epochs" in alone.text


def test_backbones_show_alone_taught_and_what_it_adds(stored):
    page = Checked(page_of(stored(backbones=True, tables=["2"], runs=1)))
    # Places are numbered cell by cell: gcn alone, gcn taught, chebyshev alone …, each 0.1 above the one before.
    rows = [row for row in page.tables if row[0] == "APPNP"]
    assert rows[0] == ["APPNP", "4", "+0.1", "+0.1", "+0.1", "0", "0"]  # cells, mean, smallest, largest, sure ones
    assert rows[1][:8] == ["APPNP", "40.4", "one run", "40.5", "one run", "+0.1", "one run", "1"]
    assert {row[0] for row in page.tables} >= {"GCN", "Chebyshev", "APPNP", "GAT"}


def test_a_network_that_was_only_run_alone_gains_nothing_yet(stored):
    units = stored(backbones=True, tables=["2"], runs=1)
    [first, *_] = units
    page = Checked(page_of({first: units[first]}))
    assert ["GCN", "40.0", "one run"] in page.tables
    assert "mean gain" not in page.text


def test_training_curves_are_drawn_with_the_moment_teaching_begins(stored):
    units = stored(tables=["2"], methods=["mt-gcn"])
    page = html_page(stored_evidence(units), curves=[curves_of(), curves_of(seed=3)])
    section = page.split('<section id="training">')[1].split("</section>")[0]
    Checked(page)
    assert section.count("<h3>") == 1  # another seed stays away
    assert "cora, 2 labels per class" in section
    assert "Mean of 7 runs on cpu." in section
    assert section.count("<svg") == 3
    assert section.count("teaching begins</text>") == 2  # the third picture begins there
    assert "Case Based" in section
    assert "class 7" in section
    assert "Rare" not in section  # which was never taught
    assert "--curves" in page
    assert "--curves" not in html_page(stored_evidence(units), curves=[curves_of(seed=3)])


def test_rows_made_on_another_device_say_so(stored):
    here = stored(tables=["2"], methods=["gcn", "mt-gcn"], device="cuda (some GPU)", runs=1)
    there = stored(tables=["2"], methods=["lp"], runs=1)
    page = Checked(page_of(here, there))
    rows = [row for row in page.tables if "LP" in row[0]]
    assert rows
    assert all(row[1] == "on cpu" for row in rows)
    assert not any("on cpu" in row for row in page.tables if row[0] in ("GCN-V", "MT-GCN"))
    assert "some rows cpu, 1 thread per unit of work" in page.text
    evidence = stored_evidence(here | there)
    assert commands(evidence) == [
        "mtgcn reproduce --table 2 --methods lp --runs 1 --device cpu",
        "mtgcn reproduce --table 2 --methods gcn,mt-gcn --runs 1 --device cuda",
    ]


def test_names_are_escaped(stored):
    units = stored(tables=["2"], methods=["gcn", "lp", "mt-gcn"])
    odd = "<b>&\"'"
    renamed = {
        name: tuple(type(row)(**{**vars(row), "method": odd if row.method == "gcn" else row.method}) for row in rows)
        for name, rows in units.items()
    }
    page = page_of(renamed)
    assert "<b>" not in page
    assert odd in Checked(page).text


def test_table_1_stands_beside_the_printed_counts(stored):
    units = stored(tables=["digits"], methods=["gcn"])
    assert "Table 1" not in page_of(units, counts=[describe("digits")])  # of which the paper prints nothing


@pytest.mark.data
def test_table_1_from_the_data(stored):
    page = Checked(page_of(stored(tables=["2"], methods=["gcn"]), counts=[describe("cora")]))
    assert ["cora", "2708", "2708", "5429", "5429", "7", "7", "1433", "1433"] in page.tables


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
def test_the_command_asks_for_the_rows_shown(stored, selection, command):
    assert commands(stored_evidence(stored(**selection)))[-1] == command
