"""The table of predictions: its columns for data frames and for `predictions.csv`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from mtgcn.errors import unknown_name
from mtgcn.estimator.inference import NodePredictions
from mtgcn.estimator.inputs import MISSING
from mtgcn.graph import Graph
from mtgcn.shapes import Float, Int
from mtgcn.uncertainty.peer_weights import peer_weights, peers_agree

if TYPE_CHECKING:
    from mtgcn.estimator.graph_model import GraphModel

GIVEN, NOT_PSEUDO_LABELED = 0, -1  # values of `labeled_iter`; n > 0: pseudo-labelled in iteration n
KEEP = ("none", "names", "all")  # columns of the node table that predictions keep


def prediction_columns(
    ids: np.ndarray,
    classes: np.ndarray,
    probabilities: Float[np.ndarray, "nodes classes"],
    labeled_iter: Int[np.ndarray, "nodes"],
    peers: Float[np.ndarray, "peers nodes classes"] | None,
    weights: Float[np.ndarray, "peers"] | None,
) -> dict[str, np.ndarray]:
    """The columns of the table; missing values are None. The peers agree if the leading ones, or all without weights,
    predict the same class."""
    return {
        "id": ids,
        "predicted": classes[probabilities.argmax(axis=1)],
        "probability": probabilities.max(axis=1),
        **{f"probability_{name}": probabilities[:, number] for number, name in enumerate(classes)},
        "peers_agree": np.full(len(ids), None) if peers is None else peers_agree(peers, weights),
        "role": np.select([labeled_iter == GIVEN, labeled_iter > GIVEN], ["given", "pseudo-label"], "neither"),
        "pseudo_label_epoch": np.array([one if one > GIVEN else None for one in labeled_iter.tolist()], object),
    }


def free_name(name: str, taken: Iterable[str]) -> str:
    """The name of an input column in the table of predictions, renamed if it is taken.

    >>> free_name("role", ["id", "role"])
    'role_input'
    """
    return free_name(f"{name}_input", taken) if name in taken else name


def predictions_of(
    model: GraphModel, answers: NodePredictions, nodes: Graph, keep: str = "none"
) -> dict[str, np.ndarray]:
    """The table of some nodes. Nodes of the fit keep their role; `keep` selects columns of the node table."""
    if keep not in KEEP:
        raise unknown_name("choice of input columns", keep, KEEP)
    labeled_iter = np.where(answers.positions == MISSING, NOT_PSEUDO_LABELED, model.labeled_iter_[answers.positions])
    columns = prediction_columns(
        nodes.node_ids, model.classes_, answers.probabilities, labeled_iter, answers.peers, peer_weights(model)
    )
    own: dict[str, np.ndarray] = {}
    if nodes.cells is not None and keep != "none":
        fit = model.graph_.preprocessing
        id_column, name_column = (None, None) if fit is None else (fit.id_column, fit.name_column)
        for name in nodes.cells.column_names:
            if (keep == "all" and not name == id_column == "id") or name == name_column:  # the table has ids already
                cells = [cell or "" for cell in nodes.cells[name].to_pylist()]
                own[free_name(name, columns)] = np.array(cells, dtype=object)
    return columns | own
