"""What is written beside the rows: the summaries of a reproduction, the page and the LaTeX tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mtgcn.datasets import describe, where
from mtgcn.experiments.compare import Comparison
from mtgcn.experiments.curves import read_curves
from mtgcn.experiments.plan import Selection
from mtgcn.experiments.reproduce import Reproduction
from mtgcn.experiments.store import write_text
from mtgcn.experiments.tables import Evidence
from mtgcn.report import comparison_text
from mtgcn.report.comparison_page import comparison_page
from mtgcn.report.latex import comparison_tables, latex_tables
from mtgcn.report.page import html_page
from mtgcn.report.summary_files import comma_separated, markdown


def write_reproduction(folder: Path, reproduction: Reproduction) -> tuple[str, list[Path]]:
    """The tables in Markdown, and the files that were written.

    The summaries are of one plan; our protocol, the authors', the ablation, the backbones and each suite have files of
    their own. The page and the LaTeX tables are of everything in the folder that is the paper's, or the suite's.
    """
    name = f"summary{_kind(reproduction.plan.selection)}"
    text = markdown(reproduction.tables, reproduction.counts)
    files = [write_text(folder, f"{name}.md", text)]
    files += [reproduction.curves] if reproduction.curves else []
    if reproduction.evidence:
        files.append(write_text(folder, f"{name}.csv", comma_separated(reproduction.tables)))
        files += write_report(folder, reproduction.evidence)
    return text, files


def write_report(folder: Path, evidence: Evidence) -> list[Path]:
    """The page and the LaTeX tables, beside the rows. Nothing is fetched for them, and no sweep is disturbed."""
    shown = dict.fromkeys(line.dataset for table in (*evidence.ours, *evidence.optimistic) for line in table.lines)
    counts = [describe(name) for name in shown if where(name)]
    curves = [] if evidence.suite else read_curves(folder)  # which are of the paper's cells
    suffix = f"-{evidence.suite.name}" if evidence.suite else ""
    return [
        write_text(folder, f"report{suffix}.html", html_page(evidence, counts, curves)),
        write_text(folder, f"tables{suffix}.tex", latex_tables(evidence)),
    ]


def write_comparisons(folder: Path, comparisons: Sequence[Comparison]) -> list[Path]:
    """Everything about the comparisons whose rows lie in a folder, beside them."""
    return [
        write_text(folder, "summary-comparison.md", comparison_text.markdown(comparisons)),
        write_text(folder, "summary-comparison.csv", comparison_text.comma_separated(comparisons)),
        write_text(folder, "report-comparison.html", comparison_page(comparisons)),
        write_text(folder, "tables-comparison.tex", comparison_tables(comparisons)),
    ]


def _kind(selection: Selection) -> str:
    if selection.suite:
        return f"-{selection.suite}"
    if selection.ablation:
        return "-ablation"
    if selection.backbones:
        return "-backbones"
    return "-paper" if selection.protocol == "paper" else ""
