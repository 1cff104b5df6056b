"""How far to trust a fit: probabilities that mean what they say, sets that hold the true class, and warnings.

What is measured here and what was tried and left out is in docs/trust.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from scipy.sparse.csgraph import connected_components
from scipy.stats import binom

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.held_out import dealt_out, fits_without
from mtgcn.methods import Method
from mtgcn.task import Prediction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtyping import Bool, Float, Int

SMALLEST_PROBABILITY = 1e-7  # below it, the logarithm says more about rounding than about the node

# Temperature.
MOST_FOLDS = 10
ENOUGH_PER_CLASS = 5  # labels of the middle class, from which on held-out labels tell more than they mislead
PRIOR_LABELS = 20  # what is thought of a temperature beforehand weighs as much as so many labels
HOTTEST = 10.0  # and 1 / HOTTEST is the coldest

# Warnings.
LITTLE_HOMOPHILY = 0.25  # of the way from what chance gives to links that always join equals
LITTLE_PREDICTED_HOMOPHILY = 0.45  # predictions follow the links even where classes do not
SIGNIFICANT_BELOW = 0.05
UNREACHED_SHARE = 0.1  # of all nodes, in components without a label
COLLAPSED_BELOW = 0.5  # of as many classes as the labels show


class FittedModel(Protocol):
    """What is read of a `MutualTeachingClassifier` here and wherever a fit is explained."""

    @property
    def graph_(self) -> Graph: ...
    @property
    def method_(self) -> Method: ...
    @property
    def label_distributions_(self) -> Float[np.ndarray, "nodes classes"]: ...
    @property
    def peer_distributions_(self) -> Float[np.ndarray, "peers nodes classes"] | None: ...
    @property
    def history_(self) -> Mapping[str, Float[np.ndarray, "epochs peers"]]: ...


# -------------------------------------------------------------------------------------------------------- temperature


def temperature(model: FittedModel, *, seed: int = 0, device: torch.device | str = "cpu") -> float:
    """What to divide the logarithms of the model's probabilities by, so that they mean more nearly what they say.

    Needs no labels but the given ones: the method is fitted again, all fits in one stack, each time without a few of
    them. `tempered(model.label_distributions_, temperature)` are the probabilities then. The classes predicted stay.
    """
    graph, held_out = model.graph_, folds(model.graph_, seed)
    fits = _fitted_without(graph, model.method_, held_out, seed, device).probabilities
    return temperature_from(model.label_distributions_, fits, held_out, graph.labels)


def tempered(belief: Float[np.ndarray, "*rest classes"], temperature: float) -> Float[np.ndarray, "*rest classes"]:
    """Probabilities less sure of themselves (temperature above 1) or surer (below); the order of classes stays.

    >>> tempered(np.array([0.8, 0.2]), 2).round(3)  # 2 to 1 instead of 4 to 1
    array([0.667, 0.333])
    """
    powers = np.maximum(belief, SMALLEST_PROBABILITY) ** (1 / temperature)
    return powers / powers.sum(axis=-1, keepdims=True)


def folds(graph: Graph, seed: int = 0) -> list[Int[np.ndarray, "held_out"]]:
    """The given labels dealt out class by class, to at most ten hands. The only label of a class is in none."""
    counts = np.bincount(graph.labels[graph.known], minlength=graph.num_classes)
    spare = graph.known[counts[graph.labels[graph.known]] > 1]
    if not len(spare):
        raise InputError(
            "no class has a second label, so that none can be held out to measure by; label a second node of a class"
        )
    return dealt_out(graph, spare, min(MOST_FOLDS, len(spare)), seed)


def temperature_from(
    belief: Float[np.ndarray, "nodes classes"],
    fits: Float[np.ndarray, "folds nodes classes"],
    held_out: Sequence[Int[np.ndarray, "some"]],
    labels: Int[np.ndarray, "nodes"],
) -> float:
    """The temperature for `belief`, from fits that each lacked the labels of one fold.

    With few labels those of a fold are told badly for the very reason that they were missing. What can be trusted then
    is how much the fits differ: their average is less sure than each of them, and its mean confidence is taken for the
    true one. With enough labels it is the temperature under which the held-out labels are most likely (Guo et al.,
    2017), held back towards 1 while there are not many.
    """
    nodes = np.concatenate(list(held_out))
    counts = np.bincount(labels[nodes])
    if np.median(counts[counts > 0]) < ENOUGH_PER_CLASS:
        rest = np.setdiff1d(np.arange(len(belief)), nodes)
        return _temperature_of_confidence(belief[rest], float(fits.mean(axis=0)[rest].max(axis=1).mean()))
    told = np.concatenate([fit[some] for fit, some in zip(fits, held_out, strict=True)])

    def badness(log_temperature: float) -> float:
        right = tempered(told, math.exp(log_temperature))[np.arange(len(nodes)), labels[nodes]]
        return float(PRIOR_LABELS * log_temperature**2 / 2 - np.log(right).sum())

    limit = math.log(HOTTEST)
    return math.exp(minimize_scalar(badness, bounds=(-limit, limit), method="bounded").x)


def _temperature_of_confidence(belief: Float[np.ndarray, "nodes classes"], confidence: float) -> float:
    """The temperature that gives probabilities this mean confidence, or comes as near as one may."""
    limit = math.log(HOTTEST)

    def miss(log_temperature: float) -> float:
        return abs(float(tempered(belief, math.exp(log_temperature)).max(axis=1).mean()) - confidence)

    return math.exp(minimize_scalar(miss, bounds=(-limit, limit), method="bounded").x)


# ---------------------------------------------------------------------------------------------------- prediction sets


@dataclass(frozen=True, eq=False)
class PredictionSets:
    """For each node the classes that may be its own; of as many nodes as `coverage` says, one of them is.

    That holds for nodes drawn as the held-out labels were: labels that somebody picked for being easy promise nothing
    about the others.
    """

    contains: Bool[np.ndarray, "nodes classes"]
    coverage: float
    least_probability: float  # a class belongs to a set if it is at least as probable as this
    held_out: Int[np.ndarray, "held_out"]  # the given labels that were kept from the fit
    class_names: tuple[str, ...]

    def __getitem__(self, node: int) -> tuple[str, ...]:
        """The classes of one node's set, by its number in the graph."""
        return tuple(self.class_names[number] for number in np.flatnonzero(self.contains[node]))

    @property
    def sizes(self) -> Int[np.ndarray, "nodes"]:
        return self.contains.sum(axis=1)


