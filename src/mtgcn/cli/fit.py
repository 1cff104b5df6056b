"""`mtgcn fit`, `predict`, `explain`, `suggest`, `label`, `doubt`, `serve` and `studio`: models of graphs in files."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, replace
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtgcn.cli import options as cli
from mtgcn.errors import InputError

if TYPE_CHECKING:
    from mtgcn.uncertainty.suggestions import DoubtfulLabels, Suggestions

MODEL = typer.Argument(..., help="Model folder written by mtgcn fit.", metavar="MODEL")
PORT = typer.Option(0, help="0: any free port.", min=0, max=65535, metavar="N")
FOLDS = cli.option(
    "Number of folds that estimate the accuracy; 0 for no estimate.", "N", shown="the method's cross-validation, or 5"
)


def fit(
    *,
    out: Path | None = cli.option(
        "Folder for the model; replaces a model in it.", "DIR", shown="required without --check"
    ),
    files: cli.FileOptions,
    check: bool = cli.flag("Read, check and report everything without fitting or writing.", "--check"),
    classes: str | None = cli.option(
        "The expected classes; any other label, or a class without labels, is an error.", "A,B…"
    ),
    report: Path | None = cli.option("Also write an HTML page about the fit.", "FILE"),
    method: str | None = cli.option(
        "For instance mt-gcn, gcn or lp.", "NAME", shown="mt-plus", complete=cli.method_names
    ),
    settings: list[str] | None = cli.SETTINGS,
    folds: int | None = FOLDS,
    score: str = cli.SCORE,
    class_prior: str | None = cli.option(
        "Correct probabilities to these class shares: given ones, those of the labels (labelled), or estimated.",
        "A=0.2,B=0.8|labelled|estimated",
        shown="no correction",
    ),
    seed: int = cli.SEED,
    device: str = cli.DEVICE,
    as_json: bool = cli.AS_JSON,
) -> None:
    """Classify all rows of a table, or all nodes of a graph, from a few labels.

    Reports label coverage and a cross-validated accuracy estimate, and warns when predictions are unreliable.
    """
    from mtgcn.estimator.class_prior import parsed_prior
    from mtgcn.workflows.fit import fit_files, summary_lines

    summary = fit_files(
        files.table_options(),
        out=out,
        report=report,
        check=check,
        method=method,
        settings=settings or (),
        classes=cli.listed(classes, "classes"),
        folds=folds,
        score=score,
        class_prior=parsed_prior(class_prior),
        seed=seed,
        device=device,
    )
    cli.print_result(asdict(summary), summary_lines(summary), as_json, written=summary.model)


def predict(
    *,
    model: Path = MODEL,
    out: Path = cli.option("CSV file for the predictions; - is standard output.", "FILE", default=...),
    files: Annotated[cli.FileOptions, "table", "edges", "nodes", "graph", "columns", "unknown_nodes", "header"],
    new_graph: bool = cli.flag(
        "--edges and --nodes are a separate graph, not new nodes of the model's graph.", "--new-graph"
    ),
    with_known: bool = cli.flag("List the nodes of the model as well as new nodes.", "--all"),
    keep_columns: str = cli.option(
        "Columns of the node table to append to the predictions.", "none|names|all", default="none"
    ),
    sort: str | None = cli.option(
        "Sort by the probability of this class, the highest first.", "CLASS", shown="as given"
    ),
    excel_safe: bool = cli.flag("Write formulas as text, for spreadsheets.", "--excel-safe"),
    bom: bool = cli.flag("Begin with a byte order mark, for Excel.", "--bom"),
    device: str = cli.DEVICE,
    as_json: bool = cli.AS_JSON,
) -> None:
    """Predict the class of every node of the model's graph or, with files, of new nodes.

    With a table and --edges, new nodes join the graph of the model: edges refer to its nodes by id. With a table only,
    rows of the fit, recognised by id or without ids by their values, get the predictions of the fit; others are linked
    to their nearest neighbours. --graph, or --edges with --new-graph, is a separate graph.
    """
    from mtgcn.workflows.output import is_standard_output

    _check_output(out, as_json)  # before torch is imported
    from mtgcn.workflows.predict import predict_files

    counts, notes = predict_files(
        model,
        files.table_options(),
        out=out,
        new_graph=new_graph,
        with_known=with_known,
        keep=keep_columns,
        sort=sort,
        excel_safe=excel_safe,
        bom=bom,
        device=device,
    )
    nodes = sum(counts.values())
    size = f"{nodes} node{'' if nodes == 1 else 's'}"
    found = f"{size}: {', '.join(f'{name} {count}' for name, count in counts.items())}"
    content = {"predictions": out, "nodes": nodes, "predicted": counts, "notes": notes}
    remarks = [f"note: {note}" for note in notes]
    if is_standard_output(out):
        cli.print_result(content, (), as_json, [*remarks, found])
    else:
        cli.print_result(content, (found, out), as_json, remarks, written=out)


def label(
    *,
    model: Path = MODEL,
    labels: Path = typer.Argument(
        ..., help="Labels of some nodes: id and class. CSV, Parquet or JSON.", metavar="LABELS"
    ),
    new_classes: str | None = cli.option("Classes to add to the model; any other unknown class is an error.", "A,B…"),
    columns: list[str] | None = cli.COLUMNS,
    folds: int | None = FOLDS,
    device: str = cli.DEVICE,
    as_json: bool = cli.AS_JSON,
) -> None:
    """Add or correct labels of a model and fit it again. No other file is needed.

    Embeddings are reused. The model in the folder is replaced when the refit is complete.
    """
    from mtgcn.io.options import parsed_roles
    from mtgcn.workflows.fit import label_files, label_lines

    summary = label_files(
        model,
        labels,
        columns=parsed_roles(columns or ()),
        new_classes=cli.listed(new_classes, "new classes") or (),
        folds=folds,
        device=device,
    )
    cli.print_result(asdict(summary), label_lines(summary), as_json, written=summary.refit and summary.model)


def suggest(
    *,
    model: Path = MODEL,
    count: int = cli.option("Number of nodes.", "N", default=10),
    out: Path | None = cli.option(
        "CSV file with an empty column label, to fill in for mtgcn label; - is standard output.", "FILE"
    ),
    as_json: bool = cli.AS_JSON,
) -> None:
    """Suggest nodes to label next, with reasons. A larger --count keeps the first suggestions."""
    from mtgcn.estimator.persistence import load_model
    from mtgcn.estimator.predictions import free_name

    if out is not None:
        _check_output(out, as_json)
    found = load_model(model).suggest(count)
    header = ["id", "label", "predicted", "score", "reason"]
    own = list(dict.fromkeys(column for one in found for column in one.cells))
    rows = (
        [str(one.node), "", one.predicted, f"{one.score:.6f}", one.reason, *map(one.cells.get, own, repeat(""))]
        for one in found
    )
    file = [*header, *(free_name(name, header) for name in own)], rows
    _print_list("suggestions", found, "Nodes to label next", file, out, as_json)


def doubt(
    *,
    model: Path = MODEL,
    count: int = cli.option("Number of labels.", "N", default=10),
    out: Path | None = cli.option("CSV file to correct for mtgcn label; - is standard output.", "FILE", shown="none"),
    device: str = cli.DEVICE,
    as_json: bool = cli.AS_JSON,
) -> None:
    """List given labels that are probably wrong, with reasons.

    Each label is held out once. The most doubtful ones are least probable according to a model fitted without them.
    """
    from mtgcn.estimator.persistence import load_model
    from mtgcn.report.progress import fitting_progress

    if out is not None:
        _check_output(out, as_json)
    loaded = load_model(model)
    loaded.device = device
    with fitting_progress("fitting without some labels"):
        found = loaded.doubtful_labels(count)
    rows = ([str(one.node), one.label, f"{one.probability:.6f}", one.predicted, one.reason] for one in found)
    file = ["id", "label", "probability", "predicted", "reason"], rows
    _print_list("doubtful_labels", found, "Doubtful labels", file, out, as_json)


def explain(
    *,
    model: Path = MODEL,
    node: str = typer.Argument(..., help="Id or name of a node of the model.", metavar="NODE"),
    versus: str | None = cli.option("The class to compare with.", "CLASS", shown="second most probable"),
    as_json: bool = cli.AS_JSON,
) -> None:
    """Explain why a node has its class: a sentence, then tables of what supports and opposes it.

    The prediction of mt-plus is decomposed exactly by peer, column, node and label. For other methods, neighbours and
    nearby labels are listed.
    """
    from mtgcn.estimator.persistence import load_model

    found = load_model(model).explain(node, versus)
    if as_json:
        cli.print_json(found.to_dict())
        return
    from mtgcn.report.tables import Table, print_table

    rows = [(one["table"], one["name"], f"{one['value']:+.4f}", one["label"] or "") for one in found.records()]
    cli.print_result({}, (found.sentence, ""), as_json)
    print_table(Table.of_text(("table", "part", "value", "class"), rows, caption=found.note))


def serve(
    *,
    model: Path = MODEL,
    host: str = cli.option("Address of this machine to serve at.", "ADDRESS", default="127.0.0.1"),
    port: int = PORT,
    no_token: bool = cli.flag("Accept requests without a token; on this machine only.", "--no-token"),
) -> None:
    """Serve a model over HTTP: /predict for new nodes, /explain for nodes of the fit, /health, /openapi.json.

    Prints the address with its token, which requests send as `Authorization: Bearer TOKEN`. The environment variable
    MTGCN_TOKEN sets the token. Each request is logged as a line of JSON on standard error.
    """
    if importlib.util.find_spec("fastapi") is None:
        raise InputError("mtgcn serve needs FastAPI, which comes with NiceGUI; pip install 'mtgcn[studio]'")
    if no_token and host not in ("127.0.0.1", "localhost", "::1"):
        raise InputError(f"--no-token requires a local host, not {host}; omit --no-token or --host")
    from mtgcn.studio.server import listen

    with listen(host, port) as listener:  # fails before time is spent on loading
        from mtgcn.studio.api import serve_model

        serve_model(model, listener, host, needs_token=not no_token)


def studio(
    *,
    dataset: str | None = cli.option(
        "Start with a built-in dataset, such as digits.", "NAME", complete=cli.dataset_names
    ),
    files: cli.FileOptions,
    project: Path = cli.option(
        "Folder for labels, files and model; nothing is written elsewhere.", "DIR", default=Path("mtgcn-studio")
    ),
    host: str = cli.option("Address of this machine to serve the page at.", "ADDRESS", default="127.0.0.1"),
    port: int = PORT,
    no_browser: bool = cli.flag("Print the address without opening a browser.", "--no-browser", "--no-open"),
    device: str = cli.DEVICE,
) -> None:
    """Label nodes in the browser while a model predicts the rest.

    TABLE may also be a model folder written by mtgcn fit. Prints the address of the page. Its token gives access to the
    project, so keep it private. An existing project is continued.
    """
    model = files.table if files.table is not None and files.table.is_dir() else None
    tables = (files if model is None else replace(files, table=None)).table_options()
    named = {"a model": model is not None, f"--dataset {dataset}": dataset is not None, "files": tables.given}
    if sum(named.values()) > 1:
        both = " and ".join(name for name, given in named.items() if given)
        raise InputError(f"{both} are different graphs; give one of them")
    if importlib.util.find_spec("nicegui") is None:
        raise InputError("mtgcn studio needs NiceGUI, which is not installed; pip install 'mtgcn[studio]'")
    from mtgcn.storage.cache import cache_folder
    from mtgcn.studio.server import last_start, listen, serve

    with listen(host, port, last_start(project)[0]) as listener:  # fails before time is spent on loading
        from mtgcn.studio.fitting import CACHE, FitOptions, FitWorker
        from mtgcn.studio.project import Project

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
            opened.load_files(tables, pictures=None if tables.nodes is None else Path(tables.nodes).parent)
        worker = FitWorker(opened, FitOptions(device=device))
        try:
            serve(studio_application(opened, worker), listener, host, opened, browser=not no_browser)
        finally:
            worker.close()


def _print_list(
    key: str,
    found: Suggestions | DoubtfulLabels,
    title: str,
    file: tuple[list[str], Iterable[list[str]]],
    out: Path | None,
    as_json: bool,
) -> None:
    """Print a list of nodes as a table or as JSON, and write `file`, its header and rows, to `out`."""
    from mtgcn.workflows.output import is_standard_output, table_bytes, write_output

    if out is not None:
        write_output(out, table_bytes(*file))
    if as_json:
        cli.print_json({key: [asdict(one) for one in found]})
    elif out is None:
        from mtgcn.report.tables import Table, print_table

        print_table(Table.of_text(found.header, found.rows, title=title, prose=True))
    elif not is_standard_output(out):
        cli.print_result({}, (out,), as_json, written=out)


def _check_output(out: Path, as_json: bool) -> None:
    """Raise if two results would go to standard output, or if the output cannot be written."""
    from mtgcn.workflows.output import check_output, is_standard_output

    check_output(out)
    if as_json and is_standard_output(out):
        raise InputError(f"--out {out} and --json both write to standard output; give a file, or omit --json")
