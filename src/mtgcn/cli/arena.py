"""`mtgcn arena`: methods on graphs and tables at several label rates."""

from __future__ import annotations

from pathlib import Path

from mtgcn.cli.options import DEVICE, SCORE, flag, listed, method_lists, option, remark, show
from mtgcn.errors import InputError

METHODS_HELP = "Names from mtgcn methods, or module:Class for user-defined methods."


def arena(
    *,
    graphs: str = option("Names from mtgcn datasets, or the groups graphs and tables.", "NAME,NAME…", default="graphs"),
    methods: str | None = option(METHODS_HELP, "NAME,NAME…", shown="those of the group", complete=method_lists),
    labels: str | None = option("Labels per class.", "N,N…", shown="1,2,3,5,10,20; for tables 3,5,20"),
    runs: int | None = option("Splits of each graph and label rate.", "N", shown="30; for tables 10"),
    seed: int | None = option("Seed of splits and methods.", "N", shown="0"),
    final: bool = flag("Use splits and tables reserved for final figures.", "--final"),
    validation_per_class: int = option("Validation labels, for methods that use them.", "N", default=0),
    out: Path | None = option("Folder for rows and page; stored units are not run again.", "DIR"),
    check: Path | None = option("Recompute some of the rows in a folder instead.", "DIR"),
    score: str = SCORE,
    workers: int | None = option("Number of processes.", "N", shown="by cores"),
    ray: str | None = option("Use a Ray cluster instead of --workers.", "ADDRESS|local"),
    device: str = DEVICE,
) -> None:
    """Compare methods on graphs or tables at several label rates, and write one page. An interrupted command resumes
    when started again."""
    from mtgcn.experiments.arena import arena_units, missing_units, record_failure, stored_arena
    from mtgcn.experiments.protocol import checked_seed
    from mtgcn.experiments.reproduce import machines, sweep
    from mtgcn.experiments.scoring import check_score
    from mtgcn.experiments.store import Store
    from mtgcn.report.arena import rank_table, rankings_of, score_table, write_arena
    from mtgcn.report.progress import sweep_progress
    from mtgcn.report.tables import markdown_lines

    names = listed(methods, "methods")
    check_score(score)
    if check is not None:
        _check(check, names or [], seed or 0, device)
        return
    if out is None:
        raise InputError("--out is missing; give a folder for the rows")
    try:
        rates = None if labels is None else [int(part) for part in listed(labels, "labels")]
    except ValueError:
        raise InputError(f"labels is {labels!r}; give comma-separated whole numbers, such as 1,5,20") from None
    seed = checked_seed(seed, final=final)
    with machines(device, 1, workers, ray) as found, Store(out, warn=lambda text: remark(f"warning: {text}")) as store:
        units = arena_units(
            listed(graphs, "graphs"),
            names,
            rates,
            runs=runs,
            seed=seed,
            validation_per_class=validation_per_class,
            device=found.device,
        )
        for unit, error in sweep(missing_units(units, store.units), store, found, sweep_progress):
            record_failure(out, unit, error)
            remark(f"{unit.title}: {error}")
        stored = stored_arena(out, store.units, seed, score)
    if stored is None:
        raise InputError(f"all {len(units)} units failed; the lines above give the reasons")
    remark(f"wrote {write_arena(out, stored)}")
    for part in stored.groups.values():
        rankings = rankings_of(part)  # none of two methods, or one cell
        show(*markdown_lines(rank_table(rankings) if rankings else score_table(part, None)))


def _check(folder: Path, methods: list[str], seed: int, device: str) -> None:
    """Recompute random units and compare their mean accuracies with those stored."""
    from mtgcn.environment import chosen_device, device_title
    from mtgcn.experiments.arena import TOLERANCE, recomputed
    from mtgcn.experiments.store import read_units

    differing = 0
    for title, stored, here in recomputed(read_units(folder), methods, seed, device_title(chosen_device(device))):
        differs = abs(stored - here) > TOLERANCE
        differing += differs
        show(f"{title}: stored {100 * stored:.2f} %, here {100 * here:.2f} %{', DIFFERENT' if differs else ''}")
    if differing:
        raise InputError(f"{differing} units differ by more than {100 * TOLERANCE:g} point; do not add these rows")
