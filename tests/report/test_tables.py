"""Tables in a terminal, in a pipe and in LaTeX."""

import pytest
from rich.console import Console

from mtgcn.report import tables
from mtgcn.report.comparisons import comparison_table
from mtgcn.report.pages import html


@pytest.fixture
def terminal(capsys, monkeypatch):
    """Prints a table to a terminal of 80 columns; returns the lines."""

    def lines(table):
        monkeypatch.setattr(tables, "Console", lambda: Console(width=80, force_terminal=True, color_system=None))
        tables.print_table(table)
        return capsys.readouterr().out.splitlines()

    return lines


@pytest.mark.parametrize("name", ["mine:Shares", "correct-and-smooth, smoothing_steps=50"])
def test_comparison_table_fits_80_columns(terminal, compared, name):
    lines = terminal(comparison_table(compared(((name, 0.123), ("mt-plus", 0.98765)), seconds=40.0)))
    assert all(len(line.rstrip()) <= 80 for line in lines)
    [line] = [line for line in lines if "12.3 to" in line]
    assert all(number in line for number in ["12.3", "12.3 to 12.3", "-86.5", "-86.5 to -86.5"])
    assert "…" not in "".join(lines)


def test_piped_table_is_aligned_plain_text(capsys, compared):
    long = "a method with a name that is far longer than any terminal is wide, " * 4
    tables.print_table(comparison_table(compared((("lp", 0.5), (long, 0.61)))))
    title, heading, lp, other, caption = capsys.readouterr().out.splitlines()
    assert title == "Accuracy % on edges_1.csv, 3 labels per class, 4 runs"
    assert other.startswith(long)
    assert lp.index("50.0") == other.index("61.0") == heading.index("mean")
    assert caption.startswith("seed 7, cpu, 1 thread, torch ")
    assert not set(title + heading + lp + other + caption) & set("─│┃━┏┓└┘\x1b")
    assert not any(line.endswith(" ") for line in (title, heading, lp, other, caption))


def test_markup_is_text(compared, terminal):
    table = comparison_table(compared((("[bold]x[/bold]", 0.5),)))
    assert "[bold]x[/bold]" in tables.plain_text(table)
    assert any("[bold]x[/bold]" in line for line in terminal(table))


def test_html_escapes_and_groups():
    entries = [tables.Entry("-1.0", ("-2.0", "+0.0")), tables.Entry("<i>", bold=True, bar=(0.25, "c1"))]
    rows = [tables.Row("<b>", entries, note="on <cpu>", style="reference")]
    text = str(html(tables.Table(["method", "diff", "p"], rows, groups=["2 & more"])))
    assert '<tr><th rowspan="2">method</th><th colspan="2" class="cell-start">2 &amp; more</th></tr>' in text
    assert '<tr class="reference"><th scope="row">&lt;b&gt;<span class="range">on &lt;cpu&gt;</span></th>' in text
    assert '<td class="cell-start">−1.0<span class="range">−2.0 to +0.0</span></td>' in text
    bar = '<span class="meter" style="--share:25.0%;--own:var(--c1)"></span>'
    assert f'<td class="best">&lt;i&gt;{bar}</td>' in text
    assert ">semi-emb</td>" in html(tables.Table.of_text(["node", "class"], [("1", "semi-emb")], prose=True))
