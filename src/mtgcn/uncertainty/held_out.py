"""Estimates from held-out labels: expected accuracy, temperature, and prediction sets with guaranteed coverage."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.special import betaincinv, gammaln

from mtgcn.errors import InputError
from mtgcn.graph import UNLABELED, Graph
from mtgcn.linalg.neighbours import METRICS, neighbour_graph, neighbour_search
from mtgcn.methods import Method, fit_in_chunks, task_of
from mtgcn.shapes import Bool, Float, Int
from mtgcn.splits import Split
from mtgcn.task import Prediction
from mtgcn.training.calibration import AccuracyPrior, matching_temperature
from mtgcn.uncertainty.peer_weights import FittedModel

# Expected accuracy.
FOLDS, MAX_FOLDS = 5, 10
MIN_LABELS_PER_CLASS = 2  # fewest labels of a class, so that one can be held out
MIN_LABELS_FOR_GAIN, MIN_LABELS_PER_CLASS_FOR_GAIN = 20, 5  # fewest labels to estimate the gain of more labels
MANY_HELD_OUT = 1000  # fold size from which a single fold is enough
COPY_CHANCE = 0.001  # probability that some column looks like a copy of the labels by chance
MAX_ERRORS_OF_COPY = 0.05  # share of the labels that a copy may get wrong
MAX_VALUES_PER_CLASS = 2  # mean number of values per class of a column that may be a copy
MAX_PREDICTIVE_COLUMNS = 1000  # tables with more columns hold words or pixels
COPY_GAP = 2  # gap between the values of a copy for two classes, relative to the ranges within classes
COMPARED_NODES, NEIGHBOUR_SHARE = 100, 0.95  # number of nodes, and share of their nearest nodes that are neighbours
MAX_COMPARED_VALUES = 2**24  # compared values; of larger tables every second, third, ... node is compared

# Expected gain of more labels.
MORE_LABELS = 10
ENOUGH_BELOW = 0.01  # gain in accuracy below which labels are enough
FEW_DIVISOR = 4  # the learning curve uses all labels outside a fold, and a quarter of all labels
NORMAL_95 = 1.96


def stratified_folds(
    graph: Graph, nodes: Int[np.ndarray, "labelled"], folds: int, seed: int
) -> list[Int[np.ndarray, "held_out"]]:
    """Stratified folds of the labelled nodes; only the first if folds are large, since each fold costs a fit."""
    shuffled = np.random.default_rng(seed).permutation(nodes)
    by_class = shuffled[np.argsort(graph.labels[shuffled], kind="stable")]
    folds = min(folds, len(nodes))
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


def folds(graph: Graph, seed: int = 0) -> list[Int[np.ndarray, "held_out"]]:
    """At most ten stratified folds of the given labels. The only label of a class is never held out."""
    spare = graph.known[graph.label_counts[graph.labels[graph.known]] > 1]
    if not len(spare):
        raise InputError("no class has two labels, so no label can be held out; label another node")
    return stratified_folds(graph, spare, MAX_FOLDS, seed)


# -------------------------------------------------------------------------------------------------- expected accuracy


@dataclass(frozen=True)
class ExpectedGain:
    """The gain in accuracy that more labels are expected to bring, with a 95 % confidence interval."""

    labels: int  # number of additional labels
    gain: float
    ci95: tuple[float, float]
    enough: bool  # whether the gain is below one point

    def __str__(self) -> str:
        low, high = (f"{100 * end:.1f}" for end in self.ci95)
        points = f"{self.labels} more labels would bring {100 * self.gain:.1f} points (95 % interval {low} to {high})"
        return f"{points}{': more labels would hardly help' if self.enough else ''}"


@dataclass(frozen=True)
class ExpectedAccuracy:
    """Expected accuracy on unlabelled nodes, with credible intervals of 90 and 95 %."""

    accuracy: float
    ci90: tuple[float, float]
    ci95: tuple[float, float]
    labels: int  # number of held-out labels
    folds: int
    gain: ExpectedGain | None = None  # gain by more labels

    @classmethod
    def of(cls, share: float, labels: int, folds: int) -> ExpectedAccuracy:
        """Intervals from the accuracy on held-out labels."""
        right, wrong = AccuracyPrior().distribution(share, labels)
        low95, low90, high90, high95 = betaincinv(right, wrong, (0.025, 0.05, 0.95, 0.975)).tolist()
        return cls(right / (right + wrong), (low90, high90), (low95, high95), labels, folds)

    @classmethod
    def from_card(cls, stored: Mapping[str, Any]) -> ExpectedAccuracy:
        """Read from the card of a model."""
        gain = stored.get("gain")
        gain = gain and ExpectedGain(**{**gain, "ci95": tuple(gain["ci95"])})
        return cls(**{**stored, "ci90": tuple(stored["ci90"]), "ci95": tuple(stored["ci95"]), "gain": gain})


def check_folds(folds: int | None) -> None:
    """Raise if labels cannot be divided into this number of folds."""
    if folds is not None and (folds < 0 or folds == 1):
        raise InputError(f"folds is {folds}; give at least 2, or 0 to skip the estimate")


def why_not_measurable(graph: Graph, method: Method) -> str | None:
    """Why accuracy cannot be estimated from the labels of this graph; None if it can."""
    counts = graph.label_counts
    rarest = int(counts.argmin())
    if method.uses_validation:
        return "the method needs validation labels"
    if graph.num_edges == 0 and graph.num_features and len(label_copies(graph)) == graph.num_features:
        return "every column looks like a copy of the labels"
    if counts[rarest] < MIN_LABELS_PER_CLASS:
        return (
            f"class {graph.class_names[rarest]!r} has {counts[rarest]} label{'' if counts[rarest] == 1 else 's'}, and "
            f"none can be held out; {MIN_LABELS_PER_CLASS} of each class are needed"
        )
    return None


def is_gain_measurable(graph: Graph) -> bool:
    """Whether there are enough labels to estimate the gain of more labels."""
    return len(graph.known) >= MIN_LABELS_FOR_GAIN and graph.label_counts.min() >= MIN_LABELS_PER_CLASS_FOR_GAIN


def expected_accuracy(
    graph: Graph, method: Method, *, seed: int, device: torch.device | str = "cpu", folds: int = FOLDS
) -> ExpectedAccuracy:
    """Cross-validation over the given labels, with all folds in one stack. Features that look like a copy of the labels
    are left out, since unlabelled nodes have no such copy. Fits to fewer labels give the gain of more labels."""
    graph = _without_copies(graph)
    held_out = stratified_folds(graph, graph.known, folds, seed)
    measurable = len(held_out) > 1 and is_gain_measurable(graph)  # for many labels, the gain is negligible
    few = some_labels(graph.known, graph.labels[graph.known], seed) if measurable else []
    left_out = [*held_out, *(np.setdiff1d(graph.known, nodes) for nodes in few)]
    correct = fits_without(graph, method, left_out, seed, device).probabilities.argmax(axis=2) == graph.labels
    nodes = np.concatenate(held_out)
    by_many = np.concatenate([row[fold] for row, fold in zip(correct, held_out, strict=False)])
    labels, gain = len(nodes), None
    if few:
        unseen = np.stack([~np.isin(nodes, shown) for shown in few])
        by_few = (correct[len(held_out) :, nodes] & unseen).sum(axis=0) / np.maximum(unseen.sum(axis=0), 1)
        sizes = labels - labels / len(held_out), float(np.mean([len(shown) for shown in few]))
        gain = expected_gain((by_many - by_few)[unseen.any(axis=0)], sizes, labels)
    return replace(ExpectedAccuracy.of(float(by_many.mean()), labels, len(held_out)), gain=gain)


def expected_gain(
    gained: Float[np.ndarray, "held_out"], sizes: tuple[float, float], labels: int, more: int = MORE_LABELS
) -> ExpectedGain | None:
    """Extrapolate the learning curve accuracy(n) = a - b / √n through two accuracies on held-out labels.

    `gained` is 1 for held-out labels that only the fit to many labels predicts correctly, -1 for those that only the
    fit to few predicts; `sizes` are the numbers of many and few labels. Two pseudo-observations (one gained, one not)
    keep few held-out labels from looking certain. None if the sizes are equal.

    >>> gained = np.array([1.0] * 9 + [0.0] * 89)  # with the pseudo-observations: 10 points
    >>> expected_gain(gained, (100, 25), labels=100, more=300)  # 1 / √n halves, as from 25 to 100
    ExpectedGain(labels=300, gain=0.05, ci95=(0.0206, 0.0794), enough=False)
    """
    if sizes[0] == sizes[1]:
        return None
    gained = np.append(gained, [1, 0])
    step = (labels**-0.5 - (labels + more) ** -0.5) / (sizes[1] ** -0.5 - sizes[0] ** -0.5)
    gain, half = step * gained.mean(), NORMAL_95 * step * gained.std() / math.sqrt(len(gained))
    gain, low, high = (round(max(0.0, float(end)), 6) for end in (gain, gain - half, gain + half))
    return ExpectedGain(more, gain, (low, high), gain < ENOUGH_BELOW)


def some_labels(
    nodes: Int[np.ndarray, "labelled"], classes: Int[np.ndarray, "labelled"], seed: int
) -> list[Int[np.ndarray, "few"]]:
    """Two random quarters of the labelled nodes of each class, at least one node each; disjoint if the class has two.

    >>> [few.tolist() for few in some_labels(np.arange(6), np.array([0, 0, 0, 0, 0, 1]), seed=0)]
    [[1, 3, 5], [2, 5]]
    """
    order = np.random.default_rng(seed).permutation(len(nodes))
    order = order[np.argsort(classes[order], kind="stable")]
    first = np.searchsorted(classes[order], classes[order])
    rank, count = np.arange(len(order)) - first, np.bincount(classes)[classes[order]]
    return [np.sort(nodes[order[rank % FEW_DIVISOR == np.minimum(part, count - 1)]]) for part in range(2)]


def held_out_probabilities(
    graph: Graph, method: Method, *, seed: int, device: torch.device | str, folds: int
) -> tuple[Float[np.ndarray, "held_out classes"], Int[np.ndarray, "held_out"]]:
    """Predictions for held-out labels, and the labels."""
    graph = _without_copies(graph)
    held_out = stratified_folds(graph, graph.known, folds, seed)
    probabilities = fits_without(graph, method, held_out, seed, device).probabilities
    predicted = np.concatenate([probabilities[run, nodes] for run, nodes in enumerate(held_out)])
    return predicted, graph.labels[np.concatenate(held_out)]


def _without_copies(graph: Graph) -> Graph:
    """The graph without features that look like a copy of the labels. Edges that join nearest neighbours in all
    features are replaced by nearest neighbours in the others."""
    copies, features = label_copies(graph), graph.features
    if features is None or not len(copies):
        return graph
    kept = np.setdiff1d(np.arange(graph.num_features), copies)
    adjacency, k = graph.adjacency, int(np.diff(graph.adjacency.indptr).min())
    some = np.arange(0, graph.num_nodes, -(-graph.num_nodes // COMPARED_NODES))
    for metric in METRICS[:3] if len(kept) and 0 < k < graph.num_nodes else ():
        near = neighbour_search(features, k + 1, metric)(features[some])  # includes the node itself
        if (adjacency[np.repeat(some, k + 1), near.ravel()] > 0).mean() >= NEIGHBOUR_SHARE * k / (k + 1):
            adjacency = neighbour_graph(features[:, kept], k, metric)
            break
    names = tuple(graph.feature_names[column] for column in kept) if graph.feature_names else ()
    left = features[:, kept] if len(kept) else None
    return replace(graph, adjacency=adjacency, features=left, feature_names=names, preprocessing=None)


def label_copies(graph: Graph) -> Int[np.ndarray, "columns"]:
    """The features that look like a copy of the given labels.

    Either a feature has one value on all unlabelled nodes and another on m labelled ones, which happens by chance with
    probability (labels / nodes)^m. Or it predicts the labels without other features: each of the k classes
    has its own value, up to noise, which has probability k! n_1! ... n_k! / N!. A category, which several features
    encode, is one column here. Columns are copies if the probability of any such column by chance is below
    `COPY_CHANCE`.
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
    outputs = _features_by_column(graph)
    for column, own in outputs.items():
        if column.kind == "category":
            values[:, own[0]] = values[:, own].argmax(axis=1)
    order = np.argsort(values, axis=0, kind="stable")  # ties in the order of the classes
    classes, steps = graph.labels[some][order], np.diff(np.take_along_axis(values, order, axis=0), axis=0)
    changes = classes[1:] != classes[:-1]
    _, sizes = np.unique(graph.labels[some], return_counts=True)
    if len(sizes) > 1:
        gap, spread = np.where(changes, steps, np.inf).min(axis=0), np.where(changes, 0, steps).sum(axis=0)
        intervals = (changes.sum(axis=0) == len(sizes) - 1) & (gap > COPY_GAP * spread)
        by_chance = gammaln(len(sizes) + 1) + gammaln(sizes + 1).sum() - gammaln(len(some) + 1)
        chance = np.minimum(chance, np.where(intervals, by_chance, 0))
    copies = chance < math.log(COPY_CHANCE / graph.num_features)
    predictive = predictive_columns(graph)
    for column, own in outputs.items():
        copies[own] = copies[own].any() or predictive.get(column.name) == len(known)
    return np.flatnonzero(copies)