def prediction_sets(
    model: FittedModel, coverage: float = 0.9, *, seed: int = 0, device: torch.device | str = "cpu"
) -> PredictionSets:
    """Sets of classes by split conformal prediction (Vovk et al., 2005; on graphs, Huang et al., 2023).

    Half of the given labels, but at least as many as `coverage` needs, are held out; the model's method is fitted anew
    with the others; a class belongs to a node's set if it is no less probable than all but the least probable of the
    held-out labels were. One label of each class always stays. The set of a given node is its label.
    """
    graph = model.graph_
    held_out = _drawn_for_calibration(graph, coverage, seed)
    belief = _fitted_without(graph, model.method_, [held_out], seed, device).probabilities[0]
    doubt = 1 - belief
    threshold = conformal_threshold(doubt[held_out, graph.labels[held_out]], coverage)
    contains = doubt <= threshold
    contains[np.arange(graph.num_nodes), belief.argmax(axis=1)] = True  # an empty set would help nobody
    contains[graph.known] = np.eye(graph.num_classes, dtype=bool)[graph.labels[graph.known]]
    return PredictionSets(contains, coverage, 1 - threshold, held_out, graph.class_names)


def conformal_threshold(scores: Float[np.ndarray, "held_out"], coverage: float) -> float:
    """What a new score stays within with probability at least `coverage`: the ⌈(n + 1) coverage⌉-th smallest of n.

    The new score is as likely to take any of the n + 1 ranks, which is why n + 1 and not n is divided.

    >>> conformal_threshold(np.arange(1, 20) / 20, coverage=0.9)  # the 18th of 19
    0.9
    """
    needed = _labels_needed(coverage)
    if len(scores) < needed:
        raise InputError(
            f"coverage {coverage:g} needs {needed} held-out labels and there are {len(scores)}; "
            "hold out more, or lower the coverage"
        )
    return float(np.sort(scores)[_rank(len(scores), coverage) - 1])


def _rank(count: int, coverage: float) -> int:
    return math.ceil((count + 1) * coverage - 1e-9)  # 0.7 * 10 must not round up to 8


def _labels_needed(coverage: float) -> int:
    """The fewest scores of which one can be the threshold: 1 / (1 - coverage) - 1, rounded up."""
    if not 0 < coverage < 1:
        raise InputError(f"coverage is {coverage:g}; give a share between 0 and 1, for instance 0.9")
    return max(1, math.ceil(1 / (1 - coverage) - 1 - 1e-9))


