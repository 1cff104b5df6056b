"""What held-out labels show: expected accuracy, temperature scaling, and prediction sets with guaranteed coverage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
import torch
from scipy.special import betaincc, gammaln, ndtri

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.linalg.neighbours import METRICS, nearest, neighbour_graph
from mtgcn.methods import Method, fit_in_chunks, task_of
from mtgcn.shapes import Bool, Float, Int
from mtgcn.splits import Split
from mtgcn.task import Prediction
from mtgcn.uncertainty.peer_weights import FittedModel

# Expected accuracy.
FOLDS = 5
MIN_LABELS_PER_CLASS = 5  # to learn a class while some labels are held out
MIN_LABELS = 20  # below, the confidence interval is too wide to be useful
MANY_HELD_OUT = 1000  # labels of a fold from which on a single fold is enough
COPY_CHANCE = 0.001  # that some column looks like a copy of the labels by chance
COPY_GAP = 2  # between the values of a copy for two classes, relative to the ranges within all classes
COMPARED_NODES, NEIGHBOUR_SHARE = 100, 0.95  # nodes, and the share of their nearest nodes that are neighbours
MAX_COMPARED_VALUES = 2**24  # of labelled and of unlabelled nodes; of more, every second, third ... node is compared
# Temperature.
MIN_PROBABILITY = 1e-7  # lower bound before taking logarithms
MAX_FOLDS = 10
LIKELIHOOD_LABELS = 5  # per class, the median, from which on the held-out likelihood is used
PRIOR_LABELS = 20  # weight of the prior (temperature 1), in labels
MAX_TEMPERATURE = 10.0  # the minimum is its inverse


def stratified_folds(
    graph: Graph, nodes: Int[np.ndarray, "labelled"], folds: int, seed: int
) -> list[Int[np.ndarray, "held_out"]]:
    """Labelled nodes in stratified folds; the first alone where folds are large, since each is a fit."""
    shuffled = np.random.default_rng(seed).permutation(nodes)
    by_class = shuffled[np.argsort(graph.labels[shuffled], kind="stable")]
    used = 1 if len(nodes) >= MANY_HELD_OUT * folds else folds
    return [np.sort(by_class[fold::folds]) for fold in range(used)]


def fits_without(
    graph: Graph, method: Method, held_out: Sequence[np.ndarray], seed: int, device: torch.device | str
) -> Prediction:
    """Fit the method once without each of these sets of labels; all fits are runs of one stack."""
    if method.uses_validation:
        raise InputError(
            f"{type(method).__name__} needs validation labels, and none are set aside here; use another method"
        )
    splits = [Split(np.setdiff1d(graph.known, nodes), nodes[:0], nodes) for nodes in held_out]
    task = task_of(method, graph, splits, seed, device)
    # One seed for all runs, so that whatever does not depend on labels is computed once.
    return fit_in_chunks(method, replace(task, seeds=task.seeds[:1] * len(splits)))


# -------------------------------------------------------------------------------------------------- expected accuracy


@dataclass(frozen=True)
class ExpectedAccuracy:
    """Accuracy on held-out labels, with a 95 % confidence interval."""

    accuracy: float
    ci95: tuple[float, float]
    labels: int
    folds: int


def check_folds(folds: int) -> None:
    """Raise if labels cannot be divided into this number of folds."""
    if folds < 0 or folds == 1:
        raise InputError(f"folds is {folds}; give at least 2, or 0 not to measure accuracy")


def why_not_measurable(graph: Graph, method: Method, folds: int = FOLDS) -> str | None:
    """Why accuracy cannot be estimated from the labels of this graph; None if it can."""
    counts = graph.label_counts
    rarest = int(counts.argmin())
    if method.uses_validation:
        return "the method needs validation labels of its own"
    if graph.num_edges == 0 and graph.num_features and len(label_copies(graph)) == graph.num_features:
        return "every column looks like a copy of the labels"
    needed = max(MIN_LABELS, folds)
    if len(graph.known) < needed:
        return f"{len(graph.known)} labels are too few to tell; {needed} are needed"
    if counts[rarest] < MIN_LABELS_PER_CLASS:
        return (
            f"class {graph.class_names[rarest]!r} has {counts[rarest]} labels, too few to tell; "
            f"{MIN_LABELS_PER_CLASS} of each class are needed"
        )
    return None


def expected_accuracy(
    graph: Graph, method: Method, *, seed: int, device: torch.device | str = "cpu", folds: int = FOLDS
) -> ExpectedAccuracy:
    """Cross-validation over the given labels, all folds in one stack.

    Each fold learns from fewer labels than the final model, so the estimate is pessimistic. Features that look like a
    copy of the labels are left out, since the nodes without a label have no such copy.
    """
    graph = _without_copies(graph)
    held_out = stratified_folds(graph, graph.known, folds, seed)
    probabilities = fits_without(graph, method, held_out, seed, device).probabilities
    predicted = np.concatenate([probabilities[run, nodes].argmax(axis=1) for run, nodes in enumerate(held_out)])
    correct = int((predicted == graph.labels[np.concatenate(held_out)]).sum())
    interval = wilson_interval(correct, len(predicted))
    return ExpectedAccuracy(correct / len(predicted), interval, len(predicted), len(held_out))


def _without_copies(graph: Graph) -> Graph:
    """The graph without features that look like a copy of the labels; neighbours in the others replace edges that join
    neighbours in all features."""
    copies, features = label_copies(graph), graph.features
    if features is None or not len(copies):
        return graph
    kept = np.setdiff1d(np.arange(graph.num_features), copies)
    adjacency, k = graph.adjacency, int(np.diff(graph.adjacency.indptr).min())
    some = np.arange(0, graph.num_nodes, -(-graph.num_nodes // COMPARED_NODES))
    for metric in METRICS[:3] if len(kept) and 0 < k < graph.num_nodes else ():
        near = nearest(features, features[some], k + 1, metric)  # with the node itself
        if (adjacency[np.repeat(some, k + 1), near.ravel()] > 0).mean() >= NEIGHBOUR_SHARE * k / (k + 1):
            adjacency = neighbour_graph(features[:, kept], k, metric)
            break
    names = tuple(graph.feature_names[column] for column in kept) if graph.feature_names else ()
    left = features[:, kept] if len(kept) else None
    return replace(graph, adjacency=adjacency, features=left, feature_names=names, preprocessing=None)


def label_copies(graph: Graph) -> Int[np.ndarray, "columns"]:
    """The features that look like a copy of the given labels.

    Either a feature has one value on all unlabelled nodes and another on m labelled ones, which happens by chance with
    probability (labels / nodes)^m. Or it tells the labels alone: each of the k classes has its own value, up to noise,
    with probability k! n_1! ... n_k! / N!. A category, which several features encode, is one column here. Columns are
    copies if chance would make one of them look like that with a probability below `COPY_CHANCE`.
    """
    features, known = graph.features, graph.known[np.argsort(graph.labels[graph.known], kind="stable")]
    rest = np.setdiff1d(np.arange(graph.num_nodes), known)
    if features is None or not len(known):
        return np.empty(0, dtype=np.int64)
    some, others = (
        nodes[:: -(-len(nodes) * graph.num_features // MAX_COMPARED_VALUES) or 1] for nodes in (known, rest)
    )
    values, elsewhere = (_dense(features[nodes]) for nodes in (some, others))
    chance = np.zeros(graph.num_features)
    if len(others):
        filled = np.where((elsewhere == elsewhere[:1]).all(axis=0), (values != elsewhere[:1]).sum(axis=0), 0)
        chance = filled * math.log(len(some) / (len(some) + len(others)))
    place = {name: number for number, name in enumerate(graph.feature_names)}
    columns = graph.preprocessing.columns if graph.preprocessing and place else ()
    outputs = {one: [place[name] for name in one.outputs if name in place] for one in columns if one.outputs}
    for column, own in outputs.items():
        if column.kind == "category":
            values[:, own[0]] = values[:, own].argmax(axis=1)
    order = np.argsort(values, axis=0, kind="stable")  # of equal values, the first classes first
    classes, steps = graph.labels[some][order], np.diff(np.take_along_axis(values, order, axis=0), axis=0)
    changes = classes[1:] != classes[:-1]
    _, sizes = np.unique(graph.labels[some], return_counts=True)
    if len(sizes) > 1:
        gap, spread = np.where(changes, steps, np.inf).min(axis=0), np.where(changes, 0, steps).sum(axis=0)
        intervals = (changes.sum(axis=0) == len(sizes) - 1) & (gap > COPY_GAP * spread)
        by_chance = gammaln(len(sizes) + 1) + gammaln(sizes + 1).sum() - gammaln(len(some) + 1)
        chance = np.minimum(chance, np.where(intervals, by_chance, 0))
    copies = chance < math.log(COPY_CHANCE / graph.num_features)
    for own in outputs.values():
        copies[own] = copies[own].any()
    return np.flatnonzero(copies)


def _dense(table: sp.csr_array | np.ndarray) -> np.ndarray:
    return table if isinstance(table, np.ndarray) else table.toarray()


# `scipy.stats` has both functions below, and takes half a second to import.


def binomial_cdf(successes: int, trials: int, probability: float) -> float:
    """P(X <= successes) of a binomial X, by the incomplete beta function.

    >>> binomial_cdf(1, 2, 0.5)
    0.75
    """
    return 1.0 if successes >= trials else float(betaincc(successes + 1, trials - successes, probability))


def wilson_interval(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Confidence interval of a proportion (Wilson, 1927), valid also near 0 and 1."""
    z = float(ndtri((1 + confidence) / 2))
    centre = successes + z**2 / 2
    half = z * math.sqrt(successes * (trials - successes) / trials + z**2 / 4)
    low, high = ((end / (trials + z**2)) for end in (centre - half, centre + half))
    return (low if successes else 0.0), (high if successes < trials else 1.0)


