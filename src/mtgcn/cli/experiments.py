"""`mtgcn run`, `compare` and `demo`: methods on splits of one graph."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtgcn.cli.file_options import takes_graph_files
from mtgcn.cli.options import (
    AsJson,
    Device,
    Seed,
    dataset_names,
    listed,
    method_lists,
    method_names,
    print_json,
    remark,
)

if TYPE_CHECKING:
    from mtgcn.io.options import TableOptions

DEMONSTRATED = "gcn,mt-gcn,mt-plus"

Dataset = Annotated[
    str | None,
    typer.Option(
        help="A name that mtgcn datasets lists, say cora; or give own files.",
        show_default=False,
        metavar="NAME",
        autocompletion=dataset_names,
    ),
]
LabelsPerClass = Annotated[
    str | None,
    typer.Option(help="Labels drawn from each class: one number, or one per class with commas.", metavar="N[,N…]"),
]
Runs = Annotated[
    int | None, typer.Option(help="How many splits, or seeds on a fixed split.", show_default="30", metavar="N")
]
SplitSource = Annotated[
    str,
    typer.Option(
        "--split",
        help="random (so many of each class), over-all (as many in all, classes as unequal as they are), public "
        "(Planetoid's own) or a JSON file.",
        metavar="NAME|FILE",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        help="Folder for the rows of every run, with tables and a page of all that it holds; what it holds is not run "
        "again.",
        metavar="DIR",
    ),
]
Latex = Annotated[Path | None, typer.Option(help="Also write the table for a paper.", metavar="FILE")]
Report = Annotated[Path | None, typer.Option(help="Also write one HTML page.", metavar="FILE")]


@takes_graph_files()
def run(
    *,
    context: typer.Context,
    dataset: Dataset = None,
    method: Annotated[
        str,
        typer.Option(
            help="One that mtgcn methods lists, or module:Class for one of your own.",
            metavar="NAME",
            autocompletion=method_names,
        ),
    ] = "mt-plus",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting that mtgcn methods NAME lists; may be repeated.", metavar="KEY=VALUE"),
    ] = None,
    labels_per_class: LabelsPerClass = None,
    runs: Runs = None,
    seed: Seed = 0,
    split: SplitSource = "random",
    device: Device = "auto",
    files: TableOptions,
    out: Out = None,
    latex: Latex = None,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """One method over many splits of one graph: a named one or your own files, scored on the labels that a split does
    not draw."""
    from mtgcn.workflows.comparing import Experiment, compare_graph

    done = compare_graph(
        Experiment(dataset, files, [method], settings or (), labels_per_class, runs, seed, split, device),
        out=out,
        latex=latex,
        report=report,
        command=context.obj or "",
    )
    [cell] = done.comparison.cells
    if as_json:
        print_json(asdict(cell) | done.remarks)
    else:
        from mtgcn.report.comparisons import cell_table
        from mtgcn.report.tables import print_table

        _tell(done.remarks)
        print_table(cell_table(cell))
    _name_files(done.files)


@takes_graph_files()
def compare(
    *,
    context: typer.Context,
    dataset: Dataset = None,
    methods: Annotated[
        str,
        typer.Option(
            help="Names that mtgcn methods lists, with commas between; module:Class is one of your own.",
            metavar="NAME,NAME…",
            autocompletion=method_lists,
        ),
    ] = DEMONSTRATED,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A setting of one method (gcn.hidden_channels=32), or of all that have it (hidden_channels=32); may "
            "be repeated.",
            metavar="KEY=VALUE",
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            help="The method that the others are measured against.",
            show_default="mt-plus, mt-gcn or the first",
            metavar="NAME",
            autocompletion=method_names,
        ),
    ] = None,
    labels_per_class: LabelsPerClass = None,
    runs: Runs = None,
    seed: Seed = 0,
    split: SplitSource = "random",
    device: Device = "auto",
    files: TableOptions,
    out: Out = None,
    latex: Latex = None,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Several methods on the same splits of one graph: means, intervals and paired differences. Of your own files, the
    labels that a split does not draw are what it is scored on."""
    from mtgcn.workflows.comparing import Experiment, compare_graph

    names = listed(methods, "methods")
    done = compare_graph(
        Experiment(dataset, files, names, settings or (), labels_per_class, runs, seed, split, device, reference),
        out=out,
        latex=latex,
        report=report,
        command=context.obj or "",
    )
    if as_json:
        print_json(asdict(done.comparison) | done.remarks)
    else:
        from mtgcn.report.comparisons import comparison_table
        from mtgcn.report.tables import print_table

        _tell(done.remarks)
        print_table(comparison_table(done.comparison))
    _name_files(done.files)


def demo() -> None:
    """A GCN, MT-GCN and mt-plus with 2 labels per class: on Cora or, where Cora cannot be had, on digits."""
    from mtgcn.datasets import SourceUnreachable, load
    from mtgcn.io.options import TableOptions
    from mtgcn.report.comparisons import comparison_table
    from mtgcn.report.tables import print_table
    from mtgcn.workflows.comparing import Experiment, compare_graph

    dataset = "cora"
    try:
        load(dataset)
    except SourceUnreachable as error:
        print(f"mtgcn: {error}\nmtgcn: going on with the digits of scikit-learn instead", file=sys.stderr)
        dataset = "digits"
    print(
        f"Two labels per class of {dataset}, 30 random splits: how many of the other nodes are classified rightly by\n"
        "a graph convolutional network alone (gcn), by two that teach each other (mt-gcn, the paper's method), and\n"
        "by eight peers that each see something else of a node (mt-plus, the default)? The same as\n\n"
        f"    mtgcn compare --dataset {dataset} --labels-per-class 2\n",
        flush=True,
    )
    experiment = Experiment(dataset, TableOptions(), listed(DEMONSTRATED, "methods"), labels_per_class="2")
    print_table(comparison_table(compare_graph(experiment).comparison))


def _tell(remarks: dict[str, list[str]]) -> None:
    for note in remarks["notes"]:
        remark(f"note: {note}")
    for warning in remarks["warnings"]:
        remark(f"warning: {warning}")


def _name_files(files: list[Path]) -> None:
    if files:
        remark(f"wrote {', '.join(map(str, files))}")
