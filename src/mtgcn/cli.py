"""The command `mtgcn`: arguments only. Each command imports what it needs, so that `--help` stays fast."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

import mtgcn
from mtgcn.commands import own_graph
from mtgcn.commands.shared import (
    AsJson,
    Columns,
    Device,
    Edges,
    Features,
    GraphFile,
    Knn,
    Labels,
    Metric,
    Nodes,
    Seed,
    Settings,
    graph_files,
    listed,
    print_json,
    remark,
)
from mtgcn.errors import InputError

if TYPE_CHECKING:
    from mtgcn.benchmark.protocol import Protocol
    from mtgcn.benchmark.summary import CellSummary
    from mtgcn.graph import Graph
    from mtgcn.methods import Method
    from mtgcn.own_graph.inputs import GraphFiles

BAD_INPUT = 2  # the exit status of everything a person can mend
INTERRUPTED = 130  # as shells count it

app = typer.Typer(
    name="mtgcn",
    help="Classify the nodes of a graph from a handful of labels.",
    add_completion=False,
    pretty_exceptions_enable=False,
)

Dataset = Annotated[str, typer.Option(help="A name that mtgcn datasets lists, say cora.")]
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
        metavar="random|over-all|public|FILE",
    ),
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0, or 2 after one line about bad input. Anything else is a traceback."""
    try:
        status = app(args=arguments, prog_name="mtgcn", standalone_mode=False)
    except typer.TyperException as error:
        return _complain(error.format_message())
    except InputError as error:
        return _complain(str(error))
    if status == INTERRUPTED:
        print("mtgcn: interrupted", file=sys.stderr)
    return status or 0


