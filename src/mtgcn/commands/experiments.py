"""`mtgcn run`, `compare` and `demo`: methods on splits of one graph."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from mtgcn.commands.file_options import takes_graph_files
from mtgcn.commands.shared import (
    AsJson,
    Device,
    Seed,
    Settings,
    listed,
    print_json,
    remark,
)
from mtgcn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtgcn.benchmark.tables import Comparison
    from mtgcn.graph import Graph
    from mtgcn.methods import Method
    from mtgcn.own_graph.inputs import GraphFiles

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
    [cell] = _compared(lambda: _dataset(dataset), chosen, labels_per_class, runs, seed, split, device).cells
    if as_json:
        print_json(asdict(cell))
    else:
        from mtgcn.report.tables import cell_table, print_table

        print_table(cell_table(cell))


@takes_graph_files()
def compare(
    *,
    dataset: Annotated[str | None, typer.Option(help="A name that mtgcn datasets lists; or give own files.")] = None,
    methods: Annotated[str, typer.Option(help="Names with commas between.", metavar="NAME,NAME…")] = "gcn,mt-gcn",
    labels_per_class: LabelsPerClass = None,
    runs: Runs = None,
    seed: Seed = 0,
    split: SplitSource = "random",
    device: Device = "auto",
    files: GraphFiles,
    as_json: AsJson = False,
) -> None:
    """Several methods on the same splits: means, intervals and paired differences. Of own files, the labels that a
    split does not draw are what it is scored on."""
    from mtgcn.methods import method_from_text

    if (dataset is None) != files.given:
        raise InputError("nothing, or two things, to compare on; give either --dataset or own files, say --edges")
    if files.given and split == "public":
        raise InputError("own files have no public split; use --split random, or a split file")
    chosen = {name: method_from_text(name) for name in listed(methods, "methods")}
    comparison = _compared(
        lambda: _own_graph(files, quiet=as_json) if dataset is None else _dataset(dataset),
        chosen,
        labels_per_class,
        runs,
        seed,
        split,
        device,
    )
    if as_json:
        print_json(asdict(comparison))
    else:
        from mtgcn.report.tables import comparison_table, print_table

        print_table(comparison_table(comparison))


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


def _compared(
    read_graph: Callable[[], Graph],
    methods: dict[str, Method],
    labels_per_class: str | None,
    runs: int | None,
    seed: int,
    split: str,
    device: str,
) -> Comparison:
    """The methods on the same splits, each with a progress bar. The graph is read once the rest is in order."""
    from mtgcn.benchmark.compare import compare_methods
    from mtgcn.environment import chosen_device
    from mtgcn.report.progress import fitting_progress

    label_counts = None if labels_per_class is None else _whole_numbers(labels_per_class, "labels-per-class")
    torch_device = chosen_device(device)
    return compare_methods(
        read_graph(),
        methods,
        split=split,
        labels_per_class=label_counts,
        runs=runs,
        seed=seed,
        device=torch_device,
        progress=fitting_progress,
    )


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


def _whole_numbers(text: str, option: str) -> int | tuple[int, ...]:
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{option} is {text!r}; give a whole number, or one per class with commas") from None
    return numbers[0] if len(numbers) == 1 else numbers
