"""Why the answers of a fit may be worth less than they look. See docs/trust.md."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.sparse.csgraph import connected_components

from mtgcn.errors import warn_caller
from mtgcn.graph import Graph
from mtgcn.shapes import Float, Int
from mtgcn.uncertainty.binomial import probability_of_at_most
from mtgcn.uncertainty.fitted_model import FittedModel

LITTLE_HOMOPHILY = 0.25  # of the way from what chance gives to edges that always join equals
LITTLE_PREDICTED_HOMOPHILY = 0.45  # predictions follow the edges even where classes do not
SIGNIFICANT_BELOW = 0.05
UNREACHED_SHARE = 0.1  # of all nodes, in components without a label
COLLAPSED_BELOW = 0.5  # of as many classes as the labels show
ENOUGH_TO_MISS = 10  # nodes that a class would have if all were as the labels are
NEARLY_ALL = 0.99  # of the squared length of rows
FEW_COLUMNS = 4  # a quarter of them, or one
UNLIKE = 20  # times the size of the others
MOST_NAMED = 5


class FitWarning(UserWarning):
    """Why the answers of a fit may be worth less than they look: a sentence, fit to be printed as it is."""


def warn_of_fit(text: str) -> None:
    """Warn of a fit, in the name of whoever called into this package."""
    warn_caller(FitWarning(text))


def model_warnings(model: FittedModel) -> list[str]:
    """Why the answers of this fit may be worth less than they look; a sentence each, what may cause others first.

    What is read off predictions is left out where something else has spoilt them already.
    """
    graph, probabilities = model.graph_, model.label_distributions_
    causes = [unlike_columns_warning(graph), collapse_warning(graph, probabilities)]
    edges = homophily_warning(graph)
    if edges is None and not any(causes):
        edges = predicted_homophily_warning(graph, probabilities)
    return [text for text in (*causes, single_label_warning(graph), component_warning(graph), edges) if text]


def label_warnings(graph: Graph) -> list[str]:
    """Why these labels may be too few or in the wrong places for this graph; a sentence each."""
    found = (single_label_warning(graph), component_warning(graph), homophily_warning(graph))
    return [text for text in found if text]


def unlike_columns_warning(graph: Graph) -> str | None:
    """Columns so much larger than the others that nearly all of every row is in them. Counts and words, kept as a
    sparse matrix or mostly 0, differ in size by their nature."""
    table = graph.features
    if not isinstance(table, np.ndarray) or np.count_nonzero(table) <= table.size / 2:
        return None
    size = np.sqrt(np.square(table, dtype=np.float64).mean(axis=0))  # root mean square of every column
    order = np.argsort(-size, kind="stable")
    held = np.cumsum(np.square(size[order])) / max(np.square(size).sum(), np.finfo(np.float64).tiny)
    large, others = np.split(order, [int(np.argmax(held >= NEARLY_ALL)) + 1])
    if not len(others) or len(large) > max(1, len(size) // FEW_COLUMNS):
        return None
    usual = float(np.median(size[others]))
    if size[large[-1]] < UNLIKE * usual:
        return None
    columns = "Column" if len(large) == 1 else "Columns"
    named = _listed([_column_name(graph, column) for column in large])
    return (
        f"{columns} {named} of size {size[large[0]]:.3g} and {len(others)} others of about {usual:.2g}: the others "
        "hardly count, since rows are compared as a whole; give all columns the same size, as scikit-learn's "
        "StandardScaler does."
    )


def _column_name(graph: Graph, column: int) -> str:
    return repr(graph.feature_names[column]) if graph.feature_names else str(column)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def single_label_warning(graph: Graph) -> str | None:
    """Classes that rest on one example."""
    single = [graph.class_names[number] for number in np.flatnonzero(graph.label_counts == 1)]
    if not single:
        return None
    classes = "Class" if len(single) == 1 else "Classes"
    named = _listed([repr(name) for name in single])
    return f"{classes} {named}: one label only, and one odd example decides the class; label a second."


def component_warning(graph: Graph) -> str | None:
    """Much of the graph that no label reaches along the edges."""
    count, component = connected_components(graph.adjacency, directed=False)
    sizes = np.bincount(component, minlength=count)
    sizes[component[graph.known]] = 0
    unreached = int(sizes.sum())
    # Spread evenly, the labels would have reached every component of this size.
    fair_share = graph.num_nodes / max(1, len(graph.known))
    if unreached < UNREACHED_SHARE * graph.num_nodes and sizes.max() < fair_share:
        return None
    largest = int(sizes.argmax())
    example = graph.node_ids[np.flatnonzero(component == largest)[0]]
    basis = "features alone" if graph.features is not None else "guesses"
    return (
        f"{unreached} of {graph.num_nodes} nodes lie in {np.count_nonzero(sizes)} components without any label, the "
        f"largest of {sizes[largest]} nodes (node {example} is one); predictions there rest on {basis}."
    )


def homophily_warning(graph: Graph) -> str | None:
    """Edges between given labels that join equal classes hardly more often than chance would.

    Few edges prove little: it is said only if as few would be rare (5 %) where edges join equals a quarter of the way
    from chance to always.
    """
    first, second = _edge_ends(graph)
    given = (graph.labels[first] >= 0) & (graph.labels[second] >= 0)
    same, chance = _same_class(graph.labels[first[given]], graph.labels[second[given]], graph.num_classes)
    edges = int(given.sum())
    if not edges or probability_of_at_most(same, edges, _share(LITTLE_HOMOPHILY, chance)) >= SIGNIFICANT_BELOW:
        return None
    return (
        f"Of {edges} edges between given labels {same} join nodes of the same class, and chance alone would give "
        f"{edges * chance:.0f}: classes and edges seem to have little to do with each other, which most methods "
        "here count on."
    )


def predicted_homophily_warning(graph: Graph, probabilities: Float[np.ndarray, "nodes classes"]) -> str | None:
    """The same from predictions. They follow the edges, so they show too much homophily rather than too little."""
    first, second = _edge_ends(graph)
    predicted = probabilities.argmax(axis=1)
    same, chance = _same_class(predicted[first], predicted[second], graph.num_classes)
    if not len(first) or chance == 1 or same >= _share(LITTLE_PREDICTED_HOMOPHILY, chance) * len(first):
        return None
    return (
        f"Only {100 * same / len(first):.0f} % of all edges join nodes predicted as the same class, and chance alone "
        f"would give {100 * chance:.0f} %: classes and edges seem to have little to do with each other, which most "
        "methods here count on."
    )


def collapse_warning(graph: Graph, probabilities: Float[np.ndarray, "nodes classes"]) -> str | None:
    """Predictions that know far fewer classes than the labels do, or not a single node of one of them."""
    counts = graph.label_counts
    rest = np.setdiff1d(np.arange(graph.num_nodes), graph.known)
    if not len(rest):
        return None
    predicted = np.bincount(probabilities[rest].argmax(axis=1), minlength=graph.num_classes)
    if _effective_classes(predicted) >= COLLAPSED_BELOW * _effective_classes(counts):
        return _missing_classes_warning(graph, predicted)
    top = int(predicted.argmax())
    return (
        f"{100 * predicted[top] / len(rest):.0f} % of the nodes without a label are predicted as "
        f"{graph.class_names[top]!r}, though the labels show {np.count_nonzero(counts)} classes; label more nodes of "
        "the others, or try another method."
    )


def _missing_classes_warning(graph: Graph, predicted: Int[np.ndarray, "classes"]) -> str | None:
    to_expect = predicted.sum() * graph.label_counts / graph.label_counts.sum()
    missing = np.flatnonzero((predicted == 0) & (to_expect >= ENOUGH_TO_MISS))
    if not len(missing):
        return None
    named = _listed([repr(graph.class_names[number]) for number in missing])
    given = int(graph.label_counts[missing].sum())
    return (
        f"None of the {predicted.sum()} nodes without a label is predicted as {named}, of which {given} "
        f"{'label was' if given == 1 else 'labels were'} given; look at these labels, or give more of them."
    )


def _edge_ends(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Every edge between different nodes once."""
    edges = graph.adjacency.tocoo()
    once = edges.row < edges.col
    return edges.row[once], edges.col[once]


def _same_class(first: np.ndarray, second: np.ndarray, classes: int) -> tuple[int, float]:
    """How many edges join equals, and the share that would if each end kept its class and found another partner."""
    ends = np.bincount(np.concatenate([first, second]), minlength=classes)
    chance = float(((ends / max(1, ends.sum())) ** 2).sum())
    return int(np.count_nonzero(first == second)), chance


def _share(homophily: float, chance: float) -> float:
    """The share of edges that join equals, so much of the way from chance to always."""
    return chance + homophily * (1 - chance)


def _effective_classes(counts: np.ndarray) -> float:
    """How many classes of equal size are as mixed as these."""
    shares = counts[counts > 0] / max(1, counts.sum())
    return math.exp(-float((shares * np.log(shares)).sum()))
