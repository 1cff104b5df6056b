"""Which columns of numbers are amounts of one kind: words, counts, pixels. Such rows are compared as they are, by what
their parts have to do with each other, and standardising every column would make the rarest word the loudest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mtgcn.shapes import Float

MANY = 20  # columns that are mostly zero make a table of words
MOSTLY = 0.5
LIKE_SIZE = 10.0  # how many times larger than another a column may be and still be of its kind


@dataclass(frozen=True)
class Size:
    """What has to be known of a column of numbers to tell amounts from measurements."""

    zeros: float  # the share of them
    smallest: float
    largest: float
    root_mean_square: float
    whole: bool  # whether all are whole numbers

    @staticmethod
    def of(values: Float[np.ndarray, "present"]) -> Size:
        if not len(values):
            return Size(0.0, 0.0, 0.0, 0.0, False)
        return Size(
            zeros=float(np.mean(values == 0)),
            smallest=float(values.min()),
            largest=float(values.max()),
            root_mean_square=float(np.sqrt(np.mean(values**2))),
            whole=bool((values == np.floor(values)).all()),
        )

    @property
    def varies(self) -> bool:
        return self.smallest < self.largest

    @property
    def is_word(self) -> bool:
        return self.smallest >= 0 and self.zeros >= MOSTLY

    @property
    def is_truth(self) -> bool:
        return self.whole and self.smallest >= 0 and self.largest <= 1


def are_amounts(sizes: Sequence[Size]) -> list[bool]:
    """For each column, whether it is an amount of the same kind as the other columns that are one.

    Many columns that are mostly zero are words (or pixels), and so are those beside them that are never negative and of
    like size. Few columns are counts if all of them are whole numbers from zero, of like size.

    >>> income, age, children = (Size.of(np.array(some)) for some in ([41e3, 52e3], [30.0, 61.0], [0.0, 2.0]))
    >>> are_amounts([income, age, children])
    [False, False, False]
    >>> are_amounts([children, Size.of(np.array([3.0, 0.0]))])
    [True, True]
    """
    nothing = [False] * len(sizes)
    varying = [size for size in sizes if size.varies]
    words = [size for size in sizes if size.is_word]
    if len(words) >= MANY:
        limit = LIKE_SIZE * max(size.root_mean_square for size in words)
        return [size.is_word or (size.smallest >= 0 and size.root_mean_square <= limit) for size in sizes]
    if len(varying) < 2 or not all(size.whole and size.smallest == 0 for size in varying):
        return nothing
    counted = [size.root_mean_square for size in varying]
    return [True] * len(sizes) if max(counted) <= LIKE_SIZE * min(counted) else nothing
