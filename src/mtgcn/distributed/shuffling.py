"""Rows that change places over all ranks: sent to whoever is to have them, sorted together, permuted at random."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mtgcn.distributed.local_graph import LocalGraph
from mtgcn.distributed.ranks import Ranks
from mtgcn.linalg.node_keys import keyed_bits
from mtgcn.shapes import Float, Int, UInt64

WORD = 32  # bits of a number by which it is dealt to a rank; the rest tells numbers of one rank apart


def delivered(
    ranks: Ranks, rows: Int[np.ndarray, "some width"], to: Int[np.ndarray, "some"]
) -> tuple[Int[np.ndarray, "received width"], Int[np.ndarray, "received"]]:
    """The rows that all ranks had for this one, those of rank 0 first and each rank's in its order; and who sent them.
    `to` is the rank that each row goes to."""
    order = np.argsort(to, kind="stable")
    outgoing = np.bincount(to, minlength=ranks.count).tolist()
    incoming = [given[ranks.rank] for given in ranks.everyones(outgoing)]
    if ranks.count == 1:
        return rows, np.zeros(len(rows), dtype=np.int64)
    sent = torch.from_numpy(np.ascontiguousarray(rows[order])).to(ranks.device)
    received = ranks.exchanged(sent, outgoing, incoming).cpu().numpy()
    return received, np.repeat(np.arange(ranks.count), incoming)


def numbers_before(
    ranks: Ranks, keys: UInt64[np.ndarray, "here"], numbers: Int[np.ndarray, "here"]
) -> UInt64[np.ndarray, "here"]:
    """How many equal keys have nodes of smaller number, in any rank. Equal keys meet at the rank they are dealt to."""
    place = np.arange(len(keys))
    met, sender = delivered(ranks, np.stack([keys.view(np.int64), numbers, place], 1), _dealt_to(ranks, keys))
    order = np.lexsort((met[:, 1], met[:, 0]))
    ranked = met[order, 0]
    position = np.arange(len(met))
    first = np.maximum.accumulate(np.where(np.append(True, ranked[1:] != ranked[:-1])[: len(met)], position, 0))
    before = np.empty(len(met), dtype=np.int64)
    before[order] = position - first
    back, _ = delivered(ranks, np.stack([met[:, 2], before], 1), sender)
    found = np.empty(len(keys), dtype=np.uint64)
    found[back[:, 0]] = back[:, 1].astype(np.uint64)
    return found


def places_in_orders(ranks: Ranks, draws: UInt64[np.ndarray, "orders here"]) -> Int[np.ndarray, "orders here"]:
    """Where each of this rank's numbers stands when those of all ranks are sorted; each row is an order of its own, and
    has no number twice."""
    orders, here = draws.shape
    flat, place = draws.reshape(-1), np.arange(orders * here)
    row = np.repeat(np.arange(orders), here)
    met, sender = delivered(ranks, np.stack([flat.view(np.int64), place, row], 1), _dealt_to(ranks, flat))
    counts = np.bincount(met[:, 2], minlength=orders)
    smaller = np.sum([np.zeros(orders, dtype=np.int64), *ranks.everyones(counts)[: ranks.rank]], axis=0)
    sorted_ = np.lexsort((met[:, 0].view(np.uint64), met[:, 2]))
    position = np.empty(len(met), dtype=np.int64)
    position[sorted_] = np.arange(len(met)) - np.repeat(np.cumsum(counts) - counts - smaller, counts)
    back, _ = delivered(ranks, np.stack([met[:, 1], position], 1), sender)
    found = np.empty(orders * here, dtype=np.int64)
    found[back[:, 0]] = back[:, 1]
    return found.reshape(orders, here)


def _dealt_to(ranks: Ranks, words: UInt64[np.ndarray, "some"]) -> Int[np.ndarray, "some"]:
    """By their size, so that the smallest go to rank 0; random words are dealt evenly."""
    return ((words >> np.uint64(WORD)) * np.uint64(ranks.count) >> np.uint64(WORD)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Shuffle:
    """A permutation of all nodes: every one gets the row of another."""

    ranks: Ranks
    given: Int[Tensor, "here"]  # this rank's rows in the order in which they leave, those for rank 0 first
    outgoing: list[int]
    incoming: list[int]
    places: Int[Tensor, "here"]  # where the rows that come belong

    def __call__(self, rows: Float[Tensor, "here width"]) -> Float[Tensor, "here width"]:
        """This rank's rows after it."""
        came = rows[self.given]
        if self.ranks.count > 1:
            came = self.ranks.exchanged(came, self.outgoing, self.incoming)
        return torch.empty_like(rows).index_copy_(0, self.places, came)


def keyed_shuffle(local: LocalGraph, keys: UInt64[np.ndarray, "here"], seed: int, number: int) -> Shuffle:
    """The permutation of this number that `keyed_permutations` gives: the first node of one random order gets the row
    of the first node of another, and so on."""
    ranks, starts = local.ranks, np.asarray(local.starts)
    here = starts[ranks.rank] + np.arange(len(keys))
    nodes, met_at = int(starts[-1]), []
    for place in places_in_orders(ranks, np.stack([keyed_bits(keys, seed, 2 * number + half) for half in (0, 1)])):
        met, _ = delivered(ranks, np.stack([place, here], 1), place * ranks.count // max(nodes, 1))
        met_at.append(met[np.argsort(met[:, 0]), 1])  # nodes, by their place in this order
    getting, giving = met_at
    told, _ = delivered(ranks, np.stack([giving, getting], 1), _owner(starts, giving))
    to = _owner(starts, told[:, 1])
    order = np.argsort(to, kind="stable")
    outgoing = np.bincount(to, minlength=ranks.count).tolist()
    incoming = [given[ranks.rank] for given in ranks.everyones(outgoing)]
    came, _ = delivered(ranks, told[order, 1:], to[order])
    given, places = (
        torch.from_numpy(nodes - starts[ranks.rank]).to(ranks.device) for nodes in (told[order, 0], came[:, 0])
    )
    return Shuffle(ranks, given, outgoing, incoming, places)


def _owner(starts: Int[np.ndarray, "ranks_and_one"], nodes: Int[np.ndarray, "some"]) -> Int[np.ndarray, "some"]:
    return np.searchsorted(starts, nodes, side="right") - 1
