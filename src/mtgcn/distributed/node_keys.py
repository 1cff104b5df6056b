"""The keys of all nodes (`linalg/node_keys.py`), each rank's of its own: the same numbers as one process finds."""

from __future__ import annotations

from functools import partial

import numpy as np
import scipy.sparse as sp
import torch

from mtgcn.distributed.local_graph import LocalGraph
from mtgcn.distributed.shards import read_part
from mtgcn.distributed.shuffling import numbers_before
from mtgcn.linalg.node_keys import ROUNDS, distinct_keys, feature_keys, neighbourhood_keys
from mtgcn.shapes import UInt64


def shared_node_keys(local: LocalGraph, features: sp.csr_array | np.ndarray) -> UInt64[np.ndarray, "here"]:
    """A 64-bit number for each of this rank's nodes, which no other node has."""
    keys = feature_keys(features, local.num_nodes)
    for _ in range(ROUNDS):
        mine = torch.from_numpy(keys.view(np.int64)[:, None].copy()).to(local.ranks.device)
        beside = local.boundary.beside(mine)[:, 0].cpu().numpy().view(np.uint64)
        keys = local.ranks.together(partial(_surrounded, local, keys, beside))
    return distinct_keys(keys, numbers_before(local.ranks, keys, local.numbers.cpu().numpy()))


def _surrounded(
    local: LocalGraph, keys: UInt64[np.ndarray, "here"], beside: UInt64[np.ndarray, "both"]
) -> UInt64[np.ndarray, "here"]:
    """Part by part, with the edges' own weights, which are read again: dividing by degrees has rounded them."""
    rows, found, end = local.adjacency.matrix, [], 0
    for part in local.parts:
        weights = read_part(local.manifest, part).adjacency
        start, end = end, end + weights.shape[0]
        columns = rows.indices[rows.indptr[start] : rows.indptr[end]]
        some = sp.csr_array((weights.data, columns, weights.indptr), shape=(end - start, len(beside)))
        found.append(neighbourhood_keys(keys[start:end], beside, some))
    return np.concatenate(found)
