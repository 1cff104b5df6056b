"""Input validation of the estimators: labels, graphs and features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch

from mtgcn.errors import InputError, note, reason, shown
from mtgcn.graph import Graph, networkx_nodes
from mtgcn.io.column_table import ColumnTable, table_of_array
from mtgcn.io.options import TableOptions
from mtgcn.io.preprocessing import Preprocessor, fit_columns
from mtgcn.labels import UNLABELED, check_not_regression, encoded_labels, is_missing, label_text
from mtgcn.shapes import Int

if TYPE_CHECKING:
    from mtgcn.estimator.classifier import MutualTeachingClassifier
    from mtgcn.estimator.graph_model import GraphModel

Table = Any  # sp.csr_array | np.ndarray of 32-bit floats; scipy's arrays are untyped

NEIGHBORS = 10  # default of `neighbors` and --knn
MISSING = -1  # position of a node that is not in the graph of the fit
MAX_MAGNITUDE = 1e15  # sums and products of larger numbers overflow 32-bit floats


# ------------------------------------------------------------------------------------------------------------- labels


def classes_and_labels(y: Any) -> tuple[np.ndarray, Int[np.ndarray, "nodes"]]:
    """The sorted classes and the class code of each node, `UNLABELED` where it has no label.

    Unlabelled are -1 and NaN among numbers, and None, NaN and words such as "" and "NA" among texts. Texts are encoded
    as in files (`mtgcn.labels`).

    >>> classes_and_labels(["cat", None, "dog", ""])
    (array(['cat', 'dog'], dtype='<U3'), array([ 0, -1,  1, -1]))
    """
    from sklearn.utils import column_or_1d

    if np.ma.isMaskedArray(y):
        y = np.where(np.ma.getmaskarray(y), np.nan, np.ma.getdata(y).astype(object))
    if isinstance(y, list | tuple) and any(isinstance(label, str) or label is None for label in y):
        y = np.array(y, dtype=object)  # numpy would turn NaN into the string 'nan'
    given = column_or_1d(np.asarray(y), warn=True)
    if given.dtype.kind == "f" and np.isinf(given).any():
        raise InputError("Input y contains infinity; give each node its class, -1 or NaN where it is unknown")
    if given.dtype.kind not in "biufUO":
        raise InputError(f"unsupported labels of type {given.dtype}; give whole numbers or names")
    labels = given
    if given.dtype.kind == "O":
        labels = np.array([label for label in given.tolist() if not has_no_label(label)], dtype=object)
        is_text = [isinstance(label, str) for label in labels]
        if (any(is_text) and not all(is_text)) or not all(isinstance(label, str | Number) for label in labels):
            kinds = ", ".join(sorted({type(label).__name__ for label in labels}))
            raise InputError(f"labels of the types {kinds}; give names alone or whole numbers alone")
        labels = np.array(labels.tolist())
    if labels.dtype.kind == "f":
        if (fractions := labels[(labels == labels) & (labels != np.floor(labels))]).size:
            raise InputError(f"Unknown label type: continuous, such as {fractions[0]:g}; give whole numbers or names")
        if (abs(labels) >= 2**53).any():  # floats no longer represent every whole number
            largest = np.nanmax(abs(labels))
            raise InputError(f"label {largest:.0f} exceeds 2**53, the limit of exact floats; give names, as text")
    codes, names = encoded_labels(given)
    if labels.dtype.kind == "U":
        return np.array(names), codes
    check_not_regression(names, int(np.count_nonzero(codes != UNLABELED)), "y")
    classes = np.array(names)
    return classes == "True" if labels.dtype.kind == "b" else classes.astype(labels.dtype), codes


def has_no_label(label: Any) -> bool:
    """Whether a value marks an unlabelled node."""
    return is_missing(label_text(label))


# ------------------------------------------------------------------------------------------------------------- graphs


def as_graph(given: Any, nodes: int | None, data: Any = None) -> Graph:
    """A `Graph` from any accepted type, without its labels. `nodes` is the number of rows of X, or None without X; the
    index of `data`, if it has one, may name the nodes."""
    if isinstance(given, Graph):
        return given
    if has_node_ids(given):
        order = networkx_nodes(given, nodes, data.index.tolist() if hasattr(data, "iloc") else None)
        return Graph.from_networkx(given, label=False, features=None if nodes is None else (), nodes=order)
    if hasattr(given, "edge_index"):
        return Graph.from_edge_index(
            given.edge_index,
            getattr(given, "x", None) if nodes is None else None,
            edge_weight=getattr(given, "edge_weight", None),
            num_nodes=given.num_nodes,
        )
    if isinstance(given, torch.Tensor) and given.layout == torch.strided:
        given = given.detach().cpu().numpy()
    from mtgcn.io.frames import is_frame

    if is_frame(given):
        return _graph_of_edges(given, nodes, data)
    if isinstance(given, np.ndarray | list | tuple):
        try:
            given = np.asarray(given)
        except ValueError:
            raise InputError("graph of rows of different lengths; give a square matrix, or pairs of nodes") from None
        # `nodes` distinguishes a 2 x 2 adjacency from two edges.
        if given.ndim == 2 and given.shape[0] == 2 and nodes != 2 and given.dtype.kind in "iu":
            return Graph.from_edge_index(given, num_nodes=nodes)
        if given.ndim == 2 and given.shape[1] == 2 and given.dtype.kind in ("UO" if len(given) == 2 else "iuUO"):
            return _graph_of_edges(given, nodes, data)
        if given.dtype.kind not in "biuf":
            raise InputError(f"graph of type {given.dtype}; give edge weights, or node numbers in two rows")
        return Graph.from_scipy(given)
    if sp.issparse(given) or isinstance(given, torch.Tensor):
        return Graph.from_scipy(given)
    raise InputError(
        f"graph of type {type(given).__name__}; give a scipy matrix, an array, an edge index, pairs of nodes, a data "
        "frame of edges, a networkx graph, PyG data or a Graph"
    )


def _graph_of_edges(given: Any, nodes: int | None, data: Any) -> Graph:
    """The graph of a data frame of edges or of pairs of nodes, which are in the index of `data` or row numbers."""
    ends, weights = listed_edges(given)
    count = nodes if nodes is not None else len(data) if data is not None else int(ends.astype(np.int64).max()) + 1
    for ids in (data.index, None) if hasattr(data, "iloc") else (None,):
        places = positions_of_ids(np.arange(count) if ids is None else np.asarray(ids), ends.ravel()).reshape(-1, 2)
        if (places != MISSING).all():
            return Graph.from_edge_index(places.T, edge_weight=weights, num_nodes=count, node_ids=ids)
    raise InputError(
        f"node {shown(ends[places == MISSING][0])} of the edges is neither a row number from 0 to {count - 1} nor in "
        "the index of X; number the nodes like the rows, or give X as a data frame whose index holds the nodes"
    )


def listed_edges(given: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """The ends, [edges, 2], and weights of a data frame of edges, or of pairs of ids that may have a third entry."""
    from mtgcn.io.frames import is_frame

    try:
        if is_frame(given):
            given = _edge_columns(given)
        rows = given if isinstance(given, np.ndarray) else np.array(list(given), dtype=object)
        if rows.ndim != 2 or rows.shape[1] not in (2, 3):
            raise InputError(f"edges of shape {rows.shape}; give pairs of ids, or two ids and a weight for each edge")
        ends = rows[:, :2] if rows.dtype.kind in "iu" else np.array(rows[:, :2].tolist())  # numbers among objects
        if ends.dtype.kind == "f" and (ends != np.floor(ends)).any():
            raise ValueError("an id is missing or a fraction")
        ends = ends.astype(np.int64) if ends.dtype.kind == "f" else ends
        return ends, rows[:, 2].astype(np.float64) if rows.shape[1] == 3 else None
    except (TypeError, ValueError) as problem:
        if isinstance(problem, InputError):
            raise
        raise InputError(
            f"edges cannot be read ({reason(problem)}); give ids of one type, and numbers as weights"
        ) from None


def _edge_columns(frame: Any) -> np.ndarray:
    """The columns source, target and weight of a data frame, or its two or three columns."""
    import narwhals.stable.v2 as nw

    from mtgcn.io.roles import ROLE_NAMES

    data = nw.from_native(frame, eager_only=True)
    columns = [column.to_numpy() for column in data.iter_columns()]
    names = [str(name).lower() for name in data.columns]
    roles = [
        next((place for place, name in enumerate(names) if name in ROLE_NAMES[role]), None)
        for role in ("source", "target", "weight")
    ]
    if None not in roles[:2]:
        columns = [columns[place] for place in roles if place is not None]
    return np.stack(columns if len(columns) < 3 else [column.astype(object) for column in columns], axis=1)


def positions_of_ids(known: np.ndarray, ids: np.ndarray) -> Int[np.ndarray, "ids"]:
    """The position of each id among the known ones, `MISSING` if it is absent. Ids are compared as text, since a column
    of whole numbers is read as numbers.

    >>> positions_of_ids(np.array(["7", "x", "007"]), np.array([7, 8]))
    array([ 0, -1])
    """
    if known.dtype.kind not in "iu" or ids.dtype.kind not in "iu":
        known, ids = known.astype(str), ids.astype(str)
    order = np.argsort(known, kind="stable")
    found = order[np.minimum(np.searchsorted(known[order], ids), len(known) - 1)]
    return np.where(known[found] == ids, found, MISSING)


def has_node_ids(given: Any) -> bool:
    """Whether an accepted graph has node ids in addition to the node order."""
    return isinstance(given, Graph) or type(given).__module__.startswith("networkx.")


# ------------------------------------------------------------------------------------------------------------- checks


def check_learnable(
    names: Sequence[Any] | np.ndarray, counts: Sequence[int] | np.ndarray, nodes: int | None = None
) -> None:
    """Raise unless there are two classes with a label each. If the number `nodes` is given, one must be unlabelled."""
    if not sum(counts):
        raise InputError("no node is labelled; label nodes of at least two classes")
    for name, count in zip(names, counts, strict=True):
        if count == 0:
            raise InputError(f"class {str(name)!r} has no labelled node; label at least one, or remove the class")
    if len(names) == 1:
        raise InputError(f"all labels are of one class, {str(names[0])!r}; label nodes of at least two classes")
    if sum(counts) == nodes:
        remedy = "give some of the labels with --labels, or see how well methods predict them with mtgcn compare"
        raise InputError(f"all {nodes} nodes are labelled, so there is nothing to predict; {remedy}")


def check_sizes(graph: Graph, table: Any, labels: np.ndarray | None = None) -> None:
    """Raise if the graph, X and y differ in the number of nodes."""
    for what, given in (("X has {} rows", table), ("y has {} labels", labels)):
        if given is not None and given.shape[0] != graph.num_nodes:
            raise InputError(
                f"the graph has {graph.num_nodes} nodes and {what.format(given.shape[0])}; give one for each node, in "
                "the same order"
            )


def check_magnitudes(graph: Graph) -> None:
    """Raise if edge weights or features are too large."""
    check_magnitude(graph.adjacency, "an edge weight")
    check_magnitude(np.zeros(0) if graph.features is None else graph.features, "a feature")


def check_magnitude(matrix: Any, what: str) -> None:
    """Raise if a number exceeds `MAX_MAGNITUDE`."""
    values = matrix.data if sp.issparse(matrix) else matrix
    largest = max(float(values.max(initial=0)), -float(values.min(initial=0)))
    if largest > MAX_MAGNITUDE:
        raise InputError(f"{what} of size {largest:g}, the limit is {MAX_MAGNITUDE:g}; scale all of them down")


def check_width(features: int, trained: Graph) -> None:
    """Raise if new nodes do not have the features of the fit, or if the fit had none."""
    if trained.features is None:
        raise InputError(
            "this model was fitted without features and does not apply to other nodes; "
            "fit on the graph that holds the new nodes"
        )
    _check_same_number(features, trained.num_features)


def _check_same_number(features: int, trained: int) -> None:
    if features != trained:
        raise InputError(
            f"{features} features for each node of the graph and {trained} in training; give the same ones"
        )


# ------------------------------------------------------------------------------------------------------ preprocessing


def fitted_table(model: MutualTeachingClassifier, X: Any) -> tuple[Table, Preprocessor | None]:  # noqa: N803
    """The features of a fit and their preprocessing; None if X is used unchanged."""
    table = _validated(model, X, reset=True)
    if not isinstance(table, ColumnTable):
        preprocessing = _array_preprocessing(table, (), scale=model.scale)
        if preprocessing is None:
            return table.astype(np.float32, copy=False), None
        return preprocessing.matrix(table_of_array(table)), preprocessing
    preprocessing = fit_columns(table, scale=model.scale)
    if not preprocessing.names:
        raise InputError(f"nothing can be learned from these columns ({'; '.join(preprocessing.lines())}); add others")
    return preprocessing.matrix(table), preprocessing


def transformed_rows(model: MutualTeachingClassifier, X: Any) -> Table:  # noqa: N803
    """New rows with the preprocessing of the fit."""
    if model.graph_.features is None:
        raise InputError("this model was fitted without features and predicts its own nodes only; omit X")
    table = _validated(model, X, reset=False)
    preprocessing = model.graph_.preprocessing
    if preprocessing is None:
        return table.astype(np.float32, copy=False)
    if not isinstance(table, ColumnTable):
        table = table_of_array(table, [column.name for column in preprocessing.columns])
    rows = preprocessing.matrix(table)
    preprocessing.note_unfamiliar(table)
    return rows


def preprocessed_graph(graph: Graph, *, scale: bool) -> Graph:
    """The graph with standardised features, unless they are preprocessed already or `scale` is False."""
    if graph.features is None or graph.preprocessing is not None:
        return graph
    preprocessing = _array_preprocessing(graph.features, graph.feature_names, scale=scale)
    return graph if preprocessing is None else _with_features(graph, preprocessing)


def read_graph(files: TableOptions) -> Graph:
    """The graph of a fit, with edges and preprocessed features."""
    from mtgcn.io import read  # imports pyarrow, which loading a model does not need

    if not files.graph and not files.edges:
        if not files.nodes:
            raise InputError("no graph and no table; give TABLE, --edges or --graph")
        if not files.knn:
            files = replace(files, knn=NEIGHBORS)
            note(f"{files.nodes}: without edges, each row is linked to its {NEIGHBORS} nearest; change it with --knn N")
    return preprocessed_graph(read.read_graph(options=files), scale=True)


def transformed_graph(model: GraphModel, graph: Graph) -> Graph:
    """Another graph with the preprocessing of the fit."""
    preprocessing = model.graph_.preprocessing
    if graph.features is None or graph.preprocessing == preprocessing:
        return graph
    if graph.preprocessing is not None or preprocessing is None:
        raise InputError(
            "the features of this graph have other preprocessing than those of the fit; "
            "read it with preprocessing=model.graph_.preprocessing"
        )
    _check_same_number(graph.num_features, len(preprocessing.columns))
    return _with_features(graph, preprocessing)


def num_columns(graph: Graph) -> int:
    """The number of columns before preprocessing."""
    return graph.num_features if graph.preprocessing is None else len(graph.preprocessing.columns)


def _array_preprocessing(features: Any, names: tuple[str, ...], *, scale: bool) -> Preprocessor | None:
    """Standardisation of a matrix; None if it stays unchanged: sparse, counts, or without `scale`."""
    if sp.issparse(features) or not scale:
        return None
    preprocessing = fit_columns(table_of_array(features, names), named=False)
    return None if preprocessing.changes_nothing else replace(preprocessing, named=bool(names))


def _with_features(graph: Graph, preprocessing: Preprocessor) -> Graph:
    table = table_of_array(graph.features, [column.name for column in preprocessing.columns])
    return replace(
        graph, features=preprocessing.matrix(table), feature_names=preprocessing.names, preprocessing=preprocessing
    )


def _validated(model: MutualTeachingClassifier, X: Any, *, reset: bool) -> Any:  # noqa: N803
    """X as a numeric matrix, validated by scikit-learn, or as a table of columns of any type."""
    from sklearn.utils.validation import validate_data

    from mtgcn.io.frames import is_frame, is_mixed, table_of_frame, without_column

    if np.ma.isMaskedArray(X) and X.dtype.kind in "biuf":
        X = np.where(np.ma.getmaskarray(X), np.nan, np.ma.getdata(X).astype(np.float64))  # noqa: N806
    keeps_columns = reset or model.graph_.preprocessing is not None
    if not reset and keeps_columns and model.graph_.preprocessing.label_column is not None and is_frame(X):
        X = without_column(X, model.graph_.preprocessing.label_column)  # noqa: N806
    if keeps_columns and ((is_frame(X) and not sp.issparse(X)) or is_mixed(X)):
        validate_data(model, X, skip_check_array=True, reset=reset)
        return table_of_frame(X)
    allow_nan = model.scale if reset else model.graph_.preprocessing is not None
    with np.errstate(over="ignore", invalid="ignore"):  # overflow to infinity is rejected below
        table = validate_data(
            model,
            X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],  # converted to 32 bits after standardisation
            reset=reset,
            ensure_all_finite="allow-nan" if allow_nan and not sp.issparse(X) else True,
        )
    check_magnitude(np.nan_to_num(table, nan=0.0) if allow_nan and not sp.issparse(table) else table, "a feature")
    return sp.csr_array(table) if sp.issparse(table) else table