def _drawn_for_calibration(graph: Graph, coverage: float, seed: int) -> Int[np.ndarray, "held_out"]:
    shuffled = np.random.default_rng(seed).permutation(graph.known)
    _, firsts = np.unique(graph.labels[shuffled], return_index=True)
    spare = np.delete(shuffled, firsts)
    needed = _labels_needed(coverage)
    if len(spare) < needed:
        reachable = len(spare) / (len(spare) + 1)
        remedy = f"ask for at most {math.floor(100 * reachable) / 100:g}" if len(spare) else "ask for none yet"
        raise InputError(
            f"coverage {coverage:g} needs {needed} labels to hold out, and of {len(graph.known)} given ones "
            f"{len(spare)} can be spared, since one of each class must stay; "
            f"label {needed - len(spare)} more nodes, or {remedy}"
        )
    return np.sort(spare[: max(needed, min(len(spare), len(graph.known) // 2))])


def _fitted_without(
    graph: Graph, method: Method, held_out: Sequence[np.ndarray], seed: int, device: torch.device | str
) -> Prediction:
    if method.uses_validation:
        raise InputError(
            f"{type(method).__name__} chooses by validation labels and here none are set aside; take another method"
        )
    return fits_without(graph, method, held_out, seed, device)


# ----------------------------------------------------------------------------------------------------------- warnings


def model_warnings(model: FittedModel) -> list[str]:
    """Why the answers of this fit may be worth less than they look; a sentence each."""
    graph, belief = model.graph_, model.label_distributions_
    told_by_labels = homophily_warning(graph) is not None
    found = (
        *label_warnings(graph),
        None if told_by_labels else predicted_homophily_warning(graph, belief),
        collapse_warning(graph, belief),
    )
    return [text for text in found if text]


def label_warnings(graph: Graph) -> list[str]:
    """Why these labels may be too few or in the wrong places for this graph; a sentence each."""
    found = (single_label_warning(graph), component_warning(graph), homophily_warning(graph))
    return [text for text in found if text]


def single_label_warning(graph: Graph) -> str | None:
    """Classes that rest on one example."""
    counts = np.bincount(graph.labels[graph.known], minlength=graph.num_classes)
    single = [graph.class_names[number] for number in np.flatnonzero(counts == 1)]
    if not single:
        return None
    named = ", ".join(repr(name) for name in single[:5]) + (f" and {len(single) - 5} more" if len(single) > 5 else "")
    classes = "Class" if len(single) == 1 else "Classes"
    return f"{classes} {named}: one label only, and one odd example decides the class; label a second."


def component_warning(graph: Graph) -> str | None:
    """Much of the graph that no label reaches along the links."""
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
    """Links between given labels that join equal classes hardly more often than chance would.

    Few links prove little: it is said only if as few would be rare (5 %) where links join equals a quarter of the way
    from chance to always.
    """
    first, second = _link_ends(graph)
    given = (graph.labels[first] >= 0) & (graph.labels[second] >= 0)
    same, chance = _same_class(graph.labels[first[given]], graph.labels[second[given]], graph.num_classes)
    links = int(given.sum())
    if not links or binom.cdf(same, links, _share(LITTLE_HOMOPHILY, chance)) >= SIGNIFICANT_BELOW:
        return None
    return (
        f"Of {links} links between given labels {same} join nodes of the same class, and chance alone would give "
        f"{links * chance:.0f}: classes and links seem to have little to do with each other, which every method here "
        "counts on."
    )


def predicted_homophily_warning(graph: Graph, belief: Float[np.ndarray, "nodes classes"]) -> str | None:
    """The same from predictions. They follow the links, so they show too much homophily rather than too little."""
    first, second = _link_ends(graph)
    predicted = belief.argmax(axis=1)
    same, chance = _same_class(predicted[first], predicted[second], graph.num_classes)
    if not len(first) or chance == 1 or same >= _share(LITTLE_PREDICTED_HOMOPHILY, chance) * len(first):
        return None
    return (
        f"Only {100 * same / len(first):.0f} % of all links join nodes predicted as the same class, and chance alone "
        f"would give {100 * chance:.0f} %: classes and links seem to have little to do with each other, which every "
        "method here counts on."
    )


def collapse_warning(graph: Graph, belief: Float[np.ndarray, "nodes classes"]) -> str | None:
    """Predictions that know far fewer classes than the labels do."""
    counts = np.bincount(graph.labels[graph.known], minlength=graph.num_classes)
    rest = np.setdiff1d(np.arange(graph.num_nodes), graph.known)
    predicted = np.bincount(belief[rest].argmax(axis=1), minlength=graph.num_classes)
    if not len(rest) or _effective_classes(predicted) >= COLLAPSED_BELOW * _effective_classes(counts):
        return None
    top = int(predicted.argmax())
    return (
        f"{100 * predicted[top] / len(rest):.0f} % of the nodes without a label are predicted as "
        f"{graph.class_names[top]!r}, though the labels show {np.count_nonzero(counts)} classes; label more nodes of "
        "the others, or try another method."
    )


def _link_ends(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Every link between different nodes once."""
    links = graph.adjacency.tocoo()
    once = links.row < links.col
    return links.row[once], links.col[once]


def _same_class(first: np.ndarray, second: np.ndarray, classes: int) -> tuple[int, float]:
    """How many links join equals, and the share that would if each end kept its class and found another partner."""
    ends = np.bincount(np.concatenate([first, second]), minlength=classes)
    chance = float(((ends / max(1, ends.sum())) ** 2).sum())
    return int(np.count_nonzero(first == second)), chance


def _share(homophily: float, chance: float) -> float:
    """The share of links that join equals, so much of the way from chance to always."""
    return chance + homophily * (1 - chance)


def _effective_classes(counts: np.ndarray) -> float:
    """How many classes of equal size are as mixed as these."""
    shares = counts[counts > 0] / max(1, counts.sum())
    return math.exp(-float((shares * np.log(shares)).sum()))
