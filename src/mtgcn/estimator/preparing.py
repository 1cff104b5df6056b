"""Features as the peers see them: prepared in the fit, and in the same way ever after."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError
from mtgcn.estimator.checks import check_magnitude
from mtgcn.graph import Graph
from mtgcn.graph_sources import Preprocessing
from mtgcn.io.preprocessing.column_table import ColumnTable, table_of_array
from mtgcn.io.preprocessing.fit import fit_columns
from mtgcn.io.preprocessing.preprocessor import Preprocessor

if TYPE_CHECKING:
    from mtgcn.estimator.classifier import MutualTeachingClassifier
    from mtgcn.estimator.graph_model import GraphModel

Table = Any  # sp.csr_array | np.ndarray of 32-bit floats; scipy's arrays are untyped


def prepared_table(model: MutualTeachingClassifier, X: Any) -> tuple[Table, Preprocessor | None]:  # noqa: N803
    """The features of a fit, and how they were made; None where they are what was given."""
    table = _columns(model, X, reset=True)
    if not isinstance(table, ColumnTable):
        preprocessing = array_preparation(table, scale=model.scale)
        return (table, None) if preprocessing is None else (preprocessing.matrix(table_of_array(table)), preprocessing)
    preprocessing = fit_columns(table, scale=model.scale)
    if not preprocessing.names:
        raise InputError(f"nothing can be learned from these columns ({'; '.join(preprocessing.lines())}); add others")
    return preprocessing.matrix(table), preprocessing


def array_preparation(features: Any, names: tuple[str, ...] = (), *, scale: bool) -> Preprocessor | None:
    """What standardises a matrix; None where it is to be left as it is: sparse, counts, or so asked."""
    if sp.issparse(features) or not scale:
        return None
    preprocessing = fit_columns(table_of_array(features, names), named=False)
    return None if preprocessing.changes_nothing else replace(preprocessing, named=bool(names))


def prepared_graph(graph: Graph, *, scale: bool) -> Graph:
    """The graph with prepared features, unless they are so already, or are to be left as they are."""
    if graph.features is None or graph.preprocessing is not None:
        return graph
    preprocessing = array_preparation(graph.features, graph.feature_names, scale=scale)
    return graph if preprocessing is None else _with_features(graph, preprocessing)


def rows_for(model: MutualTeachingClassifier, X: Any) -> Table:  # noqa: N803
    """New rows as the peers of a fit see features."""
    if model.graph_.features is None:
        raise InputError("this model was fitted without features and knows its own graph alone; pass no X")
    table = _columns(model, X, reset=False)
    preprocessing = model.graph_.preprocessing
    if preprocessing is None:
        return table
    if not isinstance(table, ColumnTable):
        table = table_of_array(table, [column.name for column in preprocessing.columns])
    return preprocessing.matrix(table)


def graph_for(model: GraphModel, graph: Graph) -> Graph:
    """Another graph with features as the peers of a fit see them."""
    preprocessing = model.graph_.preprocessing
    if graph.features is None or graph.preprocessing == preprocessing:
        return graph
    if graph.preprocessing is not None or preprocessing is None:
        raise InputError(
            "the features of this graph were prepared on their own, so they mean something else than those of the fit; "
            "read it with preprocessing=model.graph_.preprocessing"
        )
    if graph.num_features != len(preprocessing.columns):
        raise InputError(
            f"{graph.num_features} features for each node of the graph and {len(preprocessing.columns)} in training; "
            "give the same ones"
        )
    return _with_features(graph, preprocessing)


def columns_in(graph: Graph) -> int:
    """How many columns a person gave, of which the features of the graph were made."""
    return graph.num_features if graph.preprocessing is None else len(graph.preprocessing.columns)


def _with_features(graph: Graph, preprocessing: Preprocessing) -> Graph:
    table = table_of_array(graph.features, [column.name for column in preprocessing.columns])
    return replace(
        graph, features=preprocessing.matrix(table), feature_names=preprocessing.names, preprocessing=preprocessing
    )


def _columns(model: MutualTeachingClassifier, X: Any, *, reset: bool) -> Any:  # noqa: N803
    """A matrix of numbers as scikit-learn checks it, NaN where one is missing; or a table of columns of all kinds."""
    from sklearn.utils.validation import validate_data

    from mtgcn.io.frames import is_frame, is_mixed, table_of_frame

    if (is_frame(X) and not sp.issparse(X)) or is_mixed(X):
        validate_data(model, X, skip_check_array=True, reset=reset)
        return table_of_frame(X)
    gaps = model.scale if reset else model.graph_.preprocessing is not None
    with np.errstate(over="ignore", invalid="ignore"):  # what does not fit 32 bits is infinite then, and refused
        table = validate_data(
            model,
            X,
            accept_sparse="csr",
            dtype=np.float32,
            reset=reset,
            ensure_all_finite="allow-nan" if gaps and not sp.issparse(X) else True,
        )
    check_magnitude(np.nan_to_num(table, nan=0.0) if gaps and not sp.issparse(table) else table, "a feature")
    return sp.csr_array(table) if sp.issparse(table) else table
