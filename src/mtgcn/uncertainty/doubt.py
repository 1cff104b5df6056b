"""Given labels that are probably wrong, ranked by their probability when they are held out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from mtgcn.errors import InputError
from mtgcn.labels import UNLABELED
from mtgcn.methods import task_of
from mtgcn.shapes import Float, Int
from mtgcn.splits import Split
from mtgcn.uncertainty.held_out import fits_without, folds
from mtgcn.uncertainty.peer_weights import FittedModel
from mtgcn.uncertainty.suggestions import table_html


@dataclass(frozen=True)
class DoubtfulLabel:
    """A given label and its held-out prediction."""

    node: str | int  # id
    index: int  # position in the graph
    label: str  # the given class
    probability: float  # held-out probability of the given class
    predicted: str  # most probable class; may be the given one
    predicted_probability: float
    reason: str
    name: str = ""  # title of the row

    @property
    def title(self) -> str:
        """Name and id."""
        return f"{self.name} ({self.node})" if self.name else str(self.node)


class DoubtfulLabels(list[DoubtfulLabel]):
    """A list of doubtful labels, shown as a table in notebooks."""

    header = ("node", "label", "probability", "predicted", "why")

    @property
    def rows(self) -> list[list[str]]:
        """The cells of the table."""
        return [[one.title, one.label, f"{100 * one.probability:.1f} %", one.predicted, one.reason] for one in self]

    def _repr_html_(self) -> str:
        return table_html(self.header, self.rows)


def doubtful_labels(
    model: FittedModel, count: int | None = None, *, seed: int = 0, device: torch.device | str = "cpu"
) -> DoubtfulLabels:
    """The `count` most doubtful given labels, or all that can be held out; most doubtful first.

    Labels are ranked by the probability of the given class when they are held out. The only label of a class is
    left out.
    """
    if count is not None and count < 1:
        raise InputError(f"count is {count}; give at least 1")
    graph = model.graph_
    nodes, probabilities = probabilities_without_label(model, seed=seed, device=device)
    order = np.argsort(probabilities[np.arange(len(nodes)), graph.labels[nodes]], kind="stable")[:count]
    return DoubtfulLabels(_doubtful(model, int(nodes[one]), probabilities[one]) for one in order)


def probabilities_without_label(
    model: FittedModel, *, seed: int = 0, device: torch.device | str = "cpu"
) -> tuple[Int[np.ndarray, "labels"], Float[np.ndarray, "labels classes"]]:
    """The labelled nodes, and the class probabilities of each without its label: ten folds fitted in one stack."""
    graph, method = model.graph_, model.method_
    held_out = folds(graph, seed)
    if model.parameters_ is not None:  # reuse the embeddings of the fit
        whole = Split(graph.known, graph.known[:0], graph.known[:0])
        method.remember(model.parameters_, task_of(method, graph, [whole], seed, device))
    fits = fits_without(graph, method, held_out, seed, device).probabilities
    found = np.concatenate([fit[nodes] for fit, nodes in zip(fits, held_out, strict=True)])
    nodes = np.concatenate(held_out)
    order = np.argsort(nodes)
    return nodes[order], found[order]


def _doubtful(model: FittedModel, node: int, probabilities: Float[np.ndarray, "classes"]) -> DoubtfulLabel:
    """The reason is one sentence: the prediction without the label, and the neighbours' classes, given or predicted."""
    graph, names = model.graph_, model.graph_.class_names
    given, predicted = int(graph.labels[node]), int(probabilities.argmax())
    near = np.setdiff1d(graph.adjacency[[node]].indices, [node])
    classes = np.where(
        graph.labels[near] == UNLABELED, model.label_distributions_[near].argmax(axis=1), graph.labels[near]
    )
    others = int((classes != given).sum())
    verb = "is also" if predicted == given else "is"
    around = f"{others} of its {len(near)} neighbours {'is' if others == 1 else 'are'} not {names[given]!r}"
    return DoubtfulLabel(
        node=np.asarray(graph.node_ids[node]).item(),
        index=node,
        label=names[given],
        probability=float(probabilities[given]),
        predicted=names[predicted],
        predicted_probability=float(probabilities[predicted]),
        reason=f"Without its label it {verb} predicted as {names[predicted]!r} "
        f"({100 * probabilities[predicted]:.0f} %); {around if len(near) else 'it has no neighbours'}.",
        name="" if graph.node_names is None else graph.node_names[node],
    )
