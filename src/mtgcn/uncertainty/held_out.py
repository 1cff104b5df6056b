"""Fits that are not shown some of the given labels, so that these can tell how good a fit is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.linalg.structural_features import with_structural_features
from mtgcn.methods import Method, fit_in_chunks
from mtgcn.shapes import Int
from mtgcn.splits import Split
from mtgcn.task import Prediction, observe


def stratified_folds(
    graph: Graph, nodes: Int[np.ndarray, "labelled"], folds: int, seed: int
) -> list[Int[np.ndarray, "held_out"]]:
    """Labelled nodes in so many folds, each with its share of every class."""
    shuffled = np.random.default_rng(seed).permutation(nodes)
    by_class = shuffled[np.argsort(graph.labels[shuffled], kind="stable")]
    return [np.sort(by_class[fold::folds]) for fold in range(folds)]


def fits_without(
    graph: Graph, method: Method, held_out: Sequence[np.ndarray], seed: int, device: torch.device | str
) -> Prediction:
    """The method fitted once for each of these sets of labels, which it is not shown; all fits are one stack."""
    if method.uses_validation:
        raise InputError(
            f"{type(method).__name__} chooses by validation labels and here none are set aside; take another method"
        )
    seen = with_structural_features(graph, seed) if method.uses_features and graph.features is None else graph
    splits = [Split(np.setdiff1d(graph.known, nodes), nodes[:0], nodes) for nodes in held_out]
    task = observe(seen, splits, seed, device=device)
    # Only the labels differ from fit to fit, so that whatever is learned without labels is learned once.
    return fit_in_chunks(method, replace(task, seeds=task.seeds[:1] * len(splits)))