def predictive_columns(graph: Graph) -> dict[str, int]:
    """The named columns that each predict (nearly) all labels, one class per value, with the number of predicted
    labels.

    A column with v values and e errors among N labels of k classes does so by chance with a probability of at most
    k^v · binom(N, e) (k - 1)^e · n_1! ... n_k! / N!.
    """
    known = graph.known
    columns = {column: own for column, own in _features_by_column(graph).items() if column.kind != "text"}
    counts = graph.label_counts[graph.label_counts > 0]
    if not len(known) or graph.features is None or not 0 < len(columns) <= MAX_PREDICTIVE_COLUMNS or len(counts) < 2:
        return {}
    values, found = _dense(graph.features[known]), dict[str, int]()
    labelings = gammaln(len(known) + 1) - gammaln(counts + 1).sum()
    for column, own in columns.items():
        codes = np.unique(values[:, own], axis=0, return_inverse=True)[1].reshape(-1)
        table = np.zeros((int(codes.max()) + 1, graph.num_classes), dtype=np.int64)
        np.add.at(table, (codes, graph.labels[known]), 1)
        errors = len(known) - int(table.max(axis=1).sum())
        patterns = gammaln(len(known) + 1) - gammaln(errors + 1) - gammaln(len(known) - errors + 1)
        patterns += len(table) * math.log(len(counts)) + errors * math.log(max(1, len(counts) - 1))
        if len(table) > MAX_VALUES_PER_CLASS * len(counts):  # a car model, say, determines its class but is not a copy
            continue
        if errors <= MAX_ERRORS_OF_COPY * len(known) and patterns - labelings < math.log(COPY_CHANCE / len(columns)):
            found[column.name] = len(known) - errors
    return found


