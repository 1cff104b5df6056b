"""`mtgcn fit`, `predict` and `suggest`: files in, files out."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtgcn.commands.file_options import takes_graph_files
from mtgcn.commands.shared import AsJson, Device, Seed, Settings, listed, print_json, remark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mtgcn.own_graph.inputs import GraphFiles

ModelFolder = Annotated[Path, typer.Argument(help="Where mtgcn fit put the model.", metavar="MODEL")]


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
    files: GraphFiles,
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
    folds: Annotated[
        int, typer.Option(help="Parts of the labels held out in turn to measure accuracy; 0: do not.", metavar="N")
    ] = 5,
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
        from mtgcn.own_graph.checking import check_files, check_lines

        _tell(check_files(files, **asked), check_lines, as_json)
    else:
        from mtgcn.own_graph.fitting import fit_files
        from mtgcn.own_graph.summary import summary_lines

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
    out: Annotated[Path, typer.Option(help="CSV file for the predictions.", metavar="FILE")],
    files: GraphFiles,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """The class of every node: those the model was fitted on or, with files, those of a graph it has not seen.

    With --nodes alone, nodes of the fit get its answer, known by their ids; others are attached to the most similar.
    """
    from mtgcn.own_graph.predicting import predict_files

    predictions, notes = predict_files(model, files, out=out, device=device)
    counts = predictions.count_by_class()
    if as_json:
        print_json({"predictions": out, "nodes": len(predictions.ids), "predicted": counts, "notes": notes})
    else:
        for note in notes:
            remark(f"note: {note}")
        print(f"{len(predictions.ids)} nodes:", ", ".join(f"{name} {count}" for name, count in counts.items()))
        print(out)


def suggest(
    model: ModelFolder,
    count: Annotated[int, typer.Option(help="How many nodes.", metavar="N")] = 10,
    as_json: AsJson = False,
) -> None:
    """Which nodes to label next, and why."""
    from mtgcn.estimator.model_folder import load_model

    suggestions = load_model(model).suggest(count)
    if as_json:
        print_json({"suggestions": [asdict(suggestion) for suggestion in suggestions]})
    else:
        from mtgcn.own_graph.suggestion_table import suggestion_table
        from mtgcn.report.tables import print_table

        print_table(suggestion_table(suggestions))
