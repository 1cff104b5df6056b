"""`mtgcn predict`: predictions of a stored model for the nodes of its graph, for new nodes, or for another graph."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from mtgcn.environment import chosen_device
from mtgcn.errors import InputError, note, unknown_name
from mtgcn.estimator.graph_model import GraphModel
from mtgcn.estimator.inference import (
    joint_positions,
    mean_weight,
    new_edges,
    predict_fitted,
    predict_graph,
    predict_new_nodes,
    predict_nodes,
    rows_equal,
)
from mtgcn.estimator.inputs import MISSING, check_width, positions_of_ids, transformed_graph
from mtgcn.estimator.persistence import load_model
from mtgcn.estimator.predictions import predictions_of
from mtgcn.graph import Graph, check_edges
from mtgcn.io import read
from mtgcn.io.archives import suffix_of
from mtgcn.io.graph_files import WITH_ATTRIBUTES
from mtgcn.io.options import TableOptions
from mtgcn.labels import class_named
from mtgcn.memory import check_address_space
from mtgcn.workflows.output import check_output, collected_notes, table_bytes, write_output

NOTED_WEIGHT = 0.2  # a note is given if peers with more than this weight cannot predict new nodes
ROWS_PER_BATCH = 10_000
NODE_ROLES, EDGE_ROLES = ("id", "label"), ("source", "target", "weight")
MAX_IDS_LISTED = 3
FORMULA = re.compile(r"[=@\t\r]|[+-](?![0-9.,]*$)")  # cells that spreadsheets evaluate, except numbers


def predict_files(
    folder: Path,
    files: TableOptions,
    *,
    out: Path,
    new_graph: bool = False,
    with_known: bool = False,
    keep: str = "none",
    sort: str | None = None,
    excel_safe: bool = False,
    bom: bool = False,
    device: str = "auto",
) -> tuple[dict[str, int], list[str]]:
    """Write predictions for the nodes of these files; without files, for the nodes of the model's graph.

    Nodes with edges join the graph of the model, or form a separate graph with `new_graph`. With `with_known`, the
    nodes of the model are listed as well as new nodes. The table keeps input columns (`keep` is "none", "names" or
    "all") and is sorted by the probability of the class `sort`. For `excel_safe` and `bom` see `predictions_table`.
    Returns the number of nodes predicted as each class, and the notes.
    """
    check_address_space()
    chosen_device(device)
    check_output(out)
    if new_graph and not (files.edges or files.graph):
        raise InputError("--new-graph requires --edges; add it, or omit --new-graph")
    joins = bool(files.edges) and not new_graph
    if with_known and not joins:
        raise InputError("--all requires new nodes that join the model's graph; give --nodes and --edges")
    model = load_model(folder)
    model.device = device
    names = model.graph_.class_names
    if sort is not None:
        sort = class_named(sort, names)
        if sort not in names:
            raise unknown_name("class", sort, names)
    with collected_notes() as notes:
        columns = _predict_joined(model, files, with_known, keep) if joins else _predict(model, files, keep)
    if sort is not None:
        order = np.argsort(-columns[f"probability_{sort}"], kind="stable")
        columns = {name: cells[order] for name, cells in columns.items()}
    write_output(out, predictions_table(columns, excel_safe=excel_safe, bom=bom))
    counts = [int((columns["predicted"] == value).sum()) for value in model.classes_]
    return dict(zip(names, counts, strict=True)), notes


def _predict(model: GraphModel, files: TableOptions, keep: str) -> dict[str, np.ndarray]:
    """The table of the nodes of the model, of a table of nodes, or of another graph."""
    fitted = model.graph_
    if not files.given:
        return predictions_of(model, predict_fitted(model), fitted, keep)
    nodes = read_like(files, fitted)
    if files.edges or files.graph:
        return predictions_of(model, predict_graph(model, nodes), nodes, keep)
    nodes = transformed_graph(model, nodes)
    predicted = predict_nodes(model, nodes)
    known = np.flatnonzero(predicted.positions != MISSING)
    if len(known):
        by_id = model.has_node_ids_ and not nodes.numbered
        which = "nodes have ids of the model" if by_id else "rows equal rows of the fit"
        found = f"{len(known)} of {len(predicted.positions)} {which} and get the predictions of the fit"
        if fitted.features is not None and nodes.features is not None and nodes.num_features == fitted.num_features:
            same = rows_equal(fitted.features[predicted.positions[known]], nodes.features[known])
            if changed := int((~same).sum()):
                found += f"; {changed} of them have other features here, which are ignored: fit again to use them"
        note(found)
    return predictions_of(model, predicted, nodes, keep)


def _predict_joined(model: GraphModel, files: TableOptions, with_known: bool, keep: str) -> dict[str, np.ndarray]:
    """The table of new nodes that join the graph of the model, after its nodes if these are asked for."""
    if not model.has_node_ids_:
        raise InputError(
            "the nodes of this model have no ids, so edges cannot refer to them; fit it on files, or add --new-graph "
            "to read these files as a separate graph"
        )
    check_width(model.graph_.num_features, model.graph_)
    nodes, to_known = read_new_nodes(files, model.graph_)
    predicted = predict_new_nodes(model, nodes, to_known)
    absent = 0.0
    if model.peer_report_ is not None:
        stay = np.isin(model.peer_report_.names, model.method_.peers_of_their_graph)
        absent = float(model.peer_report_.weights[0, stay].sum())
    if absent > NOTED_WEIGHT:
        note(
            f"peers with {100 * absent:.0f} % of the weight use the position of a node in the graph of the fit and do "
            "not predict new nodes, so these predictions are less accurate; to include them, fit with the new nodes"
        )
    new = predictions_of(model, predicted, nodes, keep)
    if not with_known:
        return new
    known = predictions_of(model, predict_fitted(model), model.graph_, keep)
    empty = [np.full(len(table["id"]), "", dtype=object) for table in (known, new)]
    return {
        name: np.concatenate([table.get(name, missing) for table, missing in zip((known, new), empty, strict=True)])
        for name in known | new
    }


# New nodes and their edges


def read_like(files: TableOptions, trained: Graph) -> Graph:
    """Nodes, and edges if given, with the features of the trained graph."""
    if files.kinds:
        raise InputError("the model fixes the column kinds; omit --column with a kind")
    if files.graph:
        has_names = bool(trained.feature_names) and suffix_of(Path(files.graph)) in WITH_ATTRIBUTES
        named = files.with_column("label", False) if has_names else files
        return _with_columns_of(read.read_graph(options=replace(named, features=None)), trained)
    preprocessing = trained.preprocessing
    if preprocessing is not None and preprocessing.named:
        same = replace(files.with_column("label", False), features=None, preprocessing=preprocessing)
        return read.read_graph(options=same)
    graph = read.read_graph(options=replace(files, scale=False))
    if trained.features is None:  # new nodes are rejected later; known nodes need no features
        return replace(graph, features=None, feature_names=(), preprocessing=None)
    if graph.preprocessing is None or graph.preprocessing.changes_nothing:
        return replace(graph, preprocessing=None)
    raise InputError(
        f"{files.nodes}: the model was fitted on numbers, but some columns here are not numbers, or have gaps "
        f"({'; '.join(graph.preprocessing.lines()[:3])}); give the same columns as in the fit"
    )


def _with_columns_of(graph: Graph, trained: Graph) -> Graph:
    """The graph with the feature columns of the trained graph, in their order."""
    preprocessing = trained.preprocessing
    if preprocessing is None:
        wanted = trained.feature_names
    else:
        wanted = tuple(column.name for column in preprocessing.columns) if preprocessing.named else ()
    names = list(graph.feature_names)
    if not wanted or not names or names == list(wanted):
        return graph
    missing = next((name for name in wanted if name not in names), None)
    if missing is not None or graph.features is None:
        raise InputError(f"the model was fitted with a feature {missing!r}, which these nodes lack; add the column")
    return replace(graph, features=graph.features[:, [names.index(name) for name in wanted]], feature_names=wanted)


def read_new_nodes(files: TableOptions, known: Graph) -> tuple[Graph, sp.csr_array]:
    """The nodes of `files.nodes`, which must all be new, with the edges between them, and the weights `[new, known]`
    of their edges to the nodes of the model."""
    assert files.edges is not None
    if files.nodes is None:
        raise InputError(
            f"{files.edges} has no features of new nodes; give them with --nodes, or add --new-graph to read the edges "
            "as a separate graph"
        )
    node_columns = {role: column for role, column in files.columns.items() if role in NODE_ROLES}
    nodes = read_like(replace(files, edges=None, columns=node_columns), known)
    present = nodes.node_ids[positions_of_ids(known.node_ids, nodes.node_ids) != MISSING]
    if len(present):
        raise InputError(
            f"{files.nodes}: the model already has {len(present)} of these {nodes.num_nodes} nodes, for instance "
            f"{_listed(present)}; give new nodes only (their edges may refer to these), or add --new-graph to read "
            "both files as a separate graph"
        )
    to_known, among_new = _read_new_edges(files, nodes, known)
    if not to_known.nnz:
        note("no edge connects to a node of the model; for a separate graph add --new-graph")
    isolated = int((np.diff(to_known.indptr) + np.diff(among_new.indptr) == 0).sum())
    if isolated:
        note(f"{isolated} of {nodes.num_nodes} new nodes have no edge; their predictions use features only")
    return replace(nodes, adjacency=among_new), to_known


def _read_new_edges(files: TableOptions, nodes: Graph, known: Graph) -> tuple[sp.csr_array, sp.csr_array]:
    """The edges of new nodes to the nodes of the model, and among each other."""
    columns = {role: column for role, column in files.columns.items() if role in EDGE_ROLES}
    listed = read.read_tables(TableOptions(edges=files.edges, columns=columns, header=files.header))
    check_edges(listed, str(files.edges))
    place = joint_positions(known, nodes.node_ids, listed.node_ids)
    unknown = listed.node_ids[place == MISSING]
    if len(unknown) and files.unknown_nodes != "drop":
        raise InputError(
            f"{files.edges}: {len(unknown)} ids are neither in {files.nodes} nor in the model, for instance "
            f"{_listed(unknown)}; add these nodes to {files.nodes}, or drop their edges with --unknown-nodes drop"
        )
    ends = np.stack([place[listed.sources], place[listed.targets]])
    complete = (ends != MISSING).all(axis=0)
    if not complete.all():
        note(f"{files.edges}: {int((~complete).sum())} edges refer to unknown nodes and are dropped")
    if listed.weights is None and (weight := mean_weight(known)) != 1:
        note(f"{files.edges} has no weights; new edges get weight {weight:.3g}, the mean of the model's graph")
    weights = None if listed.weights is None else listed.weights[complete]
    return new_edges(known, nodes.num_nodes, ends[:, complete], weights, f"{files.edges}: ")


def _listed(ids: np.ndarray) -> str:
    return ", ".join(repr(name) for name in ids[:MAX_IDS_LISTED].tolist())


# The table of predictions


def predictions_table(columns: Mapping[str, np.ndarray], *, excel_safe: bool = False, bom: bool = False) -> bytes:
    """The table of predictions as CSV: `id,predicted,probability,probability_CLASS…`, then input columns.

    With `excel_safe`, cells that a spreadsheet would read as formulas begin with an apostrophe. With `bom`, the table
    begins with a byte order mark, from which Excel recognises UTF-8.
    """

    def texts(name: str, cells: np.ndarray) -> Iterable[str]:
        if name.startswith("probability") and cells.dtype.kind == "f":
            return (f"{number:.6f}" for number in cells.tolist())
        if name == "peers_agree":
            return ({None: "", True: "yes", False: "no"}[cell] for cell in cells.tolist())
        return ("" if cell is None else str(cell) for cell in cells)

    def rows() -> Iterator[Sequence[str]]:
        for start in range(0, len(columns["id"]), ROWS_PER_BATCH):
            batch = slice(start, start + ROWS_PER_BATCH)
            yield from zip(*(texts(name, cells[batch]) for name, cells in columns.items()), strict=True)

    def safe(cells: Iterable[str]) -> list[str]:
        return [f"'{cell}" if FORMULA.match(cell) else cell for cell in cells]

    table = table_bytes(safe(columns), map(safe, rows())) if excel_safe else table_bytes(list(columns), rows())
    return b"\xef\xbb\xbf" * bom + table
