"""Warnings about unreliable predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.special import betaincc

from mtgcn.graph import Graph
from mtgcn.shapes import Float, Int
from mtgcn.uncertainty.held_out import label_copies, predictive_columns
from mtgcn.uncertainty.peer_weights import FittedModel

LOW_HOMOPHILY = 0.25  # between chance (0) and edges within classes only (1)
LOW_PREDICTED_HOMOPHILY = 0.45  # higher, since predictions follow the edges
SIGNIFICANCE_LEVEL = 0.05
UNREACHED_SHARE = 0.1  # share of the nodes that lie in components without a label
UNEVEN_SHARE, MIN_UNEVEN_NODES = 0.8, 50  # share of the largest predicted class, and number of unlabelled nodes
COLLAPSED_BELOW = 0.5  # effective number of predicted classes, relative to that of the labels
MIN_EXPECTED_NODES = 10  # expected nodes of a class, by its share of the labels, to report its absence
DOMINANT_SHARE = 0.99  # share of the squared norm of rows in dominant columns
DOMINANT_DIVISOR = 4  # at most a quarter of the columns, or one, can dominate
MIN_SIZE_RATIO = 20  # ratio of dominant columns to the others
MAX_NAMED = 5


class FitWarning(UserWarning):
    """Predictions of a fit may be unreliable; the message is one sentence with the reason."""


def model_warnings(model: FittedModel) -> list[str]:
    """Why predictions of this fit may be unreliable, one sentence each, causes first.

    Homophily of predictions is checked only if no other cause makes them unreliable.
    """
    graph, probabilities = model.graph_, model.label_distributions_
    causes = [copies_warning(graph), unlike_columns_warning(graph), collapse_warning(graph, probabilities)]
    edges = homophily_warning(graph)
    if edges is None and not any(causes):
        edges = predicted_homophily_warning(graph, probabilities)
    uneven = None if causes[-1] else uneven_warning(graph, probabilities)
    found = (*causes, chance_warning(model), uneven, single_label_warning(graph), component_warning(graph), edges)
    return [text for text in found if text]


def label_warnings(graph: Graph) -> list[str]:
    """Why the labels may be too few or badly placed for this graph, one sentence each."""
    found = (copies_warning(graph), single_label_warning(graph), component_warning(graph), homophily_warning(graph))
    return [text for text in found if text]


def unlike_columns_warning(graph: Graph) -> str | None:
    """Warning about dense columns that dominate the norm of rows. Sparse tables, such as word counts, are exempt."""
    table = graph.features
    if not isinstance(table, np.ndarray) or np.count_nonzero(table) <= table.size / 2:
        return None
    size = np.sqrt(np.square(table, dtype=np.float64).mean(axis=0))  # root mean square
    order = np.argsort(-size, kind="stable")
    held = np.cumsum(np.square(size[order])) / max(np.square(size).sum(), np.finfo(np.float64).tiny)
    large, others = np.split(order, [int(np.argmax(held >= DOMINANT_SHARE)) + 1])
    if not len(others) or len(large) > max(1, len(size) // DOMINANT_DIVISOR):
        return None
    usual = float(np.median(size[others]))
    if size[large[-1]] < MIN_SIZE_RATIO * usual:
        return None
    columns = "Column" if len(large) == 1 else "Columns"
    named = _listed(graph.feature_names or range(len(size)), large)
    return (
        f"{columns} {named} of size {size[large[0]]:.3g} and {len(others)} others of about {usual:.2g}: the others "
        "hardly count, since rows are compared as a whole; scale the columns, for instance by scikit-learn's "
        "StandardScaler."
    )


def copies_warning(graph: Graph) -> str | None:
    """Warning about columns that look like a copy of the labels: filled only where labels are, or predicting all."""
    names = np.array(graph.feature_names or range(graph.num_features), dtype=object)
    for column in graph.preprocessing.columns if graph.preprocessing and graph.feature_names else ():
        names[np.isin(names, column.outputs)] = column.name
    predictive = predictive_columns(graph)
    named = [name for name in dict.fromkeys(names[label_copies(graph)]) if name not in predictive]
    found = []
    if predictive:
        target = (graph.preprocessing.label_column if graph.preprocessing else None) or "the labels"
        shares = ", ".join(
            f"{name!r} ({predictive[name]} of {len(graph.known)} labels)" for name in list(predictive)[:MAX_NAMED]
        )
        verb, which = ("predicts", "is it a copy") if len(predictive) == 1 else ("predict", "are they copies")
        found.append(
            f"{'Column' if len(predictive) == 1 else 'Columns'} {shares} {verb} {target} alone: {which}? If so, leave "
            "out what is a copy by --column ignore=NAME; the expected accuracy is measured without what predicts every "
            "label."
        )
    if named:
        found.append(
            f"{'Column' if len(named) == 1 else 'Columns'} {_listed(named, np.arange(len(named)))}: filled only where "
            "a label is given, or enough to predict every label, as a copy of the labels; the expected accuracy is "
            "measured without, leave out what is a copy."
        )
    return " ".join(found) or None


def single_label_warning(graph: Graph) -> str | None:
    """Warning about classes with a single label."""
    single = np.flatnonzero(graph.label_counts == 1)
    if not len(single):
        return None
    classes = "Class" if len(single) == 1 else "Classes"
    named = _listed(graph.class_names, single)
    return f"{classes} {named}: one label only, so one odd example decides the class; label a second."


def components_without_label(
    graph: Graph, labelled: Int[np.ndarray, "labelled"]
) -> tuple[Int[np.ndarray, "nodes"], Int[np.ndarray, "components"]]:
    """The component of each node, and the size of each component; 0 for components with a label."""
    count, component = connected_components(graph.adjacency, directed=False)
    sizes = np.bincount(component, minlength=count)
    sizes[component[labelled]] = 0
    return component, sizes


def component_warning(graph: Graph) -> str | None:
    """Warning about large components without a label."""
    component, sizes = components_without_label(graph, graph.known)
    unreached = int(sizes.sum())
    # Evenly spread labels would reach every component of this size.
    fair_share = graph.num_nodes / max(1, len(graph.known))
    if unreached < UNREACHED_SHARE * graph.num_nodes and sizes.max() < fair_share:
        return None
    largest = int(sizes.argmax())
    example = graph.node_ids[np.flatnonzero(component == largest)[0]]
    basis = "features alone" if graph.features is not None else "guesses"
    count = np.count_nonzero(sizes)
    several = f"{count} components without any label, the largest of {sizes[largest]} nodes"
    where = several if count > 1 else "a component without any label"
    place = f"{where} (with node {example})"
    return f"{unreached} of {graph.num_nodes} nodes lie in {place}; predictions there rest on {basis}."


def homophily_warning(graph: Graph) -> str | None:
    """Warning if edges between labelled nodes join the same class hardly more often than by chance.

    The test is at the 5 % level against a homophily of 0.25, where 0 is chance and 1 is edges within classes only.
    """
    same, edges, chance = _edges_within_classes(graph, graph.labels)
    # The binomial probability of at most `same` edges; scipy.stats is slow to import, and bdtr inexact for many edges.
    if same == edges or betaincc(same + 1, edges - same, _share(LOW_HOMOPHILY, chance)) >= SIGNIFICANCE_LEVEL:
        return None
    return (
        f"{same} of {edges} edges between labelled nodes join nodes of the same class, and chance alone would give "
        f"{edges * chance:.0f}: the graph shows little homophily, which most methods assume."
    )


def predicted_homophily_warning(graph: Graph, probabilities: Float[np.ndarray, "nodes classes"]) -> str | None:
    """The same warning for predictions, which overestimate homophily because they follow the edges."""
    same, edges, chance = _edges_within_classes(graph, probabilities.argmax(axis=1))
    if not edges or chance == 1 or same >= _share(LOW_PREDICTED_HOMOPHILY, chance) * edges:
        return None
    return (
        f"Only {100 * same / edges:.0f} % of all edges join nodes predicted as the same class, and chance alone "
        f"would give {100 * chance:.0f} %: the graph shows little homophily, which most methods assume."
    )


def chance_warning(model: FittedModel) -> str | None:
    """An expected accuracy, of methods that cross-validate themselves, that guesses would have."""
    expected, classes = model.expected_accuracy_, model.graph_.num_classes
    if expected is None or expected.accuracy > 1 / classes:
        return None
    return (
        f"The expected accuracy, {100 * expected.accuracy:.0f} %, is no better than guessing one of {classes} classes: "
        "features and edges say little about these classes; check the labels, or add columns that distinguish them."
    )


def collapse_warning(graph: Graph, probabilities: Float[np.ndarray, "nodes classes"]) -> str | None:
    """Warning about predictions of far fewer classes than among the labels, or of no node of a class."""
    counts = graph.label_counts
    rest = np.setdiff1d(np.arange(graph.num_nodes), graph.known)
    if not len(rest):
        return None
    predicted = np.bincount(probabilities[rest].argmax(axis=1), minlength=graph.num_classes)
    if _effective_classes(predicted) < COLLAPSED_BELOW * _effective_classes(counts):
        top = int(predicted.argmax())
        return (
            f"{100 * predicted[top] / len(rest):.0f} % of the nodes without a label are predicted as "
            f"{graph.class_names[top]!r}, though the labels show {np.count_nonzero(counts)} classes; label more nodes "
            "of the others, or try another method."
        )
    missing = np.flatnonzero((predicted == 0) & (len(rest) * counts / counts.sum() >= MIN_EXPECTED_NODES))
    if not len(missing):
        return None
    given = int(counts[missing].sum())
    return (
        f"None of the {len(rest)} nodes without a label is predicted as {_listed(graph.class_names, missing)}, of "
        f"which {given} {'label was' if given == 1 else 'labels were'} given; look at these labels, or give "
        "more of them."
    )


def uneven_warning(graph: Graph, probabilities: Float[np.ndarray, "nodes classes"]) -> str | None:
    """Warning about predictions of mostly one class, for which accuracy is misleading."""
    predicted = probabilities[graph.labels < 0].argmax(axis=1)
    share = np.bincount(predicted, minlength=graph.num_classes) / max(1, len(predicted))
    if len(predicted) < MIN_UNEVEN_NODES or share.max() < UNEVEN_SHARE:
        return None
    return (
        f"{100 * share.max():.0f} % of the nodes without a label are predicted as "
        f"{graph.class_names[int(share.argmax())]!r}: predicting it everywhere would have about that accuracy; "
        "--score balanced-accuracy measures more."
    )


def _listed(names: Sequence[Any], chosen: Int[np.ndarray, "some"]) -> str:
    more = len(chosen) - MAX_NAMED
    return ", ".join(repr(names[one]) for one in chosen[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def _edges_within_classes(graph: Graph, classes: Int[np.ndarray, "nodes"]) -> tuple[int, int, float]:
    """Of the edges between two nodes with a class: the number within classes, the number of all, and the share within
    classes expected for random edges with the same class counts."""
    edges = graph.adjacency.tocoo()
    first, second = classes[edges.row], classes[edges.col]
    counted = (edges.row < edges.col) & (first >= 0) & (second >= 0)  # each edge once, without self-loops
    first, second = first[counted], second[counted]
    ends = np.bincount(np.concatenate([first, second]), minlength=graph.num_classes)
    chance = float(((ends / max(1, ends.sum())) ** 2).sum())
    return int(np.count_nonzero(first == second)), len(first), chance


def _share(homophily: float, chance: float) -> float:
    """The share of edges within classes at this homophily."""
    return chance + homophily * (1 - chance)


def _effective_classes(counts: np.ndarray) -> float:
    """Effective number of classes: the exponential of the entropy of class shares."""
    shares = counts[counts > 0] / max(1, counts.sum())
    return math.exp(-float((shares * np.log(shares)).sum()))