# -------------------------------------------------------------------------------------------------------- temperature


def temperature(model: FittedModel, *, seed: int = 0, device: torch.device | str = "cpu") -> float:
    """The temperature that calibrates the probabilities of a model; predicted classes do not change.

    Uses the given labels only: the method is fitted again without each fold of them, all fits in one stack. Apply it by
    `tempered(model.label_distributions_, temperature)`.
    """
    graph, held_out = model.graph_, folds(model.graph_, seed)
    fits = fits_without(graph, model.method_, held_out, seed, device).probabilities
    return temperature_from(model.label_distributions_, fits, held_out, graph.labels)


def tempered(
    probabilities: Float[np.ndarray, "*rest classes"], temperature: float
) -> Float[np.ndarray, "*rest classes"]:
    """Probabilities with their logarithms divided by a temperature: flatter above 1, sharper below.

    >>> tempered(np.array([0.8, 0.2]), 2).round(3)  # odds 2 to 1 instead of 4 to 1
    array([0.667, 0.333])
    """
    powers = np.maximum(probabilities, MIN_PROBABILITY) ** (1 / temperature)
    return powers / powers.sum(axis=-1, keepdims=True)


def folds(graph: Graph, seed: int = 0) -> list[Int[np.ndarray, "held_out"]]:
    """At most ten stratified folds of the given labels. The only label of a class is never held out."""
    spare = graph.known[graph.label_counts[graph.labels[graph.known]] > 1]
    if not len(spare):
        raise InputError("no class has a second label, so none can be held out; label a second node of a class")
    return stratified_folds(graph, spare, min(MAX_FOLDS, len(spare)), seed)


