"""The table of predictions: its columns for data frames and for `predictions.csv`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mtgcn.errors import unknown_name
from mtgcn.estimator.inference import NodePredictions
from mtgcn.estimator.inputs import MISSING
from mtgcn.graph import Graph
from mtgcn.shapes import Float, Int
from mtgcn.uncertainty.peer_weights import peer_weights, peers_agree

if TYPE_CHECKING:
    from mtgcn.estimator.graph_model import GraphModel

GIVEN, NOT_PSEUDO_LABELED = 0, -1  # values of `labeled_iter`
KEEP = ("none", "names", "all")  # columns of the node table that predictions keep


@dataclass(frozen=True, eq=False)
class Predictions:
    """Class probabilities of nodes, and the role of each node in training."""

    ids: np.ndarray
    classes: np.ndarray
    probabilities: Float[np.ndarray, "nodes classes"]
    peers: Float[np.ndarray, "peers nodes classes"] | None
    labeled_iter: Int[np.ndarray, "nodes"]  # 0: labelled; n: pseudo-labelled in iteration n; -1: neither
    weights: Float[np.ndarray, "peers"] | None = None  # None: equal weights
    own: Mapping[str, Sequence[str]] = field(default_factory=dict)  # kept columns of the node table

    @property
    def peers_agree(self) -> np.ndarray | None:
        """Whether the leading peers predict the same class, for each node; None for methods without peers."""
        return None if self.peers is None else peers_agree(self.peers, self.weights)

    def count_by_class(self) -> dict[str, int]:
        counts = np.bincount(self.probabilities.argmax(axis=1), minlength=len(self.classes))
        return dict(zip(map(str, self.classes), counts.tolist(), strict=True))

    def columns(self) -> dict[str, Any]:
        """The columns of the table; missing values are None."""
        when, shares = self.labeled_iter, self.probabilities
        columns = {
            "id": self.ids,
            "predicted": self.classes[shares.argmax(axis=1)],
            "probability": shares.max(axis=1),
            **{f"probability_{name}": shares[:, number] for number, name in enumerate(self.classes)},
            "peers_agree": np.full(len(when), None) if self.peers is None else self.peers_agree,
            "role": np.select([when == GIVEN, when > GIVEN], ["given", "pseudo-label"], "neither"),
            "pseudo_label_epoch": np.array([epoch if epoch > GIVEN else None for epoch in when.tolist()], object),
        }
        return columns | {free_name(name, columns): cells for name, cells in self.own.items()}

    def at(self, rows: Int[np.ndarray, "some"]) -> Predictions:
        """The predictions in these rows."""
        return replace(
            self,
            ids=self.ids[rows],
            probabilities=self.probabilities[rows],
            peers=None if self.peers is None else self.peers[:, rows],
            labeled_iter=self.labeled_iter[rows],
            own={name: [cells[row] for row in rows] for name, cells in self.own.items()},
        )

    def after(self, first: Predictions) -> Predictions:
        """The predictions of both, these last."""
        peers = None
        if first.peers is not None and self.peers is not None:
            peers = np.concatenate([first.peers, self.peers], axis=1)
        own = {
            name: [*first.own.get(name, [""] * len(first.ids)), *self.own.get(name, [""] * len(self.ids))]
            for name in {**first.own, **self.own}
        }
        return replace(
            self,
            ids=np.array([*first.ids, *self.ids]),
            probabilities=np.concatenate([first.probabilities, self.probabilities]),
            peers=peers,
            labeled_iter=np.concatenate([first.labeled_iter, self.labeled_iter]),
            own=own,
        )


def free_name(name: str, taken: Iterable[str]) -> str:
    """The name of an input column in the table of predictions, renamed if it is taken.

    >>> free_name("role", ["id", "role"])
    'role_input'
    """
    return free_name(f"{name}_input", taken) if name in taken else name


def predictions_of(model: GraphModel, answers: NodePredictions, nodes: Graph, keep: str = "none") -> Predictions:
    """Predictions for some nodes. Nodes of the fit keep their role; `keep` selects columns of the node table."""
    if keep not in KEEP:
        raise unknown_name("choice of input columns", keep, KEEP)
    own: dict[str, Sequence[str]] = {}
    if nodes.cells is not None and keep != "none":
        fit = model.graph_.preprocessing
        id_column, name_column = (None, None) if fit is None else (fit.id_column, fit.name_column)
        for name in nodes.cells.column_names:
            if (keep == "all" and not name == id_column == "id") or name == name_column:  # the table has ids already
                own[name] = [cell or "" for cell in nodes.cells[name].to_pylist()]
    return Predictions(
        ids=nodes.node_ids,
        classes=model.classes_,
        probabilities=answers.probabilities,
        peers=answers.peers,
        labeled_iter=np.where(answers.positions == MISSING, NOT_PSEUDO_LABELED, model.labeled_iter_[answers.positions]),
        weights=peer_weights(model),
        own=own,
    )
