"""A plan carried out: its units run where they are not stored, its tables written into the folder of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mtgcn.benchmark.curves import draw_curves, read_curves
from mtgcn.benchmark.evidence import Evidence, stored_evidence
from mtgcn.benchmark.executors import in_this_process, in_workers
from mtgcn.benchmark.measured import measured_tables
from mtgcn.benchmark.store import Store, write_text
from mtgcn.benchmark.sweep import Plan, TimeLeft, run_missing
from mtgcn.benchmark.units import Unit
from mtgcn.datasets import describe, where
from mtgcn.report.latex import latex_tables
from mtgcn.report.page import html_page
from mtgcn.report.progress import fitting_progress, sweep_progress
from mtgcn.report.summary_files import comma_separated, markdown


@dataclass(frozen=True)
class Reproduction:
    """What came of a plan."""

    text: str  # the tables, in Markdown
    files: tuple[Path, ...]
    failures: tuple[str, ...]  # units that cannot be run, and why


def fill_tables(plan: Plan, store: Store, workers: int) -> Reproduction:
    """Run what is missing, then write what all of it says.

    The summaries are of this plan, not of everything in the folder; our protocol, the authors', the ablation and the
    backbones each have files of their own. The page and the LaTeX tables are of everything in the folder.
    """
    counts = [describe(name) for name in plan.counted]  # first: a dataset that is nowhere should be said soon
    failed = _run_with_progress(plan, store, workers)
    tables = measured_tables(plan, store.units)
    text = markdown(tables, counts)
    name = f"summary{_kind(plan)}"
    files = [store.write_text(f"{name}.md", text)]
    if plan.selection.curves and plan.units:
        files.append(draw_curves(plan.selection, store.folder, fitting_progress))
    if tables:
        files.append(store.write_text(f"{name}.csv", comma_separated(tables)))
        like = tables[0].lines[0].rows[0]
        files += write_report(store.folder, stored_evidence(store.units, like))
    return Reproduction(text, tuple(files), failed)


def write_report(folder: Path, evidence: Evidence) -> list[Path]:
    """The page and the LaTeX tables, beside the rows. Nothing is fetched for them, and no sweep is disturbed."""
    shown = dict.fromkeys(line.dataset for table in (*evidence.ours, *evidence.optimistic) for line in table.lines)
    counts = [describe(name) for name in shown if where(name)]
    return [
        write_text(folder, "report.html", html_page(evidence, counts, read_curves(folder))),
        write_text(folder, "tables.tex", latex_tables(evidence)),
    ]


def _run_with_progress(plan: Plan, store: Store, workers: int) -> tuple[str, ...]:
    units = {place.unit.id: place.unit for place in plan.units}
    pending = {name: unit for name, unit in units.items() if name not in store.units}
    workers = max(1, min(workers, len(pending)))
    time_left = TimeLeft(store.units.values())
    first_guess = time_left.seconds(pending.values(), workers)
    with sweep_progress(len(units), len(units) - len(pending), first_guess) as advance:

        def on_done(unit: Unit) -> None:
            del pending[unit.id]
            if unit.id in store.units:
                time_left.saw(store.units[unit.id])
            advance(unit.title, time_left.seconds(pending.values(), workers))

        executor = in_this_process if workers == 1 else partial(in_workers, workers=workers)
        failed = run_missing(units.values(), store, executor, on_done)
    return tuple(f"{unit.title}: {error}" for unit, error in failed)


def _kind(plan: Plan) -> str:
    if plan.selection.ablation:
        return "-ablation"
    if plan.selection.backbones:
        return "-backbones"
    return "-paper" if plan.selection.protocol == "paper" else ""
