"""`mtgcn fit`, `predict`, `suggest` and `label`: files in, files out."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtgcn.cli.file_options import takes_graph_files
from mtgcn.cli.shared import AsJson, Columns, Device, Seed, Settings, listed, print_json, remark
from mtgcn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mtgcn.io.options import TableOptions

ModelFolder = Annotated[Path, typer.Argument(help="Where mtgcn fit put the model.", metavar="MODEL")]
Folds = Annotated[
    int, typer.Option(help="Parts of the labels held out in turn to measure accuracy; 0: do not.", metavar="N")
]


@takes_graph_files()
def fit(
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the model; an older model there is replaced.",
            show_default="required, but for --check",
            metavar="DIR",
        ),
    ] = None,
    files: TableOptions,
    check: Annotated[
        bool, typer.Option("--check", help="Read everything, say what would be done, fit and write nothing.")
    ] = False,
    classes: Annotated[
        str | None,
        typer.Option(help="The classes there are; a label of another, or none of one, is an error.", metavar="A,B…"),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Also write one HTML page about the fit.", metavar="FILE")] = None,
    method: Annotated[
        str | None, typer.Option(help="For instance mt-gcn, gcn or lp.", show_default="mt-plus", metavar="NAME")
    ] = None,
    settings: Settings = None,
    folds: Folds = 5,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Learn the classes of all nodes of your own graph from the labels of a few."""
    asked: dict[str, Any] = {
        "method": method,
        "settings": settings or (),
        "classes": None if classes is None else listed(classes, "classes"),
        "folds": folds,
        "device": device,
    }
    if check:
        from mtgcn.workflows.checking import check_files, check_lines

        _tell(check_files(files, seed=seed, **asked), check_lines, as_json)
    else:
        from mtgcn.workflows.fitting import fit_files
        from mtgcn.workflows.summary import summary_lines

        _tell(fit_files(files, out=out, report=report, seed=seed, **asked), summary_lines, as_json)


def _tell(summary: Any, lines: Callable[[Any], Iterable[str]], as_json: bool) -> None:
    """One JSON object, or lines for a person."""
    if as_json:
        print_json(asdict(summary))
    else:
        print(*lines(summary), sep="\n")


@takes_graph_files("edges", "nodes", "graph", "columns", "unknown_nodes", "header")
def predict(
    model: ModelFolder,
    out: Annotated[Path, typer.Option(help="CSV file for the predictions; - is standard output.", metavar="FILE")],
    files: TableOptions,
    new_graph: Annotated[
        bool,
        typer.Option("--new-graph", help="--edges and --nodes are a graph of their own, not part of the model's."),
    ] = False,
    with_known: Annotated[
        bool, typer.Option("--all", help="Beside new nodes, list those of the fit with its answers.")
    ] = False,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """The class of every node: those the model was fitted on or, with files, new ones.

    With --nodes and --edges, new nodes join the graph that the model knows: edges may lead to its nodes, by their ids.
    With --nodes alone, nodes of the fit get its answer, known by their ids; others are attached to the most similar.
    --graph, or --edges with --new-graph, is a graph of its own.
    """
    from mtgcn.workflows.predicting import predict_files
    from mtgcn.workflows.tables_out import is_standard_output

    _check_output(out, as_json)
    predictions, notes = predict_files(model, files, out=out, new_graph=new_graph, with_known=with_known, device=device)
    counts = predictions.count_by_class()
    if as_json:
        print_json({"predictions": out, "nodes": len(predictions.ids), "predicted": counts, "notes": notes})
        return
    for note in notes:
        remark(f"note: {note}")
    found = ", ".join(f"{name} {count}" for name, count in counts.items())
    if is_standard_output(out):
        remark(f"{len(predictions.ids)} nodes: {found}")
    else:
        print(f"{len(predictions.ids)} nodes: {found}")
        print(out)


def label(
    model: ModelFolder,
    labels: Annotated[
        Path, typer.Argument(help="Labels of some of its nodes: id and class. CSV or Parquet.", metavar="LABELS")
    ],
    new_classes: Annotated[
        str | None, typer.Option(help="Classes that no label had before; others are an error.", metavar="A,B…")
    ] = None,
    columns: Columns = None,
    folds: Folds = 5,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Add labels to a model, or correct some, and fit it again from what it keeps: no other file is needed.

    Embeddings are not made again. The model in the folder is replaced once the new one is whole.
    """
    from mtgcn.io.options import parsed_roles
    from mtgcn.workflows.labelling import label_files, label_lines

    summary = label_files(
        model,
        labels,
        columns=parsed_roles(columns or ()),
        new_classes=() if new_classes is None else listed(new_classes, "new classes"),
        folds=folds,
        device=device,
    )
    if as_json:
        print_json(asdict(summary))
    else:
        print(*label_lines(summary), sep="\n")


def suggest(
    model: ModelFolder,
    count: Annotated[int, typer.Option(help="How many nodes.", metavar="N")] = 10,
    out: Annotated[
        Path | None,
        typer.Option(
            help="CSV file for them, with an empty column label to fill in for mtgcn label; - is standard output.",
            metavar="FILE",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Which nodes to label next, and why. Asking for more changes none of the first."""
    from mtgcn.estimator.model_folder import load_model
    from mtgcn.workflows.suggestion_table import suggestion_table, write_suggestions
    from mtgcn.workflows.tables_out import is_standard_output

    if out is not None:
        _check_output(out, as_json)
    suggestions = load_model(model).suggest(count)
    if out is not None:
        write_suggestions(out, suggestions)
    if as_json:
        print_json({"suggestions": [asdict(suggestion) for suggestion in suggestions]})
    elif out is None:
        from mtgcn.report.tables import print_table

        print_table(suggestion_table(suggestions))
    elif not is_standard_output(out):
        print(out)


def _check_output(out: Path, as_json: bool) -> None:
    """Refuse two results on standard output, and a file that could not be written."""
    from mtgcn.workflows.tables_out import check_output, is_standard_output

    check_output(out)
    if as_json and is_standard_output(out):
        raise InputError(f"--out {out} and --json both print on standard output; give a file, or leave out --json")
