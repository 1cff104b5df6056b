"""The measured tables of a sweep as Markdown, for people, and as CSV, for programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from mtgcn.datasets import Description
from mtgcn.experiments.protocol import OVER_ALL, PROTOCOL_TITLES, PUBLIC
from mtgcn.experiments.tables import COUNTS, Line, MeasuredTable, table_1
from mtgcn.report.numbers import SIGNED, interval, number, percent


def markdown(tables: Sequence[MeasuredTable], counts: Sequence[Description] = ()) -> str:
    """All tables, one after the other."""
    return "\n".join([*_counts_section(counts), *(part for table in tables for part in _section(table))])


def comma_separated(tables: Sequence[MeasuredTable]) -> str:
    """One line per method and cell, with a heading; shares and not per cent, but for what the paper prints."""
    text = io.StringIO()
    records = [_record(table, line) for table in tables for line in table.lines]
    if records:
        writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
    return text.getvalue()


def _counts_section(counts: Sequence[Description]) -> list[str]:
    if not counts:
        return []
    rows = [
        [line.dataset, *(f"{counted} ({printed} printed)" for printed, counted in line.pairs)]
        for line in table_1(counts)
    ]
    return ["## Table 1: the datasets", "", *pipes(["dataset", *COUNTS], rows), ""]


def _section(table: MeasuredTable) -> list[str]:
    authors = table.protocol == "paper"
    notes = dict.fromkeys(f"{line.title}: {line.note}." for line in table.lines if line.note)
    numbered = f"Table {table.name}: " if table.name.isdigit() else ""
    return [
        f"## {numbered}{table.title}{' (optimistic)' if authors else ''}",
        "",
        f"Per cent; {PROTOCOL_TITLES[table.protocol]}.",
        "",
        *(pipes(*(_authors_columns(table.lines) if authors else _our_columns(table)))),
        "",
        *(f"{note}\n" for note in notes),
    ]


def _our_columns(table: MeasuredTable) -> tuple[list[str], list[list[str]]]:
    printed = any(line.printed is not None for line in table.lines)
    headings = ["cell", "method", "mean", "95 % interval", *(("printed", "difference") if printed else ())]
    headings += [f"minus {table.rival}", "95 % interval", "p (Holm)", "calibration error", "s per run"]
    rows = []
    for line in table.lines:
        test = line.against_rival
        against = ["", "", ""]
        if test:
            p_value = f"{test.p_corrected:.2g}"
            against = [
                percent(test.difference.mean, SIGNED),
                interval(test.difference, SIGNED),
                f"**{p_value}**" if test.is_significant else p_value,
            ]
        measured = [number(line.reported), interval(line.accuracy), *(_beside_the_printed(line) if printed else ())]
        cost = [percent(line.calibration_error.mean), f"{line.seconds_per_run:.2f}"]
        rows.append([_cell_title(line), line.title, *measured, *against, *cost])
    return headings, rows


def _authors_columns(lines: Sequence[Line]) -> tuple[list[str], list[list[str]]]:
    headings = ["cell", "method", "largest average (optimistic)", "mean of the averages", "printed", "difference"]
    rows = [
        [
            _cell_title(line),
            line.title,
            number(line.reported),
            percent(line.accuracy.mean),
            *_beside_the_printed(line),
        ]
        for line in lines
    ]
    return headings, rows


def _beside_the_printed(line: Line) -> list[str]:
    if line.printed is None or line.difference is None:
        return ["", ""]
    return [number(line.printed), number(line.difference, SIGNED)]


def _cell_title(line: Line) -> str:
    splits = {PUBLIC: ", public split", OVER_ALL: " on average, over all"}
    return f"{line.dataset} {line.labels_per_class}{splits.get(line.split, '')}"


def pipes(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table in Markdown."""
    return [f"| {' | '.join(row)} |" for row in (headings, ["---"] * len(headings), *rows)]


def _record(table: MeasuredTable, line: Line) -> dict[str, object]:
    test = line.against_rival
    return {
        "table": table.name,
        "protocol": "paper (optimistic)" if table.protocol == "paper" else table.protocol,
        "dataset": line.dataset,
        "labels_per_class": line.labels_per_class,
        "split": line.split,
        "method": line.method,
        "variant": line.title,
        "runs": line.runs,
        "seed": line.seed,
        "reported_percent": line.reported,
        "printed_percent": line.printed,
        "difference_percent": line.difference,
        "accuracy_mean": line.accuracy.mean,
        "accuracy_std": line.accuracy.std,
        "accuracy_low": line.accuracy.ci95[0],
        "accuracy_high": line.accuracy.ci95[1],
        "macro_f1_mean": line.macro_f1.mean,
        "calibration_error_mean": line.calibration_error.mean,
        "minus_reference_mean": test and test.difference.mean,
        "minus_reference_low": test and test.difference.ci95[0],
        "minus_reference_high": test and test.difference.ci95[1],
        "p_value": test and test.p_value,
        "p_value_holm": test and test.p_corrected,
        "seconds_per_run": line.seconds_per_run,
        "device": line.device,
        "threads": line.threads,
        "note": line.note,
    }