def temperature_from(
    probabilities: Float[np.ndarray, "nodes classes"],
    fits: Float[np.ndarray, "folds nodes classes"],
    held_out: Sequence[Int[np.ndarray, "some"]],
    labels: Int[np.ndarray, "nodes"],
) -> float:
    """The temperature for `probabilities`, from fits that each lack the labels of one fold.

    With enough labels it maximises the likelihood of the held-out labels (Guo et al., 2017), with a prior at 1. With
    few labels a held-out label is predicted badly because it is missing; the temperature then matches the mean
    confidence to that of the average of all fits, which is lower the more the fits differ.
    """
    from scipy.optimize import minimize_scalar  # slow to import, and a plain fit does not need it

    nodes = np.concatenate(list(held_out))
    counts = np.bincount(labels[nodes])
    if np.median(counts[counts > 0]) < LIKELIHOOD_LABELS:
        rest = np.setdiff1d(np.arange(len(probabilities)), nodes)
        confidence = float(fits.mean(axis=0)[rest].max(axis=1).mean())

        def loss(log: float) -> float:
            return abs(float(tempered(probabilities[rest], math.exp(log)).max(axis=1).mean()) - confidence)
    else:
        predicted = np.concatenate([fit[some] for fit, some in zip(fits, held_out, strict=True)])

        def loss(log: float) -> float:
            of_label = tempered(predicted, math.exp(log))[np.arange(len(nodes)), labels[nodes]]
            return float(PRIOR_LABELS * log**2 / 2 - np.log(of_label).sum())

    limit = math.log(MAX_TEMPERATURE)
    return math.exp(minimize_scalar(loss, bounds=(-limit, limit), method="bounded").x)