def _features_by_column(graph: Graph) -> dict[Any, list[int]]:
    """The features that encode each column of the node table; empty if features have no names."""
    place = {name: number for number, name in enumerate(graph.feature_names)}
    columns = graph.preprocessing.columns if graph.preprocessing and place else ()
    return {one: [place[name] for name in one.outputs if name in place] for one in columns if one.outputs}


def _dense(table: sp.csr_array | np.ndarray) -> np.ndarray:
    return table if isinstance(table, np.ndarray) else table.toarray()


# -------------------------------------------------------------------------------------------------------- temperature


def temperature(model: FittedModel, *, seed: int = 0, device: torch.device | str = "cpu") -> float:
    """The temperature at which the mean confidence over unlabelled nodes equals the expected accuracy. Predicted
    classes do not change. mt-plus applies its own temperature during the fit.

    The method is fitted again without each fold of the given labels, all fits in one stack. Apply the temperature
    with `tempered(model.label_distributions_, temperature)`.
    """
    graph = model.graph_
    if why_not := why_not_measurable(graph, model.method_):
        raise InputError(f"no temperature: {why_not}")
    expected = expected_accuracy(graph, model.method_, seed=seed, device=device)
    counted = torch.from_numpy(graph.labels == UNLABELED)[None]
    probabilities = torch.from_numpy(model.label_distributions_)[None]
    return float(matching_temperature(probabilities, torch.tensor([expected.accuracy]).double(), counted))


