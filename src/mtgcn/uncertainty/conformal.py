"""Sets of classes that hold the true one as often as was asked for. See docs/trust.md."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.shapes import Bool, Float, Int
from mtgcn.uncertainty.fitted_model import FittedModel
from mtgcn.uncertainty.held_out import fits_without

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
    probabilities = fits_without(graph, model.method_, [held_out], seed, device).probabilities[0]
    uncertainty = 1 - probabilities
    threshold = conformal_threshold(uncertainty[held_out, graph.labels[held_out]], coverage)
    contains = uncertainty <= threshold
    contains[np.arange(graph.num_nodes), probabilities.argmax(axis=1)] = True  # an empty set would help nobody
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
