"""What there is to do, as counts of operations, told by whoever does it; `machine_speed.py` makes seconds of it."""

from __future__ import annotations

from dataclasses import dataclass

NARROW = 16  # columns; a product with fewer spends its time on reading the other matrix
DECOMPOSED_LIKE = 4  # multiplications of a product take as long as one of QR, Cholesky or eigenvectors


@dataclass(frozen=True)
class Work:
    """Counts of four kinds of operations.

    >>> Work(gathered=100) + 2 * Work(multiplied=5)
    Work(multiplied=10, gathered=100, touched=0, calls=0)
    """

    multiplied: float = 0  # pairs of numbers, in products of dense matrices
    gathered: float = 0  # numbers read along the entries of a sparse matrix: entries x columns
    touched: float = 0  # numbers that are passed over, once for every operation on them
    calls: float = 0  # of a library, each of which takes time however little it does

    def __add__(self, other: Work) -> Work:
        return Work(
            self.multiplied + other.multiplied,
            self.gathered + other.gathered,
            self.touched + other.touched,
            self.calls + other.calls,
        )

    def __rmul__(self, times: float) -> Work:
        return Work(times * self.multiplied, times * self.gathered, times * self.touched, times * self.calls)


def product(rows: int, inner: int, columns: int) -> Work:
    """A dense matrix of `rows` x `inner` times one of `inner` x `columns`."""
    return Work(multiplied=rows * inner * max(columns, NARROW), calls=1)


def decomposition(rows: int, columns: int) -> Work:
    """An orthonormal basis of a table's columns or, where it is square, its inverse."""
    return Work(multiplied=DECOMPOSED_LIKE * rows * columns**2, calls=1)
