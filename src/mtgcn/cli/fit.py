"""`mtgcn fit`, `predict`, `suggest`, `label` and `studio`: models of graphs in files."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from mtgcn.cli.options import (
    AsJson,
    Columns,
    Device,
    FileOptions,
    Seed,
    Settings,
    dataset_names,
    listed,
    method_names,
    option,
    print_json,
    print_result,
)
from mtgcn.errors import InputError

ModelFolder = Annotated[Path, typer.Argument(help="Model folder that mtgcn fit wrote.", metavar="MODEL")]
Folds = Annotated[int, option("Folds of the cross-validated accuracy estimate; 0: no estimate.", "N")]


def fit(
    *,
    out: Annotated[
        Path | None, option("Folder for the model, replaced if it has one.", "DIR", default="required without --check")
    ] = None,
    files: FileOptions,
    check: Annotated[
        bool, option("Read and check everything, report it, fit and write nothing.", None, "--check")
    ] = False,
    classes: Annotated[
        str | None, option("The expected classes; a label of another, or none of one, is an error.", "A,B…")
    ] = None,
    report: Annotated[Path | None, option("Also write an HTML page about the fit.", "FILE")] = None,
    method: Annotated[
        str | None, option("For instance mt-gcn, gcn or lp.", "NAME", default="mt-plus", complete=method_names)
    ] = None,
    settings: Settings = None,
    folds: Folds = 5,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Classify all nodes of your own graph from a few labels.

    Reports label coverage and a cross-validated accuracy estimate, and warns when predictions are unreliable.
    """
    from mtgcn.workflows.fit import fit_files, summary_lines

    summary = fit_files(
        files.table_options(),
        out=out,
        report=report,
        check=check,
        method=method,
        settings=settings or (),
        classes=listed(classes, "classes"),
        folds=folds,
        seed=seed,
        device=device,
    )
    print_result(asdict(summary), summary_lines(summary), as_json, written=summary.model)


