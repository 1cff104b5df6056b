"""What to type to make the rows of a page anew."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import chain

from mtgcn.experiments.protocol import ALL_TABLES, FINAL_SEEDS, PAPER_TABLES, Suite
from mtgcn.experiments.tables import Evidence, Line


def commands(evidence: Evidence, *, with_curves: bool = False) -> list[str]:
    """What to type to make these rows anew; several lines if one command cannot."""
    lines = []
    for tables, kind in (
        (evidence.ours, []),
        (evidence.optimistic, ["--protocol", "paper"]),
        (evidence.ablation, ["--ablation"]),
        (evidence.backbones, ["--backbones"]),
    ):
        alike: dict[tuple[str, ...], dict[str, list[Line]]] = {}
        for table in tables:
            for line in table.lines:
                alike.setdefault(_how_it_was_made(line), {}).setdefault(table.name, []).append(line)
        for options, some in alike.items():
            lines.append(shlex.join(["mtgcn", "reproduce", *_narrowed(some, kind, evidence.suite), *kind, *options]))
    return [f"{lines[0]} --curves", *lines[1:]] if with_curves else lines


def _how_it_was_made(line: Line) -> tuple[str, ...]:
    """The options that ask for the runs, the seed, the threads and the device of a line, where they are unusual."""
    runs = line.runs // len(line.averages)
    options = ["--runs", str(runs)] if runs != line.place.cell.runs else []
    options += ["--final"] if line.seed in FINAL_SEEDS else []
    options += ["--seed", str(line.seed)] if line.seed not in (0, FINAL_SEEDS[0]) else []
    options += ["--threads", str(line.threads)] if line.threads != 1 else []
    return (*options, "--device", line.device.split()[0])


def _narrowed(lines: dict[str, list[Line]], kind: Sequence[str], suite: Suite | None) -> list[str]:
    """The options that ask for this suite or these tables, and for these datasets and methods, as far as they are not
    all there are."""
    tables = suite.tables if suite else [ALL_TABLES[name] for name in lines]
    cells = [cell for table in tables for cell in table.cells]
    if suite:
        options = ["--suite", suite.name]
    else:
        options = [] if {table.name for table in PAPER_TABLES} == set(lines) else ["--table", ",".join(lines)]
    datasets = list(dict.fromkeys(line.dataset for line in chain(*lines.values())))
    if set(datasets) != {cell.dataset for cell in cells}:
        options += ["--datasets", ",".join(datasets)]
    methods = list(dict.fromkeys(line.method for line in chain(*lines.values())))
    listed = {entry.method for cell in cells if cell.dataset in datasets for entry in cell.entries}
    if not kind and set(methods) != listed:
        options += ["--methods", ",".join(methods)]
    return options
