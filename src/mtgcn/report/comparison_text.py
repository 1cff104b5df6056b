"""A comparison in words, in Markdown for people and as CSV for programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from mtgcn.experiments.compare import Comparison
from mtgcn.experiments.protocol import OVER_ALL, PUBLIC, RANDOM
from mtgcn.experiments.tables import CellSummary
from mtgcn.report.numbers import SIGNED, interval, p_value, percent
from mtgcn.report.summary_files import pipes

HEADINGS = ("method", "mean", "95 % interval", "minus {reference}", "95 % interval", "p (Holm)", "macro F1", "seconds")


def cell_title(cell: CellSummary) -> str:
    """On what, with how many labels and how often something was measured."""
    return f"{cell.dataset or 'the graph'}, {labels_given(cell)}, {cell.runs} run{'s' if cell.runs > 1 else ''}"


def labels_given(cell: CellSummary) -> str:
    """How many labels a run was given, and who chose them where that was not chance."""
    counts = cell.labels_per_class
    if isinstance(counts, tuple):
        labels = f"{', '.join(map(str, counts))} labels of the classes in turn"
    elif counts is None:
        labels = "labels that differ from run to run"
    else:
        labels = f"{counts} label{'s' if counts != 1 else ''} per class"
    if cell.split == OVER_ALL:
        return f"{labels} drawn over all nodes"
    if cell.split == PUBLIC:
        return f"{labels}, public split"
    return labels if cell.split == RANDOM else f"{labels}, splits of {Path(cell.split).name}"


def graph_title(comparison: Comparison) -> str:
    """How large the graph is, and of how many nodes a run is scored on."""
    counts = comparison.graph
    return (
        f"{counts['nodes']} nodes, {counts['edges']} edges, {counts['features']} features, "
        f"{counts['classes']} classes; {comparison.scored_nodes} nodes scored in a run"
    )


def compared_cells(comparison: Comparison) -> list[list[str]]:
    """A comparison as the rows of a table, under `HEADINGS`; per cent and seconds."""
    rows = []
    for cell in comparison.cells:
        difference = comparison.differences.get(cell.method)
        against = ["", "", ""]
        if difference:
            against = [
                percent(difference.mean, SIGNED),
                interval(difference, SIGNED),
                p_value(comparison.p_values[cell.method]),
            ]
        measured = [cell.method, percent(cell.accuracy.mean), interval(cell.accuracy)]
        rows.append([*measured, *against, percent(cell.macro_f1.mean), f"{cell.seconds:.1f}"])
    return rows


def headings(comparison: Comparison) -> list[str]:
    return [heading.format(reference=comparison.reference) for heading in HEADINGS]


def markdown(comparisons: Sequence[Comparison]) -> str:
    """All comparisons, one after the other."""
    lines = []
    for comparison in comparisons:
        lines += [f"## Accuracy on {cell_title(comparison.cells[0])}", "", f"{graph_title(comparison)}. Per cent.", ""]
        lines += [*pipes(headings(comparison), compared_cells(comparison)), ""]
        lines += [f"Warning: {warning}.\n" for warning in comparison.warnings]
    return "\n".join(lines)


def comma_separated(comparisons: Sequence[Comparison]) -> str:
    """One line per method and comparison, with a heading; shares and not per cent."""
    text = io.StringIO()
    records = [_record(comparison, cell) for comparison in comparisons for cell in comparison.cells]
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def _record(comparison: Comparison, cell: CellSummary) -> dict[str, object]:
    difference = comparison.differences.get(cell.method)
    counts = cell.labels_per_class
    return {
        "dataset": cell.dataset,
        "labels_per_class": " ".join(map(str, counts)) if isinstance(counts, tuple) else counts,
        "split": cell.split,
        "method": cell.method,
        "runs": cell.runs,
        "seed": cell.seed,
        "scored_nodes": comparison.scored_nodes,
        "accuracy_mean": cell.accuracy.mean,
        "accuracy_std": cell.accuracy.std,
        "accuracy_low": cell.accuracy.ci95[0],
        "accuracy_high": cell.accuracy.ci95[1],
        "macro_f1_mean": cell.macro_f1.mean,
        "calibration_error_mean": cell.calibration_error.mean,
        "reference": comparison.reference,
        "minus_reference_mean": difference and difference.mean,
        "minus_reference_low": difference and difference.ci95[0],
        "minus_reference_high": difference and difference.ci95[1],
        "p_value_holm": comparison.p_values.get(cell.method),
        "seconds": cell.seconds,
        "device": cell.device,
        "threads": cell.threads,
    }