def predict(
    model: ModelFolder,
    out: Annotated[Path, option("CSV file for the predictions; - is standard output.", "FILE")],
    files: Annotated[FileOptions, "edges", "nodes", "graph", "columns", "unknown_nodes", "header"],
    new_graph: Annotated[
        bool, option("--edges and --nodes are a graph of their own, not part of the model's.", None, "--new-graph")
    ] = False,
    with_known: Annotated[bool, option("List the nodes of the model beside new nodes.", None, "--all")] = False,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Predict the class of every node of the model's graph or, with files, of new nodes.

    With --nodes and --edges, new nodes join the graph of the model: edges refer to its nodes by id. With --nodes only,
    ids of the model get the predictions of the fit, and other nodes are attached to their nearest neighbours.
    --graph, or --edges with --new-graph, is a graph of its own.
    """
    from mtgcn.workflows.output import is_standard_output

    _check_output(out, as_json)  # before torch is imported
    from mtgcn.workflows.predict import predict_files

    predictions, notes = predict_files(
        model, files.table_options(), out=out, new_graph=new_graph, with_known=with_known, device=device
    )
    counts = predictions.count_by_class()
    found = f"{len(predictions.ids)} nodes: {', '.join(f'{name} {count}' for name, count in counts.items())}"
    content = {"predictions": out, "nodes": len(predictions.ids), "predicted": counts, "notes": notes}
    remarks = [f"note: {note}" for note in notes]
    if is_standard_output(out):
        print_result(content, (), as_json, [*remarks, found])
    else:
        print_result(content, (found, out), as_json, remarks, written=out)


def label(
    model: ModelFolder,
    labels: Annotated[
        Path, typer.Argument(help="Labels of some of its nodes: id and class. CSV or Parquet.", metavar="LABELS")
    ],
    new_classes: Annotated[
        str | None, option("Classes that the model does not have yet; others are an error.", "A,B…")
    ] = None,
    columns: Columns = None,
    folds: Folds = 5,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Add or correct labels of a model and fit it again. Needs no other file.

    Embeddings are reused. The model in the folder is replaced once the refit is complete.
    """
    from mtgcn.io.options import parsed_roles
    from mtgcn.workflows.fit import label_files, label_lines

    summary = label_files(
        model,
        labels,
        columns=parsed_roles(columns or ()),
        new_classes=listed(new_classes, "new classes") or (),
        folds=folds,
        device=device,
    )
    print_result(asdict(summary), label_lines(summary), as_json, written=summary.refit and summary.model)


def suggest(
    model: ModelFolder,
    count: Annotated[int, option("Number of nodes.", "N")] = 10,
    out: Annotated[
        Path | None,
        option("CSV file with an empty column label, to fill in for mtgcn label; - is standard output.", "FILE"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Suggest nodes to label next, with reasons. A larger --count keeps the first suggestions."""
    from mtgcn.estimator.persistence import load_model
    from mtgcn.workflows.output import is_standard_output, table_bytes, write_output

    if out is not None:
        _check_output(out, as_json)
    suggestions = load_model(model).suggest(count)
    if out is not None:
        rows = ([str(one.node), "", one.predicted, f"{one.score:.6f}", one.reason] for one in suggestions)
        write_output(out, table_bytes(["id", "label", "predicted", "score", "reason"], rows))
    if as_json:
        print_json({"suggestions": [asdict(suggestion) for suggestion in suggestions]})
    elif out is None:
        from mtgcn.report.tables import Table, print_table

        cells = [(str(one.node), one.predicted, f"{one.score:.2f}", one.reason) for one in suggestions]
        print_table(
            Table.of_text(["node", "predicted", "score", "why"], cells, title="Nodes to label next", prose=True)
        )
    elif not is_standard_output(out):
        print_result({}, (out,), as_json, written=out)


def studio(
    model: Annotated[
        Path | None,
        typer.Argument(help="Start with graph and labels of a model saved by mtgcn fit.", metavar="[MODEL]"),
    ] = None,
    *,
    dataset: Annotated[
        str | None, option("Start with a built-in dataset, such as digits.", "NAME", complete=dataset_names)
    ] = None,
    files: FileOptions,
    project: Annotated[
        Path, option("Folder of the labels, files and model; nothing is written elsewhere.", "DIR")
    ] = Path("mtgcn-studio"),
    host: Annotated[str, option("Address of this machine to serve the page at.", "ADDRESS")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: any free port.", min=0, max=65535, metavar="N")] = 0,
    no_browser: Annotated[
        bool, option("Print the address without opening a browser.", "", "--no-browser", "--no-open")
    ] = False,
    device: Device = "auto",
) -> None:
    """Label nodes in the browser while a model predicts the rest.

    Prints the address of the page. Its token gives access to the project, so keep it private. An existing project is
    continued.
    """
    tables = files.table_options()
    named = {"a model": model is not None, f"--dataset {dataset}": dataset is not None, "files": tables.given}
    if sum(named.values()) > 1:
        both = " and ".join(name for name, given in named.items() if given)
        raise InputError(f"{both} are different graphs; give one of them")
    if importlib.util.find_spec("nicegui") is None:
        raise InputError("mtgcn studio needs NiceGUI, which is not installed; pip install 'mtgcn[studio]'")
    from mtgcn.storage.cache import cache_folder
    from mtgcn.studio.server import listen, serve

    with listen(host, port) as listener:  # fails before time is spent on loading
        from mtgcn.studio.fitting import CACHE, FitOptions, FitWorker
        from mtgcn.studio.project import Project
        from mtgcn.studio.source import MAX_UPLOAD_BYTES

        opened = Project(project)
        cache = opened.path(CACHE)
        cache.mkdir(exist_ok=True)
        os.environ.setdefault("MTGCN_DATA", str(cache_folder()))  # datasets are still found in the user's cache
        os.environ["MTGCN_CACHE"] = os.environ["NICEGUI_STORAGE_PATH"] = tempfile.tempdir = str(cache)
        from mtgcn.studio.page import studio_application  # imports NiceGUI, which reads the environment

        if model is not None:
            opened.load_model(model)
        if dataset is not None:
            opened.load_dataset(dataset)
        if tables.given:
            opened.load_files(tables)
        worker = FitWorker(opened, FitOptions(device=device))
        try:
            page = None if no_browser else opened.folder / "open.html"
            serve(studio_application(opened, worker), listener, host, MAX_UPLOAD_BYTES, page)
        finally:
            worker.close()


def _check_output(out: Path, as_json: bool) -> None:
    """Refuse two results on standard output, and an output that cannot be written."""
    from mtgcn.workflows.output import check_output, is_standard_output

    check_output(out)
    if as_json and is_standard_output(out):
        raise InputError(f"--out {out} and --json both print on standard output; give a file, or leave out --json")
