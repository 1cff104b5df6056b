"""Tables as a terminal and as a pipe shows them."""

from pathlib import Path

import pytest
from rich.console import Console

from mtgcn.datasets import Description
from mtgcn.report.tables import comparison_table, dataset_table, plain_text, print_table


def description(name, **counts):
    known = {
        "nodes": 12345,
        "edges_listed": 1234567,
        "edges": 1234567,
        "self_loops": 12345,
        "classes": 10,
        "features": 12345,
        "components": 1234,
        "nodes_without_label": 12,
        "repeated_nodes": 12,
        "location": Path("/somewhere/far/far/away/in/a/folder/with/a/long/name/data"),
    }
    return Description(name=name, **known | counts)


def test_datasets_are_readable_at_80_columns():
    console = Console(width=80, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(dataset_table([description("amazon-photo"), description("cora", nodes=2708)]))
    lines = captured.get().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert [line.split("│")[1:3] for line in lines if "2708" in line] == [[" cora         ", "  2708 "]]
    assert len(lines) == 6  # three rules, a heading and two rows: nothing is wrapped


@pytest.mark.parametrize("name", ["mine:Shares", "correct-and-smooth, smoothing_steps=50"])
def test_a_comparison_keeps_its_numbers_whole_at_80_columns(compared, name):
    console = Console(width=80, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(comparison_table(compared(((name, 0.123), ("mt-plus", 0.98765)), seconds=40.0)))
    lines = captured.get().splitlines()
    assert all(len(line.rstrip()) <= 80 for line in lines)
    numbers = ["12.3", "12.3 to 12.3", "-86.5", "-86.5 to -86.5"]
    [line] = [line for line in lines if "12.3 to" in line]
    assert all(number in line for number in numbers)
    assert "…" not in captured.get()


def test_a_piped_table_has_aligned_columns_and_neither_lines_nor_wrapping(capsys, compared):
    long = "a method with a name that is far longer than any terminal is wide, " * 4
    print_table(comparison_table(compared((("lp", 0.5), (long, 0.61)))))
    title, heading, lp, other, caption = capsys.readouterr().out.splitlines()
    assert title == "Accuracy % on edges_1.csv, 3 labels per class, 4 runs"
    assert other.startswith(long)
    assert lp.index("50.0") == other.index("61.0") == heading.index("mean")
    assert caption.startswith("seed 7, cpu, 1 thread, torch ")
    printed = "".join((title, heading, lp, other, caption))
    assert not set(printed) & set("─│┃━┏┓└┘\x1b")
    assert not any(line.endswith(" ") for line in (title, heading, lp, other, caption))


def test_plain_text_keeps_what_looks_like_markup(compared):
    assert "[bold]x[/bold]" in plain_text(comparison_table(compared((("[bold]x[/bold]", 0.5),))))


@pytest.mark.parametrize("labels", [1, (1, 2, 3), None])
def test_titles_say_how_many_labels_there_were(compared, labels):
    title = plain_text(comparison_table(compared(labels_per_class=labels))).splitlines()[0]
    words = {
        1: "1 label per class",
        (1, 2, 3): "1, 2, 3 labels of the classes in turn",
        None: "labels that differ from run to run",
    }
    assert f"on edges_1.csv, {words[labels]}, 4 runs" in title