# ---------------------------------------------------------------------------------------------------- prediction sets


@dataclass(frozen=True, eq=False)
class PredictionSets:
    """A set of classes for each node; a share `coverage` of the sets contains the true class.

    The guarantee holds for nodes exchangeable with the held-out labels. Labels selected for being easy do not give it.
    """

    contains: Bool[np.ndarray, "nodes classes"]
    coverage: float
    least_probability: float  # a set contains the classes with at least this probability
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
    """Prediction sets by split conformal prediction (Vovk et al., 2005; on graphs, Huang et al., 2023).

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
            f"coverage {coverage:g} needs {needed} held-out labels; {len(spare)} of {len(graph.known)} are available, "
            f"since one of each class must stay; label {needed - len(spare)} more nodes"
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
    """The ⌈(n + 1) coverage⌉-th smallest of n scores: an upper bound of a new score with probability `coverage`.

    >>> conformal_threshold(np.arange(1, 20) / 20, coverage=0.9)  # the 18th of 19
    0.9
    """
    rank = math.ceil((len(scores) + 1) * coverage - 1e-9)  # 0.7 * 10 must not round up to 8
    return float(np.sort(scores)[rank - 1])


def _labels_needed(coverage: float) -> int:
    """The smallest n with ⌈(n + 1) coverage⌉ <= n."""
    if not 0 < coverage < 1:
        raise InputError(f"coverage is {coverage:g}; give a share between 0 and 1, for instance 0.9")
    return max(1, math.ceil(1 / (1 - coverage) - 1 - 1e-9))