# ---------------------------------------------------------------------------------------------------- prediction sets


@dataclass(frozen=True, eq=False)
class PredictionSets:
    """A set of classes for each node; a share `coverage` of the sets contains the true class.

    The guarantee holds for nodes exchangeable with the held-out labels. Labels selected for being easy give none.
    """

    contains: Bool[np.ndarray, "nodes classes"]
    coverage: float
    least_probability: float  # a set contains the classes of at least this probability
    held_out: Int[np.ndarray, "held_out"]  # labelled nodes used for calibration
    class_names: tuple[str, ...]

    def __getitem__(self, node: int) -> tuple[str, ...]:
        """The classes in the set of one node, by its index in the graph."""
        return tuple(self.class_names[number] for number in np.flatnonzero(self.contains[node]))

    @property
    def sizes(self) -> Int[np.ndarray, "nodes"]:
        return self.contains.sum(axis=1)


def prediction_sets(
    model: FittedModel, coverage: float = 0.9, *, seed: int = 0, device: torch.device | str = "cpu"
) -> PredictionSets:
    """Sets of classes by split conformal prediction (Vovk et al., 2005; on graphs, Huang et al., 2023).

    Half of the given labels, but at least as many as `coverage` needs, are held out, and the method is fitted with the
    others. One label of each class always stays. Each set contains the most probable class; the set of a labelled node
    is its label.
    """
    graph, needed = model.graph_, _labels_needed(coverage)
    shuffled = np.random.default_rng(seed).permutation(graph.known)
    _, firsts = np.unique(graph.labels[shuffled], return_index=True)
    spare = np.delete(shuffled, firsts)
    if len(spare) < needed:
        reachable = math.floor(100 * len(spare) / (len(spare) + 1)) / 100
        raise InputError(
            f"coverage {coverage:g} needs {needed} labels to hold out, and {len(spare)} of {len(graph.known)} can be "
            f"held out, since one of each class must stay; label {needed - len(spare)} more nodes"
            + (f", or ask for at most {reachable:g}" if len(spare) else "")
        )
    held_out = np.sort(spare[: max(needed, min(len(spare), len(graph.known) // 2))])
    probabilities = fits_without(graph, model.method_, [held_out], seed, device).probabilities[0]
    scores = 1 - probabilities
    threshold = conformal_threshold(scores[held_out, graph.labels[held_out]], coverage)
    contains = scores <= threshold
    contains[np.arange(graph.num_nodes), probabilities.argmax(axis=1)] = True
    contains[graph.known] = np.eye(graph.num_classes, dtype=bool)[graph.labels[graph.known]]
    return PredictionSets(contains, coverage, 1 - threshold, held_out, graph.class_names)


def conformal_threshold(scores: Float[np.ndarray, "held_out"], coverage: float) -> float:
    """The ⌈(n + 1) coverage⌉-th smallest of n scores, an upper bound of a new score with probability `coverage`.

    >>> conformal_threshold(np.arange(1, 20) / 20, coverage=0.9)  # the 18th of 19
    0.9
    """
    needed = _labels_needed(coverage)
    if len(scores) < needed:
        raise InputError(
            f"coverage {coverage:g} needs {needed} held-out labels and there are {len(scores)}; "
            "hold out more, or lower the coverage"
        )
    rank = math.ceil((len(scores) + 1) * coverage - 1e-9)  # 0.7 * 10 must not round up to 8
    return float(np.sort(scores)[rank - 1])


def _labels_needed(coverage: float) -> int:
    """The smallest n with ⌈(n + 1) coverage⌉ <= n."""
    if not 0 < coverage < 1:
        raise InputError(f"coverage is {coverage:g}; give a share between 0 and 1, for instance 0.9")
    return max(1, math.ceil(1 / (1 - coverage) - 1 - 1e-9))
