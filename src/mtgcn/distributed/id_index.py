"""Which node has which id, for more ids than a dictionary holds: 24 bytes for each, whatever its length."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from mtgcn.errors import InputError, shown
from mtgcn.io.ids import NodeIndex
from mtgcn.io.table import MISSING, Coded
from mtgcn.linalg.node_keys import splitmix64
from mtgcn.shapes import Int, UInt64

IDS_AT_ONCE = 1 << 16  # hashing takes some bytes for every letter
_OTHER = np.uint64(0xA5A5A5A5A5A5A5A5)  # makes a second hash of the first one's letters


def id_hashes(ids: pa.Array) -> UInt64[np.ndarray, "ids 2"]:
    """Two independent 64-bit numbers for each text: 128 bits, so that no two texts of a graph will have the same."""
    found = np.empty((len(ids), 2), dtype=np.uint64)
    for start in range(0, len(ids), IDS_AT_ONCE):
        some = pa.concat_arrays([ids.slice(start, IDS_AT_ONCE).cast(pa.large_string())])
        _, ends_buffer, text = some.buffers()
        ends = np.frombuffer(ends_buffer, np.int64)[some.offset : some.offset + len(some) + 1]
        letters = np.frombuffer(text, np.uint8)[ends[0] : ends[-1]] if text is not None else np.zeros(0, np.uint8)
        lengths = np.diff(ends)
        place = np.arange(len(letters)) - np.repeat(ends[:-1] - ends[0], lengths)
        terms = (place.astype(np.uint64) << np.uint64(8)) + letters
        for column, salt in enumerate((np.uint64(0), _OTHER)):
            sums = np.zeros(len(letters) + 1, dtype=np.uint64)
            np.cumsum(splitmix64(terms ^ salt), dtype=np.uint64, out=sums[1:])
            total = sums[ends[1:] - ends[0]] - sums[ends[:-1] - ends[0]]
            found[start : start + len(some), column] = splitmix64(total + lengths.astype(np.uint64))
    return found


class LargeIndex(NodeIndex):
    """The ids of nodes that are all known, numbered in their order. It finds, and takes no more."""

    def __init__(self, ids: pa.Array, title: str) -> None:
        super().__init__()
        self._count = len(ids)
        hashes = id_hashes(ids)
        self._number = np.lexsort((hashes[:, 1], hashes[:, 0]))
        self._sorted = hashes[self._number]
        same = np.flatnonzero(self._sorted[1:, 0] == self._sorted[:-1, 0])
        repeated = same[self._sorted[same + 1, 1] == self._sorted[same, 1]]
        if len(repeated):
            pairs = np.sort(np.stack([self._number[repeated], self._number[repeated + 1]]), axis=0)
            first = int(np.argmin(pairs[1]))
            text = shown(ids[int(pairs[1, first])].as_py())
            more = f" (and {len(repeated) - 1} more)" if len(repeated) > 1 else ""
            raise InputError(
                f"{title}: node {text} has two rows, numbers {pairs[0, first] + 1} and {pairs[1, first] + 1}{more}; "
                "keep one row per node, or name the column of the ids (--column id=NAME)"
            )
        if len(same):
            texts = " and ".join(shown(ids[int(self._number[row])].as_py()) for row in (same[0], same[0] + 1))
            raise InputError(f"{title}: the ids {texts} cannot be told apart by half of their hashes; rename one")

    def __len__(self) -> int:
        return self._count

    def find(self, column: Coded) -> Int[np.ndarray, "rows"]:
        return np.append(self.places(column.values), MISSING)[column.codes]

    def places(self, ids: pa.Array) -> Int[np.ndarray, "ids"]:
        """The node of each of some ids; MISSING where nobody has it."""
        if not self._count:
            return np.full(len(ids), MISSING)
        hashes = id_hashes(ids.cast(pa.string()))
        place = np.searchsorted(self._sorted[:, 0], hashes[:, 0]).clip(max=self._count - 1)
        return np.where((self._sorted[place] == hashes).all(axis=1), self._number[place], MISSING)

    def knows(self, name: str) -> bool:
        return bool((self.places(pa.array([name])) != MISSING).all())
