"""What a model says of each node, as a table: one row per node, written whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mtgcn.estimator.graph_model import GIVEN, NEVER
from mtgcn.estimator.row_lookup import NOWHERE
from mtgcn.shapes import Float, Int
from mtgcn.uncertainty.peer_weights import peer_weights, peers_agree
from mtgcn.workflows.tables_out import table_bytes, write_table

if TYPE_CHECKING:
    from mtgcn.estimator.answers import Answers
    from mtgcn.estimator.graph_model import GraphModel

ROWS_AT_ONCE = 10_000


@dataclass(frozen=True, eq=False)
class Predictions:
    """What is said of the nodes of a graph, and what part each node had in training."""

    ids: np.ndarray
    class_names: tuple[str, ...]
    probabilities: Float[np.ndarray, "nodes classes"]
    peers: Float[np.ndarray, "peers nodes classes"] | None
    labeled_iter: Int[np.ndarray, "nodes"]  # 0 given, the epoch a node first served as pseudo label, -1 never
    weights: Float[np.ndarray, "peers"] | None = None  # of the peers' votes; None where all weigh the same

    @property
    def predicted(self) -> Int[np.ndarray, "nodes"]:
        return self.probabilities.argmax(axis=1)

    @property
    def peers_agree(self) -> np.ndarray | None:
        """Whether all peers that count predict the same class, for each node; None for methods without peers."""
        return None if self.peers is None else peers_agree(self.peers, self.weights)

    def count_by_class(self) -> dict[str, int]:
        counts = np.bincount(self.predicted, minlength=len(self.class_names))
        return dict(zip(self.class_names, counts.tolist(), strict=True))


def predictions_of(model: GraphModel, ids: np.ndarray, answers: Answers) -> Predictions:
    """The answers about the nodes with these ids. Nodes of the fit keep the part they had in it."""
    return Predictions(
        ids=ids,
        class_names=tuple(map(str, model.classes_)),
        probabilities=answers.probabilities,
        peers=answers.peers,
        labeled_iter=np.where(answers.place == NOWHERE, NEVER, model.labeled_iter_[answers.place]),
        weights=peer_weights(model),
    )


def write_predictions(path: Path, predictions: Predictions) -> None:
    """A CSV file, UTF-8, with a header; ids stand there as they were read."""
    write_table(path, _header(predictions), _rows(predictions))


def predictions_table(predictions: Predictions) -> bytes:
    """What is in that file."""
    return table_bytes(_header(predictions), _rows(predictions))


def _header(predictions: Predictions) -> list[str]:
    return [
        "id",
        "predicted",
        "probability",
        *(f"probability_{name}" for name in predictions.class_names),
        "peers_agree",
        "role",
        "pseudo_label_epoch",
    ]


def _rows(predictions: Predictions) -> Iterator[list[str]]:
    agree = predictions.peers_agree
    for start in range(0, len(predictions.ids), ROWS_AT_ONCE):
        some = slice(start, start + ROWS_AT_ONCE)
        rows = predictions.probabilities[some].tolist()
        ids = predictions.ids[some].tolist()
        agreed = [""] * len(ids) if agree is None else np.where(agree[some], "yes", "no").tolist()
        roles = map(_role, predictions.labeled_iter[some].tolist())
        for name, probabilities, agreement, role in zip(ids, rows, agreed, roles, strict=True):
            best = max(probabilities)
            predicted = predictions.class_names[probabilities.index(best)]
            yield [str(name), predicted, f"{best:.6f}", *(f"{share:.6f}" for share in probabilities), agreement, *role]


def _role(labeled_iter: int) -> tuple[str, str]:
    """What a node was in training, and the epoch it first taught in."""
    if labeled_iter in (GIVEN, NEVER):
        return "given" if labeled_iter == GIVEN else "neither", ""
    return "pseudo-label", str(labeled_iter)
