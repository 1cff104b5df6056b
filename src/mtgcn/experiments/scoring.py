"""Splits, fits and scores of one method on one graph: one row per run.

Only this module reads the labels of test nodes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from mtgcn import datasets, environment
from mtgcn.errors import InputError, shown, unknown_name
from mtgcn.experiments.protocol import GIVEN, OVER_ALL, PUBLIC, RANDOM, VALIDATION_NODES
from mtgcn.experiments.statistics import (
    BOOTSTRAP_SEED,
    PairedTest,
    SampleSummary,
    paired_difference,
    paired_tests,
    summarise_share,
)
from mtgcn.experiments.store import ResultRow
from mtgcn.graph import UNLABELED, Graph
from mtgcn.graph_checks import as_array
from mtgcn.methods import Method, fit_in_chunks, task_of
from mtgcn.shapes import Bool, Float, Int
from mtgcn.splits import (
    SPLIT_PARTS,
    Split,
    check_runs,
    check_seed,
    draw_over_all,
    draw_splits,
    per_class_counts,
    read_splits,
)
from mtgcn.task import MISSING, Prediction

CALIBRATION_BINS = 15
TIE_SEED = 0  # of the random choice between equally probable classes
ROUNDING = 1e-6  # relative difference up to which probabilities are equal
SCORES = ("accuracy", "balanced-accuracy", "macro-f1", "roc-auc", "average-precision")  # scores that rank methods
SCORE_TITLES = dict(
    zip(SCORES, ("accuracy", "balanced accuracy", "macro F1", "ROC AUC", "average precision"), strict=True)
)
MEASURES = (*(name.replace("-", "_") for name in SCORES), "calibration_error")
DEFAULT_RUNS = 30  # number of runs, as in the paper
SCORE_RESAMPLES = 500


@dataclass(frozen=True)
class Score:
    """Scores of one run on its test nodes, each between 0 and 1."""

    accuracy: float
    macro_f1: float
    calibration_error: float
    balanced_accuracy: float
    roc_auc: float | None  # None unless there are two classes
    average_precision: float | None  # average precision of the rarer of two classes


@dataclass(frozen=True)
class CellSummary:
    """All runs of one method on one dataset at one label rate."""

    dataset: str
    labels_per_class: int | tuple[int, ...] | None  # None if it differs between runs
    split: str
    method: str
    settings: Mapping[str, Any]
    runs: int
    groups: tuple[int, ...] | None  # runs with the same number share random parts; None: no shared parts
    seed: int
    accuracy: SampleSummary
    macro_f1: SampleSummary
    calibration_error: SampleSummary
    balanced_accuracy: SampleSummary | None  # None where rows lack it
    roc_auc: SampleSummary | None
    average_precision: SampleSummary | None
    seconds: float  # wall time of fitting all runs, data loading excluded
    device: str
    threads: int
    versions: Mapping[str, str]

    def by(self, score: str) -> SampleSummary:
        """The summary of the given score, one of `SCORES`."""
        found: SampleSummary | None = getattr(self, score.replace("-", "_"))
        if found is None:
            why = "it needs two classes, both among the scored nodes" if score in SCORES[3:] else "these rows lack it"
            raise InputError(f"{score} of {self.method} is not known: {why}; choose another --score")
        return found


@dataclass(frozen=True)
class ExpectedScore:
    """A score of predictions for held-out labels."""

    score: str
    value: float
    ci95: tuple[float, float]  # interval by bootstrap over the labels of each class
    labels: int


Scorer = Callable[[Prediction, Graph, Sequence[Split]], list[Score]]
FittingProgress = Callable[[str], AbstractContextManager[object]]  # makes a context around a fit from its title


def check_score(score: str, num_classes: int = 2) -> str:
    """Return the score; raise unless it is one of `SCORES` and fits the number of classes."""
    if score not in SCORES:
        raise unknown_name("score", score, SCORES)
    if score in SCORES[3:] and num_classes != 2:
        raise InputError(f"{score} requires two classes, not {num_classes}; use --score macro-f1")
    return score


def chosen_splits(
    source: Any,
    graph: Graph,
    *,
    labels_per_class: int | Sequence[int] | None = None,
    runs: int | None = None,
    seed: int = 0,
    with_validation: bool = False,
    validation_per_class: int = 0,
) -> tuple[Split, ...]:
    """One split per run. `source` is "random", "over-all", "public", the path of a split file, or `given_splits`.

    A single fixed split is repeated, and its runs differ by seed. Drawn splits have `validation_per_class` validation
    nodes of each class or, if that is 0 and `with_validation` is set, 500 in total.
    """
    check_runs(DEFAULT_RUNS if runs is None else runs, len(graph.known))
    check_seed(seed)
    if not isinstance(source, str):
        fixed = given_splits(source, graph)
        source = GIVEN
    elif source in (RANDOM, OVER_ALL):
        if labels_per_class is None:
            raise InputError(f"{source} splits need a number of labels; add --labels-per-class, for instance 2")
        validation = VALIDATION_NODES if with_validation and not validation_per_class else 0
        numbers = runs or DEFAULT_RUNS, seed, validation, validation_per_class
        if source == RANDOM:
            return draw_splits(graph, labels_per_class, *numbers)
        if not isinstance(labels_per_class, int):
            raise InputError(f"labels-per-class lists {len(labels_per_class)} numbers; {source} splits take one")
        return draw_over_all(graph, labels_per_class, *numbers)
    elif source == PUBLIC:
        fixed = (datasets.public_split(graph.name),)
    elif Path(source).exists():
        fixed = read_splits(Path(source), graph)
    else:
        raise InputError(
            f"split {source!r} is neither {RANDOM!r}, {OVER_ALL!r}, {PUBLIC!r} nor a file here; give one of these"
        )
    if validation_per_class:
        raise InputError(
            f"split {source!r} has its own validation nodes; omit --validation-per-class, or use --split {RANDOM}"
        )
    if labels_per_class is not None:
        wanted = tuple(map(int, per_class_counts(graph, labels_per_class)))
        for split in fixed:
            if _label_counts(split, graph) != wanted:
                raise InputError(
                    f"labels-per-class asks for {labels_per_class} but split {source!r} gives "
                    f"{labels_per_class_of(split, graph)}; omit --labels-per-class"
                )
    if len(fixed) == 1:
        return fixed * (runs or DEFAULT_RUNS)
    if runs not in (None, len(fixed)):
        raise InputError(f"runs is {runs} but {source} holds {len(fixed)} splits; omit --runs")
    return fixed


def given_splits(given: Any, graph: Graph) -> tuple[Split, ...]:
    """Splits from arrays, one for each run.

    A split is a `Split`, a mapping with "train", "validation" and "test", a tuple of training and test nodes or of all
    three, or the training nodes alone. Nodes are numbers or a mask; a mask may have one column per run. Without test
    nodes, all other labelled nodes are test nodes. A list, a generator and the rows of a matrix hold one split each.
    """
    given = as_array(given) if hasattr(given, "detach") else given
    if isinstance(given, np.ndarray):
        single = given.ndim == 1 or given.dtype == bool
    elif isinstance(given, list):
        single = bool(given) and all(isinstance(one, int | np.integer | np.bool_) for one in given)
    else:
        single = isinstance(given, Split | Mapping | tuple)
    if not single and not isinstance(given, Iterable):
        raise InputError(f"split is {shown(given)}; give the name of a kind of split, a file, or arrays of nodes")
    splits: list[Split] = []
    for one in [given] if single else given:
        parts = vars(one) if isinstance(one, Split) else {"train": one}
        if isinstance(one, Mapping | tuple):
            if isinstance(one, tuple) and len(one) not in (2, 3):
                raise InputError(f"a split of {len(one)} parts; give (train, test) or (train, validation, test)")
            names = SPLIT_PARTS if len(one) == 3 else ("train", "test")
            parts = dict(one) if isinstance(one, Mapping) else dict(zip(names, one, strict=True))
        for name in parts:
            if name not in SPLIT_PARTS:
                raise unknown_name("part of a split", name, SPLIT_PARTS)
        arrays = {name: np.asarray(as_array(part)) for name, part in parts.items()}
        for run in range(max((part.shape[1] for part in arrays.values() if part.ndim == 2), default=1)):
            columns = {name: part[:, run] if part.ndim == 2 else part for name, part in arrays.items()}
            nodes = {name: _nodes(part, name, graph) for name, part in columns.items()}
            seen = np.concatenate([nodes.get(name, np.empty(0, dtype=np.int64)) for name in SPLIT_PARTS[:2]])
            if len(unknown := seen[graph.labels[seen] == UNLABELED]):
                raise InputError(f"training node {unknown[0]} has no known class; take it out of the split")
            splits.append(Split(**{"validation": seen[:0], "test": np.setdiff1d(graph.known, seen)} | nodes))
    if not splits:
        raise InputError("0 splits; give at least 1")
    return tuple(splits)


def _nodes(part: np.ndarray, name: str, graph: Graph) -> Int[np.ndarray, "nodes"]:
    """The nodes of a mask or of a list of numbers."""
    if part.dtype == bool:
        if len(part) != graph.num_nodes:
            raise InputError(f"{name!r} of a split is a mask of {len(part)} nodes; the graph has {graph.num_nodes}")
        return np.flatnonzero(part)
    if part.size and (part.dtype.kind not in "iu" or part.ndim != 1):
        raise InputError(f"{name!r} of a split holds {shown(part.ravel()[0])}; give node numbers or a mask")
    nodes = part.astype(np.int64)
    if len(outside := nodes[(nodes < 0) | (nodes >= graph.num_nodes)]):
        raise InputError(f"node {outside[0]} of a split; the graph has nodes 0 to {graph.num_nodes - 1}")
    return nodes


def labels_per_class_of(split: Split, graph: Graph, source: str = RANDOM) -> int | tuple[int, ...]:
    """Training labels per class: one number if equal for all classes, or the mean if drawn over all classes."""
    if source == OVER_ALL:
        return len(split.train) // graph.num_classes
    counts = _label_counts(split, graph)
    return counts[0] if len(set(counts)) == 1 else counts


def _label_counts(split: Split, graph: Graph) -> tuple[int, ...]:
    return tuple(map(int, np.bincount(graph.labels[split.train], minlength=graph.num_classes)))


def score(prediction: Prediction, graph: Graph, splits: Sequence[Split]) -> list[Score]:
    """One score per run, each on the test nodes of its own split."""
    return [_score_run(one, split, graph) for one, split in zip(prediction.probabilities, splits, strict=True)]


def score_better_peer(prediction: Prediction, graph: Graph, splits: Sequence[Split]) -> list[Score]:
    """One score per run, of the peer with the highest test accuracy.

    The authors report this score. It is optimistic, since test labels select the peer.
    """
    if prediction.peers is None:
        raise InputError("this method has no peers; use --protocol ours, which scores its prediction")
    return [
        max((_score_run(one, split, graph) for one in peers), key=lambda result: result.accuracy)
        for peers, split in zip(prediction.peers, splits, strict=True)
    ]


def run_cell(
    graph: Graph,
    splits: Sequence[Split],
    method: Method,
    *,
    name: str,
    seed: int,
    split_source: str = RANDOM,
    device: torch.device | str = "cpu",
    memory_budget: int | None = None,
    scorer: Scorer = score,
) -> list[ResultRow]:
    """Fit `method`, named `name` in the rows, on `splits`, which `chosen_splits` drew from `split_source`.

    Only methods with `uses_validation` see the labels of the validation nodes; see `task_of`.
    """
    device = torch.device(device)
    for split in splits:
        check_scorable(split, graph)  # before the fit
    task = task_of(method, graph, splits, seed, device)
    wait = partial(torch.cuda.synchronize, device) if device.type == "cuda" else lambda: None
    wait()
    started = perf_counter()
    prediction = fit_in_chunks(method, task, memory_budget)
    wait()
    seconds = perf_counter() - started
    shared: dict[str, Any] = {"dataset": graph.name, "split": split_source, "method": name, "seed": seed}
    shared |= {"settings": plain_settings(method), "seconds": seconds / len(splits), "versions": environment.versions()}
    shared |= {"device": environment.device_title(device), "threads": torch.get_num_threads()}
    return [
        ResultRow(
            **shared,
            **vars(result),
            labels_per_class=labels_per_class_of(split, graph, split_source),
            run=run,
            group=None if prediction.groups is None else int(prediction.groups[run]),
        )
        for run, (split, result) in enumerate(zip(splits, scorer(prediction, graph, splits), strict=True))
    ]


def plain_settings(method: Method) -> dict[str, Any]:
    """Settings as the store returns them; values without a JSON form are replaced by their repr."""
    return json.loads(json.dumps(asdict(method), default=repr), parse_constant=str)


def summarise_cell(rows: Sequence[ResultRow]) -> CellSummary:
    """Summarise the runs of one method on one cell."""
    groups, label_counts = groups_of(rows), {row.labels_per_class for row in rows}
    shared = ("dataset", "split", "method", "settings", "seed", "device", "threads", "versions")
    parts: dict[str, Any] = {name: getattr(rows[0], name) for name in shared}
    parts |= {name: _summary([getattr(row, name) for row in rows], groups) for name in MEASURES}
    return CellSummary(
        **parts,
        labels_per_class=rows[0].labels_per_class if len(label_counts) == 1 else None,
        runs=len(rows),
        groups=groups,
        seconds=sum(row.seconds for row in rows),
    )


def compared_cells(
    cells: Sequence[CellSummary], rivals: Sequence[CellSummary | None], score: str = SCORES[0]
) -> list[PairedTest | None]:
    """The paired test of every cell against its rival, if any, with p-values corrected for all these tests."""
    differences = [
        paired_difference(cell.by(score).per_run, rival.by(score).per_run, cell.groups, rival.groups)
        for cell, rival in zip(cells, rivals, strict=True)
        if rival
    ]
    tests = iter(paired_tests(differences))
    return [next(tests) if rival else None for rival in rivals]


def groups_of(rows: Sequence[ResultRow]) -> tuple[int, ...] | None:
    """The groups of runs that share random parts; None without shared parts."""
    numbers = [row.group for row in rows if row.group is not None]
    return tuple(numbers) if len(numbers) == len(rows) else None


def _summary(values: Sequence[float | None], groups: tuple[int, ...] | None) -> SampleSummary | None:
    known = [value for value in values if value is not None]
    return summarise_share(known, groups) if len(known) == len(values) else None


def accuracy_over_epochs(
    predicted: Int[np.ndarray, "runs snapshots nodes"], graph: Graph, splits: Sequence[Split]
) -> Float[np.ndarray, "runs snapshots"]:
    """Test accuracy of each run at each recorded epoch."""
    tests = [check_scorable(split, graph).test for split in splits]
    return np.stack(
        [np.mean(one[:, test] == graph.labels[test], axis=1) for one, test in zip(predicted, tests, strict=True)]
    )


def pseudo_label_precision(
    chosen: Int[np.ndarray, "runs snapshots peers classes slots"], graph: Graph
) -> Float[np.ndarray, "runs snapshots classes"]:
    """Share of correct pseudo labels by class over all peers; NaN without pseudo labels. Nodes of unknown class are not
    counted."""
    truth = np.where(chosen == MISSING, UNLABELED, graph.labels[chosen])
    correct = truth == np.arange(graph.num_classes)[:, None]
    known = (truth != UNLABELED).sum(axis=(2, 4))
    return np.divide(correct.sum(axis=(2, 4)), known, out=np.full(known.shape, np.nan), where=known > 0)


def check_scorable(split: Split, graph: Graph) -> Split:
    """Return the split, or refuse it if it has no test nodes or test nodes of unknown class."""
    if not len(split.test):
        raise InputError("a split has 0 test nodes; leave at least 1 node of known class to be scored")
    unknown = split.test[graph.labels[split.test] == UNLABELED]
    if len(unknown):
        raise InputError(f"test node {graph.node_ids[unknown[0]]} has no known class; take it out of the split")
    return split


def _score_run(answer: Float[np.ndarray, "nodes classes"], split: Split, graph: Graph) -> Score:
    test = check_scorable(split, graph).test
    rarer = int(graph.label_counts.argmin())
    return scores_of(answer[test], graph.labels[test], rarer)


def scores_of(
    probabilities: Float[np.ndarray, "nodes classes"], truth: Int[np.ndarray, "nodes"], positive: int = 1
) -> Score:
    """The scores of predictions; `positive` is the positive one of two classes."""
    predicted, two = predicted_classes(probabilities), probabilities.shape[1] == 2
    ranking = probabilities[:, positive], truth == positive
    return Score(
        accuracy=float(np.mean(predicted == truth)),
        macro_f1=macro_f1(predicted, truth, probabilities.shape[1]),
        calibration_error=calibration_error(probabilities, truth),
        balanced_accuracy=balanced_accuracy(predicted, truth),
        roc_auc=roc_auc(*ranking) if two else None,
        average_precision=average_precision(*ranking) if two else None,
    )


def predicted_classes(probabilities: Float[np.ndarray, "nodes classes"]) -> Int[np.ndarray, "nodes"]:
    """The most probable class of each node.

    Ties are broken at random. The first of the classes may be the largest, and a constant prediction would then have
    its share as accuracy.

    >>> np.bincount(predicted_classes(np.full((1000, 2), 0.5))) / 1000
    array([0.532, 0.468])
    """
    predicted = probabilities.argmax(axis=1)
    highest = probabilities >= (1 - ROUNDING) * probabilities.max(axis=1, keepdims=True)
    tied = np.flatnonzero(highest.sum(axis=1) > 1)
    random = np.random.default_rng(TIE_SEED).random((len(tied), probabilities.shape[1]))
    predicted[tied] = np.where(highest[tied], random, -1).argmax(axis=1)
    return predicted


def expected_score(
    probabilities: Float[np.ndarray, "held_out classes"],
    truth: Int[np.ndarray, "held_out"],
    score: str,
    label_counts: Int[np.ndarray, "classes"],
) -> ExpectedScore:
    """The score of predictions for held-out labels."""
    random, rarer = np.random.default_rng(BOOTSTRAP_SEED), int(label_counts.argmin())
    members = [np.flatnonzero(truth == number) for number in np.unique(truth)]

    def value(nodes: Int[np.ndarray, "nodes"]) -> float:
        found: float = getattr(scores_of(probabilities[nodes], truth[nodes], rarer), score.replace("-", "_"))
        return found

    drawn = [np.concatenate([random.choice(some, len(some)) for some in members]) for _ in range(SCORE_RESAMPLES)]
    low, high = np.percentile([value(nodes) for nodes in drawn], [2.5, 97.5])
    return ExpectedScore(score, value(np.arange(len(truth))), (float(low), float(high)), len(truth))


def macro_f1(predicted: Int[np.ndarray, "nodes"], truth: Int[np.ndarray, "nodes"], num_classes: int) -> float:
    """The mean over classes of F1 = 2 TP / (2 TP + FP + FN).

    Classes that are neither among the tested nodes nor predicted (0 / 0) are left out.

    >>> macro_f1(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]), num_classes=3)  # (2/3 + 4/5) / 2
    0.7333333333333334
    """
    hits = np.bincount(truth[predicted == truth], minlength=num_classes)
    total = np.bincount(predicted, minlength=num_classes) + np.bincount(truth, minlength=num_classes)  # 2 TP + FP + FN
    seen = total > 0
    return float(np.mean(2 * hits[seen] / total[seen]))


def balanced_accuracy(predicted: Int[np.ndarray, "nodes"], truth: Int[np.ndarray, "nodes"]) -> float:
    """The mean over the tested classes of the share of their nodes that are predicted correctly.

    >>> balanced_accuracy(np.array([0, 0, 0, 1]), np.array([0, 0, 0, 0]))
    0.75
    >>> balanced_accuracy(np.array([0, 0, 0, 0]), np.array([0, 0, 0, 1]))
    0.5
    """
    sizes = np.bincount(truth)
    hits = np.bincount(truth[predicted == truth], minlength=len(sizes))
    return float(np.mean(hits[sizes > 0] / sizes[sizes > 0]))


def roc_auc(scores: Float[np.ndarray, "nodes"], positive: Bool[np.ndarray, "nodes"]) -> float | None:
    """The probability that a positive node scores above a negative one, ties counting half; None without both kinds.

    >>> roc_auc(np.array([0.1, 0.4, 0.4, 0.9]), np.array([False, False, True, True]))  # 3 of 4 pairs, and one tie
    0.875
    """
    from scipy.stats import rankdata

    count = int(positive.sum())
    if not 0 < count < len(positive):
        return None
    above = rankdata(scores)[positive].sum() - count * (count + 1) / 2
    return float(above / (count * (len(positive) - count)))


def average_precision(scores: Float[np.ndarray, "nodes"], positive: Bool[np.ndarray, "nodes"]) -> float | None:
    """The mean precision at the positive nodes, in order of decreasing score; nodes with equal scores count together.
    None without both kinds.

    >>> average_precision(np.array([0.9, 0.8, 0.3]), np.array([True, False, True]))  # (1 / 1 + 2 / 3) / 2
    0.8333333333333333
    """
    if not 0 < positive.sum() < len(positive):
        return None
    _, level = np.unique(-scores, return_inverse=True)
    hits = np.cumsum(np.bincount(level, weights=positive))
    precision = hits / np.cumsum(np.bincount(level))
    return float(np.diff(hits, prepend=0) @ precision / hits[-1])


def calibration_error(probabilities: Float[np.ndarray, "nodes classes"], truth: Int[np.ndarray, "nodes"]) -> float:
    """Expected calibration error (Guo et al., 2017): |confidence - accuracy| averaged over 15 bins of equal width.

    Nodes are binned by the probability of their predicted class, and bins are weighted by their number of nodes.

    >>> calibration_error(np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0, 1]))  # confidence 0.9, accuracy 0.5
    0.4
    """
    confidence = probabilities.max(axis=1).astype(np.float64)
    correct = predicted_classes(probabilities) == truth
    bin_of = np.minimum((confidence * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)  # 1.0: the last bin
    surplus = np.bincount(bin_of, weights=confidence - correct)  # nodes x (confidence - accuracy)
    return float(np.abs(surplus).sum() / len(truth))