def _complain(message: str) -> int:
    print("mtgcn: error:", " ".join(message.split()), file=sys.stderr)
    return BAD_INPUT


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        print(f"mtgcn {mtgcn.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit


@app.command()
def datasets(as_json: AsJson = False) -> None:
    """The paper's table 1 from the data themselves, other graphs beside it, and where they lie. Fetches nothing."""
    from mtgcn.datasets import NAMES, describe, where

    descriptions = [describe(name) for name in NAMES if where(name)]
    absent = [name for name in NAMES if not where(name)]
    if as_json:
        print_json({"datasets": [asdict(description) for description in descriptions], "absent": absent})
    else:
        from mtgcn.report.tables import dataset_table, print_table

        print_table(dataset_table(descriptions, absent))


@app.command()
def run(
    dataset: Dataset,
    method: Annotated[str, typer.Option(help="For instance mt-gcn, gcn or gcn+v.")] = "mt-gcn",
    labels_per_class: LabelsPerClass = None,
    runs: Runs = None,
    seed: Seed = 0,
    split: SplitSource = "random",
    device: Device = "auto",
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """One method on one dataset, over many splits."""
    from mtgcn.methods import method_from_text

    chosen = {method: method_from_text(method, settings or ())}
    [cell] = _run_cells(lambda: _dataset(dataset), chosen, labels_per_class, runs, seed, split, device)
    if as_json:
        print_json(asdict(cell))
    else:
        from mtgcn.report.tables import cell_table, print_table

        print_table(cell_table(cell))


@app.command()
def compare(
    dataset: Annotated[str | None, typer.Option(help="A name that mtgcn datasets lists; or give own files.")] = None,
    methods: Annotated[str, typer.Option(help="Names with commas between.", metavar="NAME,NAME…")] = "gcn,mt-gcn",
    labels_per_class: LabelsPerClass = None,
    runs: Runs = None,
    seed: Seed = 0,
    split: SplitSource = "random",
    device: Device = "auto",
    edges: Edges = None,
    nodes: Nodes = None,
    labels: Labels = None,
    graph: GraphFile = None,
    knn: Knn = None,
    metric: Metric = "euclidean",
    columns: Columns = None,
    features: Features = None,
    as_json: AsJson = False,
) -> None:
    """Several methods on the same splits: means, intervals and paired differences. Of own files, the labels that a
    split does not draw are what it is scored on."""
    from mtgcn.benchmark.summary import compare_cells
    from mtgcn.methods import method_from_text

    files = graph_files(
        edges=edges, nodes=nodes, labels=labels, graph=graph, knn=knn, metric=metric, columns=columns, features=features
    )
    if (dataset is None) != files.given:
        raise InputError("nothing, or two things, to compare on; give either --dataset or own files, say --edges")
    if files.given and split == "public":
        raise InputError("own files have no public split; use --split random, or a split file")
    names = listed(methods, "methods")
    chosen = {name: method_from_text(name) for name in names}
    cells = _run_cells(
        lambda: _own_graph(files, quiet=as_json) if dataset is None else _dataset(dataset),
        chosen,
        labels_per_class,
        runs,
        seed,
        split,
        device,
    )
    comparison = compare_cells(cells, reference="mt-gcn" if "mt-gcn" in names else names[0])
    if as_json:
        print_json(asdict(comparison))
    else:
        from mtgcn.report.tables import comparison_table, print_table

        print_table(comparison_table(comparison))


@app.command()
def reproduce(
    table: Annotated[
        str | None, typer.Option(help="Tables of the paper, 1 to 5, or digits.", show_default="1 to 5", metavar="N,N…")
    ] = None,
    datasets: Annotated[
        str | None, typer.Option(help="Only these.", show_default="those of the paper", metavar="NAME,NAME…")
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(help="Only these, also some the paper lacks.", show_default="the paper's", metavar="NAME,NAME…"),
    ] = None,
    runs: Annotated[
        int | None, typer.Option(help="Runs of each cell.", show_default="30, PubMed 10", metavar="N")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Decides splits and all else that is random.", show_default="0", metavar="N")
    ] = None,
    protocol: Annotated[
        str,
        typer.Option(
            help="ours, or the authors' way of reporting, which is optimistic: the better peer by test accuracy, the "
            "largest of ten averages.",
            metavar="ours|paper",
        ),
    ] = "ours",
    ablation: Annotated[bool, typer.Option("--ablation", help="MT-GCN with parts taken out or turned.")] = False,
    backbones: Annotated[
        bool, typer.Option("--backbones", help="MT-GCN with other networks, each alone and taught.")
    ] = False,
    curves: Annotated[
        bool, typer.Option("--curves", help="Also draw MT-GCN's training at the lowest and highest label rates.")
    ] = False,
    final: Annotated[
        bool, typer.Option("--final", help="On splits kept for final figures; refuses development seeds.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder of the rows; what it holds is not run again.")] = Path(
        "reproduction"
    ),
    workers: Annotated[
        int | None,
        typer.Option(help="Processes; rows are the same for any number.", show_default="by cores", metavar="N"),
    ] = None,
    threads: Annotated[int, typer.Option(help="Of each unit of work; another number makes new rows.", metavar="N")] = 1,
    device: Device = "auto",
) -> None:
    """The paper's tables, measured anew. Stopped at any moment, the same command goes on where it was."""
    from mtgcn.benchmark.executors import default_workers
    from mtgcn.benchmark.protocol import checked_seed
    from mtgcn.benchmark.store import Store
    from mtgcn.benchmark.sweep import Selection, plan
    from mtgcn.environment import chosen_device, device_title
    from mtgcn.report.reproduction import fill_tables

    if workers is not None and workers < 1:
        raise InputError(f"workers is {workers}; give at least 1")
    selection = Selection(
        tables=None if table is None else listed(table, "table"),
        datasets=None if datasets is None else listed(datasets, "datasets"),
        methods=None if methods is None else listed(methods, "methods"),
        runs=runs,
        seed=checked_seed(seed, final=final),
        protocol=cast("Protocol", protocol),  # checked there
        ablation=ablation,
        backbones=backbones,
        curves=curves,
        device=device_title(chosen_device(device)),
        threads=threads,
    )
    planned = plan(selection)
    for name in planned.missing_methods:
        remark(f"leaving out {name}, which this version does not have")
    with Store(out, warn=lambda message: remark(f"warning: {message}")) as store:
        try:
            reproduction = fill_tables(planned, store, workers or default_workers(selection.device, threads))
        except KeyboardInterrupt:
            done = sum(place.unit.id in store.units for place in planned.units)
            remark(f"{done} of {len(planned.units)} units are stored in {out}; the same command goes on from there")
            raise
    print(reproduction.text)
    remark(f"wrote {', '.join(map(str, reproduction.files))}")
    if reproduction.failures:
        raise InputError("; ".join(reproduction.failures))


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Where mtgcn reproduce put its rows.", metavar="DIR")],
) -> None:
    """The page report.html and the LaTeX tables of what is stored in a folder, without running anything."""
    from mtgcn.benchmark.evidence import stored_evidence
    from mtgcn.benchmark.store import read_units
    from mtgcn.report.reproduction import write_report

    for path in write_report(folder, stored_evidence(read_units(folder))):
        print(path)


@app.command()
def demo() -> None:
    """MT-GCN against GCN with 2 labels per class: on Cora or, where Cora cannot be had, on digits."""
    from mtgcn.datasets import SourceUnreachable, load

    dataset = "cora"
    try:
        load(dataset)
    except SourceUnreachable as error:
        print(f"mtgcn: {error}\nmtgcn: going on with the digits of scikit-learn instead", file=sys.stderr)
        dataset = "digits"
    print(
        f"Two labels per class of {dataset}, 30 random splits: how many of the other nodes are classified rightly\n"
        "by a graph convolutional network alone, and by two that teach each other? The same as\n\n"
        f"    mtgcn compare --dataset {dataset} --labels-per-class 2\n",
        flush=True,
    )
    compare(dataset=dataset, labels_per_class="2")


for command in (own_graph.fit, own_graph.predict, own_graph.suggest):
    app.command()(command)


def _dataset(name: str) -> Graph:
    from mtgcn.datasets import load

    return load(name)


def _own_graph(files: GraphFiles, quiet: bool) -> Graph:
    from mtgcn.own_graph.inputs import read_graph
    from mtgcn.own_graph.notes import collected_notes

    with collected_notes() as notes:
        graph = read_graph(files)
    for note in () if quiet else notes:
        remark(f"note: {note}")
    return graph


def _run_cells(
    read_graph: Callable[[], Graph],
    methods: dict[str, Method],
    labels_per_class: str | None,
    runs: int | None,
    seed: int,
    split: str,
    device: str,
) -> list[CellSummary]:
    """Every method on the same splits, each with a progress bar. The graph is read once the rest is in order."""
    from mtgcn.benchmark.run import run_cell
    from mtgcn.benchmark.split_choice import chosen_splits
    from mtgcn.benchmark.summary import summarise_cell
    from mtgcn.environment import chosen_device
    from mtgcn.report.progress import fitting_progress

    label_counts = None if labels_per_class is None else _whole_numbers(labels_per_class, "labels-per-class")
    torch_device = chosen_device(device)
    graph = read_graph()
    splits = chosen_splits(
        split,
        graph,
        labels_per_class=label_counts,
        runs=runs,
        seed=seed,
        # Nodes that one method chooses its epoch on are scored for none.
        with_validation=any(method.uses_validation for method in methods.values()),
    )
    cells = []
    for name, method in methods.items():
        with fitting_progress(f"{name} on {graph.name}"):
            rows = run_cell(graph, splits, method, name=name, seed=seed, split_source=split, device=torch_device)
        cells.append(summarise_cell(rows))
    return cells


def _whole_numbers(text: str, option: str) -> int | tuple[int, ...]:
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{option} is {text!r}; give a whole number, or one per class with commas") from None
    return numbers[0] if len(numbers) == 1 else numbers
