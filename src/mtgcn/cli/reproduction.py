"""`mtgcn reproduce` and `report`: stored rows, and what is made of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from mtgcn.cli.options import Device, listed, remark
from mtgcn.errors import InputError

if TYPE_CHECKING:
    from mtgcn.experiments.protocol import Protocol


def reproduce(
    suite: Annotated[
        str | None,
        typer.Option(
            help="A suite of other graphs instead of the paper's tables.", show_default=False, metavar="world"
        ),
    ] = None,
    table: Annotated[
        str | None, typer.Option(help="Tables of the paper, 1 to 5, or digits.", show_default="1 to 5", metavar="N,N…")
    ] = None,
    datasets: Annotated[
        str | None,
        typer.Option(help="Only these.", show_default="those of the paper, or of the suite", metavar="NAME,NAME…"),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Only these, also some the paper lacks.",
            show_default="the paper's, or the suite's",
            metavar="NAME,NAME…",
        ),
    ] = None,
    runs: Annotated[
        int | None, typer.Option(help="Runs of each cell.", show_default="30, PubMed 10; of a suite 10", metavar="N")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of splits and methods.", show_default="0", metavar="N")] = None,
    protocol: Annotated[
        str,
        typer.Option(
            help="ours, or the authors' way of reporting, which is optimistic: the better peer by test accuracy, the "
            "largest of ten averages.",
            metavar="ours|paper",
        ),
    ] = "ours",
    ablation: Annotated[
        bool, typer.Option("--ablation", help="MT-GCN with parts removed or changed.", metavar="")
    ] = False,
    backbones: Annotated[
        bool, typer.Option("--backbones", help="MT-GCN with other networks, without and with teaching.", metavar="")
    ] = False,
    curves: Annotated[
        bool,
        typer.Option(
            "--curves", help="Also draw training curves of MT-GCN at the lowest and highest label rates.", metavar=""
        ),
    ] = False,
    final: Annotated[
        bool,
        typer.Option("--final", help="Use splits reserved for final figures; refuses development seeds.", metavar=""),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the rows; stored units are not run again.",
            show_default="reproduction, of a suite reproduction-NAME",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Processes; rows are the same for any number.", show_default="by cores", metavar="N"),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            help="Instead of --workers, a Ray cluster: HOST:PORT of its head node, auto for one that runs here, local "
            "for one that is started here and ends with the command. Rows are the same.",
            show_default=False,
            metavar="ADDRESS|local",
        ),
    ] = None,
    threads: Annotated[int, typer.Option(help="Of each unit of work; another number makes new rows.", metavar="N")] = 1,
    device: Device = "auto",
) -> None:
    """Measure the paper's tables, or a suite of other graphs. An interrupted command resumes when started again."""
    from mtgcn.environment import chosen_device
    from mtgcn.experiments.plan import Selection, plan
    from mtgcn.experiments.protocol import checked_seed
    from mtgcn.experiments.reproduce import carry_out, machines
    from mtgcn.experiments.store import Store
    from mtgcn.report.progress import fitting_progress, sweep_progress
    from mtgcn.report.reproduction import write_reproduction

    selection = Selection(
        suite=suite,
        tables=None if table is None else listed(table, "table"),
        datasets=None if datasets is None else listed(datasets, "datasets"),
        methods=None if methods is None else listed(methods, "methods"),
        runs=runs,
        seed=checked_seed(seed, final=final),
        protocol=cast("Protocol", protocol),  # checked there
        ablation=ablation,
        backbones=backbones,
        curves=curves,
        threads=threads,
    )
    out = out or Path("reproduction" if suite is None else f"reproduction-{suite}")
    with machines(device, threads, workers, ray) as found:
        if curves:
            chosen_device(found.device.split()[0])  # curves are trained on this machine
        planned = plan(replace(selection, device=found.device))
        for name in planned.missing_methods:
            remark(f"leaving out {name}, which this version does not have")
        with Store(out, warn=lambda message: remark(f"warning: {message}")) as store:
            try:
                reproduction = carry_out(planned, store, found, sweep_progress, fitting_progress)
            except KeyboardInterrupt:
                done = sum(unit.id in store.units for unit in planned.units)
                remark(f"{done} of {len(planned.units)} units are stored in {out}; the same command goes on from there")
                raise
            text, files = write_reproduction(out, reproduction)
    print(text)
    remark(f"wrote {', '.join(map(str, files))}")
    if reproduction.failures:
        raise InputError("; ".join(reproduction.failures))


def report(
    folder: Annotated[
        Path,
        typer.Argument(
            help="Where mtgcn fit put a model, or mtgcn reproduce, run or compare their rows.", metavar="MODEL|DIR"
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Of a model: where to write the page.", show_default="MODEL/report.html", metavar="FILE"),
    ] = None,
) -> None:
    """Write a page about stored results, without running anything.

    Of a model: report.html, with the map of its nodes and all predictions. Of stored rows: report.html and tables.tex
    for the paper's tables, report-NAME.html and tables-NAME.tex for a suite or, with comparison for a name, for what
    mtgcn run and compare put there.
    """
    from mtgcn.storage.files import check_file, current_path

    if current_path(folder, "card.json").exists():
        from mtgcn.estimator.persistence import load_model

        page = out or folder / "report.html"
        check_file(page)
        load_model(folder).report(page)
        print(page)
        return
    if out is not None:
        raise InputError(f"--out {out} is for the page of a model, and {folder} holds none; leave it out")
    from mtgcn.experiments.compare import stored_comparisons
    from mtgcn.experiments.store import PACKED_ROWS_FILE, ROWS_FILE, read_units
    from mtgcn.experiments.tables import of_sweeps, stored_evidence, suites_in
    from mtgcn.report.comparisons import write_comparisons
    from mtgcn.report.reproduction import write_report

    if not any((folder / name).is_file() for name in (ROWS_FILE, PACKED_ROWS_FILE)):
        raise InputError(
            f"{folder} holds neither a model (card.json) nor rows ({ROWS_FILE}); give a folder that mtgcn fit or mtgcn "
            "reproduce wrote"
        )
    units = read_units(folder)
    comparisons = stored_comparisons(units.values())
    written = write_comparisons(folder, comparisons) if comparisons else []
    if of_sweeps(units) or not comparisons:
        for suite in suites_in(units):
            written += write_report(folder, stored_evidence(units, suite=suite))
    for path in written:
        print(path)
