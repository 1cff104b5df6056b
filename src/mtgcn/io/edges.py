"""Edges listed in any direction and any number of times, as one symmetric matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError
from mtgcn.io.arrays import GraphArrays
from mtgcn.shapes import Float, Int, Real


@dataclass(frozen=True, eq=False)
class MergedLinks:
    """Every linked pair once. Of the weights listed for a pair the largest counts, so listing it again, in either
    direction, changes nothing."""

    first: Int[np.ndarray, "pairs"]
    second: Int[np.ndarray, "pairs"]  # >= first
    weights: Float[np.ndarray, "pairs"]
    one_way: int  # pairs of different nodes listed in one direction only
    both_ways: int  # the other pairs of different nodes
    uneven: int  # those of them whose two directions differ in weight

    def adjacency(self, nodes: int) -> sp.csr_array:
        """Symmetric; self-edges are kept."""
        apart = self.first != self.second
        rows = np.concatenate([self.first, self.second[apart]])
        columns = np.concatenate([self.second, self.first[apart]])
        weights = np.concatenate([self.weights, self.weights[apart]])
        return sp.coo_array((weights, (rows, columns)), shape=(nodes, nodes)).tocsr()


def merge(
    sources: Int[np.ndarray, "listed"],
    targets: Int[np.ndarray, "listed"],
    weights: Real[np.ndarray, "listed"] | None,
    nodes: int,
) -> MergedLinks:
    pair = np.minimum(sources, targets) * np.int64(nodes) + np.maximum(sources, targets)
    order = np.argsort(pair, kind="stable")
    pair = pair[order]
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    pair = pair[starts]
    if not len(starts):
        return MergedLinks(pair, pair, np.zeros(0, np.float32), 0, 0, 0)
    forward = (sources < targets)[order]
    backward = (sources > targets)[order]
    listed = np.ones(len(order), np.float32) if weights is None else weights[order].astype(np.float32)
    there = np.maximum.reduceat(np.where(forward, listed, -1), starts)  # -1: not listed that way
    back = np.maximum.reduceat(np.where(backward, listed, -1), starts)
    apart = pair // nodes != pair % nodes
    twice = (there >= 0) & (back >= 0)
    return MergedLinks(
        first=pair // nodes,
        second=pair % nodes,
        weights=np.maximum.reduceat(listed, starts),
        one_way=int(np.count_nonzero(apart & ~twice)),
        both_ways=int(np.count_nonzero(twice)),
        uneven=int(np.count_nonzero(twice & (there != back))),
    )


def check_edges(arrays: GraphArrays, where: str) -> None:
    """Complain of edges that are none, lead nowhere or weigh what an edge cannot."""
    nodes = len(arrays.node_ids)
    if not len(arrays.sources):
        raise InputError(f"{where} holds no edge; give at least one")
    ends = np.array([arrays.sources, arrays.targets])
    outside = np.argwhere(((ends < 0) | (ends >= nodes)).T)
    if len(outside):
        edge, end = outside[0]
        raise InputError(
            f"{where}: edge {edge} ends in node {ends[end, edge]} and there are {nodes}, counted from 0; "
            "mend it, or give more nodes"
        )
    if arrays.weights is None:
        return
    if arrays.weights.shape != arrays.sources.shape:
        raise InputError(
            f"{where}: weights of shape {arrays.weights.shape} for {len(arrays.sources)} edges; give one each"
        )
    if arrays.weights.dtype.kind not in "biuf":
        raise InputError(f"{where}: weights of type {arrays.weights.dtype}; give numbers")
    bad = np.flatnonzero(~((arrays.weights >= 0) & (arrays.weights <= np.finfo(np.float32).max)))
    if len(bad):
        raise InputError(f"{where}: edge {bad[0]} weighs {arrays.weights[bad[0]]:g}; give finite weights >= 0")
