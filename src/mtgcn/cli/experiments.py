"""`mtgcn run`, `compare` and `demo`: methods on splits of one graph."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from mtgcn.errors import InputError, shown, unknown_name

if TYPE_CHECKING:
    from mtgcn.experiments.compare import Comparison
    from mtgcn.graph import Graph
    from mtgcn.io.options import TableOptions
    from mtgcn.methods import Method
    from mtgcn.report.tables import Table

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
        help="random (from each class), over-all (from all nodes), public (Planetoid's own) or a JSON file.",
        metavar="NAME|FILE",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        help="Folder for rows, tables and a page; stored methods are not run again.",
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
    """Fit and score one method on many splits of a named graph or of your own files."""
    compared = _compare(
        [method],
        dataset,
        files,
        settings,
        labels_per_class=labels_per_class,
        runs=runs,
        seed=seed,
        split=split,
        device=device,
        out=out,
        latex=latex,
        report=report,
        command=context.obj or "",
    )
    from mtgcn.report.comparisons import cell_table

    [cell] = compared.comparison.cells
    compared.show(asdict(cell), cell_table(cell), as_json)


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
            help="The method that the others are compared with.",
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
    """Compare methods on the same splits of a named graph or of your own files: means, intervals, paired
    differences."""
    compared = _compare(
        listed(methods, "methods"),
        dataset,
        files,
        settings,
        labels_per_class=labels_per_class,
        runs=runs,
        seed=seed,
        split=split,
        device=device,
        reference=reference,
        out=out,
        latex=latex,
        report=report,
        command=context.obj or "",
    )
    from mtgcn.report.comparisons import comparison_table

    compared.show(asdict(compared.comparison), comparison_table(compared.comparison), as_json)


def demo() -> None:
    """A GCN, MT-GCN and mt-plus with 2 labels per class: on Cora or, where Cora cannot be had, on digits."""
    from mtgcn.datasets import SourceUnreachable, load
    from mtgcn.io.options import TableOptions
    from mtgcn.report.comparisons import comparison_table
    from mtgcn.report.tables import print_table

    dataset = "cora"
    try:
        load(dataset)
    except SourceUnreachable as error:
        remark(str(error))
        remark("continuing with the digits of scikit-learn")
        dataset = "digits"
    print(
        f"Accuracy on {dataset} with 2 labels per class and 30 random splits: a graph convolutional network (gcn),\n"
        "two that teach each other (mt-gcn, the paper's method), and eight peers with different views of a node\n"
        "(mt-plus, the default). The same as\n\n"
        f"    mtgcn compare --dataset {dataset} --labels-per-class 2\n",
        flush=True,
    )
    compared = _compare(listed(DEMONSTRATED, "methods"), dataset, TableOptions(), labels_per_class="2")
    print_table(comparison_table(compared.comparison))


@dataclass(frozen=True)
class _Compared:
    """A comparison, and the messages about it."""

    comparison: Comparison
    notes: list[str]  # on the files, and on settings that some methods do not have
    files: list[Path]  # written

    def show(self, content: dict[str, Any], table: Table, as_json: bool) -> None:
        """Print the content or the table on stdout, everything else on stderr."""
        from mtgcn.report.tables import print_table

        if not as_json:
            for kind, messages in (("note", self.notes), ("warning", self.comparison.warnings)):
                for message in messages:
                    remark(f"{kind}: {message}")
        if self.files:
            remark(f"wrote {', '.join(map(str, self.files))}")
        if as_json:
            print_json(content | {"notes": self.notes, "warnings": list(self.comparison.warnings)})
        else:
            print_table(table)


def _compare(
    names: Sequence[str],
    dataset: str | None,
    files: TableOptions,
    settings: Sequence[str] | None = None,
    *,
    labels_per_class: str | None = None,
    runs: int | None = None,
    seed: int = 0,
    split: str = "random",
    device: str = "auto",
    reference: str | None = None,
    out: Path | None = None,
    latex: Path | None = None,
    report: Path | None = None,
    command: str = "",
) -> _Compared:
    """Check the options, read the graph, compare with a progress bar, and write the files."""
    from mtgcn.environment import chosen_device
    from mtgcn.experiments.compare import compared_rows, comparison_of, stored_comparisons
    from mtgcn.experiments.protocol import PUBLIC, check_not_final
    from mtgcn.experiments.store import Store
    from mtgcn.report.comparisons import comparison_page, comparison_tables, write_comparisons
    from mtgcn.report.progress import fitting_progress
    from mtgcn.storage.files import check_files, check_folder, write_file

    if (dataset is None) != files.given:
        raise InputError("nothing, or two things, to compare on; give either --dataset or own files, say --edges")
    if files.given and split == PUBLIC:
        raise InputError("own files have no public split; use --split random, or a split file")
    check_not_final(seed)
    methods, setting_notes = configured_methods(names, settings or ())
    label_counts = _label_counts(labels_per_class)
    chosen = chosen_device(device)
    if out is not None:
        check_folder(out, "rows")
    check_files((latex, report))
    graph, notes = _read(dataset, files)
    notes += setting_notes
    written: list[Path] = []
    with nullcontext() if out is None else Store(out) as store:
        rows = compared_rows(
            graph,
            methods,
            split=split,
            labels_per_class=label_counts,
            runs=runs,
            seed=seed,
            device=chosen,
            reference=reference,
            progress=fitting_progress,
            store=store,
        )
        if store is not None:
            stored = stored_comparisons(store.units.values(), reference)
            written += [store.path, *write_comparisons(store.folder, stored)]
    comparison = comparison_of(rows, reference)
    texts: list[tuple[Path, str]] = []  # all rendered before the first is written
    if latex is not None:
        texts.append((latex, comparison_tables([comparison])))
    if report is not None:
        texts.append((report, comparison_page([comparison], command=command, notes=notes)))
    for path, text in texts:
        try:
            written.append(write_file(path, text))
        except InputError as error:
            before = f". Written before that: {', '.join(map(str, written))}" if written else ""
            raise InputError(f"{error}{before}") from error
    return _Compared(comparison, notes, written)


def configured_methods(names: Sequence[str], assignments: Sequence[str]) -> tuple[dict[str, Method], list[str]]:
    """The methods with these settings, and notes on settings that only some of them have.

    `gcn.hidden_channels=32` applies to one method, `hidden_channels=32` to all that have the setting.
    """
    from mtgcn.methods import method_from_text, typed_method_class
    from mtgcn.settings import described_settings

    settable = {name: {one.name for one in described_settings(typed_method_class(name))} for name in names}
    chosen: dict[str, list[str]] = {name: [] for name in names}
    notes = []
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        method, dot, setting = key.strip().rpartition(".")
        if dot:
            if method not in chosen:
                raise unknown_name(f"method in --set {assignment}:", method, chosen)
            chosen[method].append(f"{setting}{equals}{value}")
            continue
        having = [name for name in names if setting.replace("-", "_") in settable[name]]
        for name in having or names[:1]:  # if no method has the setting, the first raises the error
            chosen[name].append(assignment)
        if having and len(having) < len(names):
            lacking = [name for name in names if name not in having]
            notes.append(f"--set {assignment} is for {', '.join(having)}; no such setting: {', '.join(lacking)}")
    return {name: method_from_text(name, texts) for name, texts in chosen.items()}, notes


def _read(dataset: str | None, files: TableOptions) -> tuple[Graph, list[str]]:
    from mtgcn import datasets
    from mtgcn.workflows.inputs import read_graph
    from mtgcn.workflows.output import collected_notes

    if dataset is not None:
        return datasets.load(dataset), []
    with collected_notes() as notes:
        graph = read_graph(files)
    if not len(graph.known):
        raise InputError("no node is labelled, so nothing can be scored; give --labels, or a column 'label' in --nodes")
    return graph, notes


def _label_counts(text: str | None) -> int | tuple[int, ...] | None:
    if text is None:
        return None
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        counts = f"labels-per-class is {shown(text)}"
        raise InputError(f"{counts}; give a whole number, or one per class with commas") from None
    return numbers[0] if len(numbers) == 1 else numbers
