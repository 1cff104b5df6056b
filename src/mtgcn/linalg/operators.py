"""Blockwise passes over arrays, transfers to a device, and sparse and dense operators that let gradients through.

Operators act on the first axis, the nodes. All other axes (runs, peers, units) are columns of one product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.communicator import ONE_PROCESS, Communicator
from mtgcn.shapes import Float, Int

BLOCK_SIZE = 2**16
LARGE_BLOCK = 2**20  # numbers per block of cheap operations


def blocks_of_rows(rows: int, width: int = 1, at_once: int | None = None) -> list[slice]:
    """Row slices of a table of that width, each with about `at_once` numbers (default `BLOCK_SIZE`).

    >>> blocks_of_rows(5, width=2**15)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    size = max(1, (at_once or BLOCK_SIZE) // max(1, width))
    return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]


def blocks_of_entries(row_starts: Int[np.ndarray, "rows_and_one"], at_once: int | None = None) -> list[slice]:
    """Row slices of a sparse matrix, each with about `at_once` entries; a longer row forms its own slice.

    >>> blocks_of_entries(np.array([0, 2**15, 2**16, 2**18, 2**18 + 1]))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    rows, entries, at_once = len(row_starts) - 1, int(row_starts[-1]), at_once or BLOCK_SIZE
    ends = np.searchsorted(row_starts, np.arange(at_once, entries, at_once))
    cuts = np.unique(np.concatenate([[0], ends, [rows]])).tolist()
    return [slice(start, stop) for start, stop in pairwise(cuts)]


def each_block(blocks: Sequence[slice], work: Callable[[slice], None], threads: int | None = None) -> None:
    """Call `work` on every block in several threads, by default as many as torch uses. Blocks must not write to the
    same memory. Threads run in parallel, since NumPy releases the lock while it computes."""
    threads = min(threads or torch.get_num_threads(), len(blocks))
    if threads <= 1:
        for block in blocks:
            work(block)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, blocks):  # re-raises the exception of a block
            pass


def all_finite(values: np.ndarray) -> bool:
    """Whether all values are finite, without a boolean array of their size."""
    if values.size <= BLOCK_SIZE or not values.flags.c_contiguous:
        return bool(np.isfinite(values).all())
    flat = values.reshape(-1)
    return all(np.isfinite(flat[block]).all() for block in blocks_of_rows(len(flat), at_once=LARGE_BLOCK))


PIECE = 2**24  # bytes per transfer
TRANSFER_THREADS = 8  # threads, each with a piece of pinned memory


def on_device(array: np.ndarray, kind: type[np.generic], device: torch.device) -> Tensor:
    """A copy of the array on the device, with this data type."""
    if device.type == "cpu" or array.size * np.dtype(kind).itemsize <= PIECE:
        return torch.from_numpy(np.array(array, dtype=kind)).to(device)
    sent = torch.empty(array.shape, dtype=torch.from_numpy(np.empty(0, dtype=kind)).dtype, device=device)
    copy_in_pieces(sent, np.ascontiguousarray(array), to_device=True)
    return sent


def on_host(tensor: Tensor) -> np.ndarray[Any, Any]:
    """The tensor as a contiguous array in main memory; a tensor on the CPU is not copied."""
    tensor = tensor.detach()
    if tensor.device.type == "cpu":
        return tensor.numpy()
    tensor = tensor.contiguous()
    if tensor.nbytes <= PIECE:
        return tensor.cpu().numpy()
    received = torch.empty(tensor.shape, dtype=tensor.dtype).numpy()
    copy_in_pieces(tensor, received, to_device=False)
    return received


def copy_in_pieces(tensor: Tensor, array: np.ndarray, *, to_device: bool) -> None:
    """Copy an array to a tensor of its shape or, unless `to_device`, the tensor to the array; both are contiguous."""
    flat, host = tensor.view(-1), array.reshape(-1)
    if flat.is_cuda:  # since streams of other threads do not wait for this one
        torch.cuda.current_stream(flat.device).synchronize()

    def copy(where: slice) -> None:
        block = torch.empty(where.stop - where.start, dtype=flat.dtype, pin_memory=flat.is_cuda)
        if to_device:
            np.copyto(block.numpy(), host[where], casting="same_kind")
            flat[where].copy_(block)  # waits for the copy, so that the memory may be reused
        else:
            block.copy_(flat[where])
            np.copyto(host[where], block.numpy())

    each_block(blocks_of_rows(len(flat), at_once=PIECE // flat.element_size()), copy, TRANSFER_THREADS)


def reshaped(fresh: Tensor, shape: Sequence[int]) -> Tensor:
    """A fresh tensor in another shape. It is not a view, since writing into a view makes autograd copy the gradient."""
    return torch.ops.aten._unsafe_view(fresh, list(shape))


# A sparse product reads a row of x for every entry. Where x exceeds the cache, the matrix is split into column tiles.
UNTILED_BYTES = 14 * 2**20
TILE_BYTES = 8 * 2**20
MIN_ENTRIES_PER_ROW = 4

MAX_PIECE = 64  # most entries of a row summed by one GPU program


CsrArrays = tuple[Tensor, Tensor, Tensor]  # row pointers, columns and values


def csr_arrays(matrix: sp.csr_array, device: torch.device, kind: type[np.floating[Any]] = np.float32) -> CsrArrays:
    """The arrays of a matrix on a device, with 32-bit indices to save bandwidth; not copied on the CPU if possible."""

    def transferred(array: np.ndarray, kind: type[np.generic]) -> Tensor:
        shared = device.type == "cpu" and array.dtype == kind and array.flags.writeable
        return torch.from_numpy(array) if shared else on_device(array, kind, device)

    return transferred(matrix.indptr, np.int32), transferred(matrix.indices, np.int32), transferred(matrix.data, kind)


def _embedding_bag(row_starts: Tensor, columns: Tensor, values: Tensor, x: Tensor) -> Tensor:
    # This weighted sum of rows is twice as fast on the CPU as torch's product with a CSR matrix.
    return torch.embedding_bag(x, columns, row_starts, False, 0, False, values, True)[0]


def pieces_of_rows(row_starts: Int[Tensor, "rows_and_one"], longest: int) -> tuple[Tensor, Tensor] | None:
    """Rows split into pieces of at most `longest` entries: the start of each piece among the entries, and of each row
    among the pieces. None if no row is longer."""
    lengths = row_starts.diff()
    if not len(lengths) or int(lengths.max()) <= longest:
        return None
    pieces = ((lengths + longest - 1) // longest).clamp(min=1)
    first_piece = torch.cat([pieces.new_zeros(1), pieces.cumsum(0, dtype=torch.int32)])
    row = torch.repeat_interleave(pieces)
    number_in_row = torch.arange(len(row), device=row.device, dtype=torch.int32) - first_piece[row]
    starts = row_starts[row] + number_in_row * longest
    return torch.cat([starts, row_starts[-1:]]), first_piece


@cache
def _sparse_product(device_type: str) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    if device_type == "cuda" and find_spec("triton"):
        from mtgcn.linalg.cuda_kernels import sparse_product

        return sparse_product
    return _embedding_bag


@dataclass(frozen=True, eq=False)
class SparseOperator:
    """A sparse matrix on a device, ready for products in both directions: `operator(x)` is matrix · x."""

    matrix: sp.csr_array
    device: torch.device
    symmetric: bool = False
    communicator: Communicator = ONE_PROCESS  # columns after those of this process belong to nodes of other processes
    kind: type[np.floating[Any]] = np.float32  # data type of the values

    def __call__(self, x: Float[Tensor, "columns *rest"]) -> Float[Tensor, "rows *rest"]:
        product: Tensor = _Product.apply(x.reshape(len(x), -1), self)
        return reshaped(product, (self.shape[0], *x.shape[1:]))

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.matrix.shape
        return rows, columns

    @property
    def nnz(self) -> int:
        return int(self.matrix.nnz)

    @property
    def max_rows(self) -> int:
        """The largest number of rows of any process, so that all processes choose the same blocks."""
        return max(1, self.communicator.max_rows(self.shape[0]))

    @cached_property
    def transposed(self) -> SparseOperator:
        if self.symmetric:
            return self
        return SparseOperator(sp.csr_array(self.matrix.T.tocsr()), self.device, kind=self.kind)

    def to(self, dtype: torch.dtype) -> SparseOperator:
        """The same operator for tensors of this type."""
        kind = np.float64 if dtype == torch.float64 else np.float32
        if kind == self.kind:
            return self
        return SparseOperator(self.matrix, self.device, self.symmetric, self.communicator, kind)

    @cached_property
    def _arrays(self) -> CsrArrays:
        return csr_arrays(self.matrix, self.device, self.kind)

    def with_weights(self, weights: Float[Tensor, "nnz"]) -> SparseOperator:
        """The same pattern with every stored value multiplied by its weight."""
        return _Reweighted(self.matrix, self.device, weights=weights, original=self)

    @cached_property
    def transposed_places(self) -> Int[Tensor, "nnz"]:
        """The position of each value of the transposed matrix in this one."""
        places = sp.csr_array((np.arange(self.nnz), self.matrix.indices, self.matrix.indptr), self.matrix.shape)
        return torch.from_numpy(places.T.tocsr().data).to(self.device)

    @cached_property
    def _pieces(self) -> tuple[Tensor, Tensor] | None:
        """The pieces of rows for the GPU, where one program sums one piece (see `pieces_of_rows`)."""
        return pieces_of_rows(self._arrays[0], MAX_PIECE) if self.device.type == "cuda" else None

    def multiply(self, x: Float[Tensor, "columns width"]) -> Float[Tensor, "rows width"]:
        """matrix · x, outside of any gradient."""
        x = self.communicator.with_boundary(x)
        if not self.nnz:
            return x.new_zeros(self.shape[0], x.shape[1])
        count = self._tile_count(x.shape[1])
        if count > 1:
            return self._multiply_tiles(x, count)
        row_starts, columns, values = self._arrays
        product = _sparse_product(self.device.type)
        if self._pieces is None:
            return product(row_starts, columns, values, x.contiguous())
        piece_starts, row_starts = self._pieces
        partial = product(piece_starts, columns, values, x.contiguous())
        in_order = torch.arange(len(partial), dtype=torch.int32, device=self.device)
        return product(row_starts, in_order, torch.ones_like(in_order, dtype=torch.float32), partial)

    def _tile_count(self, width: int) -> int:
        """The number of column tiles such that the rows of x that a tile reads fit into the cache."""
        rows, columns = self.shape
        table = columns * width * torch.float32.itemsize
        if self.device.type != "cpu" or table <= UNTILED_BYTES or not self.communicator.has_whole_graph:
            return 1  # no tiles: a rank's nodes are close together, and tiles copy the matrix
        if self._tiles:
            return len(self._tiles)  # made for another width; a second set would not pay off
        # Every tile reads and writes the whole result, so tiles pay off only with a few entries per row.
        return max(1, min(-(-table // TILE_BYTES), self.nnz // (MIN_ENTRIES_PER_ROW * rows)))

    @cached_property
    def _tiles(self) -> list[CsrArrays]:
        """The tiles, filled on first use."""
        return []

    def _multiply_tiles(self, x: Float[Tensor, "columns width"], count: int) -> Float[Tensor, "rows width"]:
        size = -(-self.shape[1] // count)
        if not self._tiles:
            starts = range(0, self.shape[1], size)
            self._tiles.extend(csr_arrays(self.matrix[:, first : first + size], self.device) for first in starts)
        parts = (_embedding_bag(*tile, part) for tile, part in zip(self._tiles, x.split(size), strict=True))
        result = next(parts)
        for part in parts:
            result += part
        return result


class ResidentOperator(SparseOperator):
    """A square matrix computed on a device; `matrix` copies it to main memory."""

    def __init__(self, arrays: CsrArrays, *, symmetric: bool = False) -> None:
        vars(self).update(_arrays=arrays, device=arrays[0].device, symmetric=symmetric)  # the dataclass is frozen

    @cached_property
    def matrix(self) -> sp.csr_array:
        row_starts, columns, values = (on_host(array) for array in self._arrays)
        return sp.csr_array((values, columns, row_starts), shape=self.shape)

    @property
    def shape(self) -> tuple[int, int]:
        nodes = len(self._arrays[0]) - 1
        return nodes, nodes

    @property
    def nnz(self) -> int:
        return len(self._arrays[1])


@dataclass(frozen=True, eq=False)
class _Reweighted(SparseOperator):
    weights: Tensor = field(kw_only=True)
    original: SparseOperator = field(kw_only=True)

    def _tile_count(self, width: int) -> int:
        return 1  # weights change with every epoch

    @cached_property
    def _arrays(self) -> CsrArrays:
        row_starts, columns, values = self.original._arrays
        return row_starts, columns, values * self.weights

    @property
    def _pieces(self) -> tuple[Tensor, Tensor] | None:
        return self.original._pieces  # computed before an epoch is recorded as a CUDA graph

    @cached_property
    def transposed(self) -> SparseOperator:
        return self.original.transposed.with_weights(self.weights[self.original.transposed_places])


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, operator: SparseOperator) -> Tensor:
        ctx.operator = operator
        return operator.multiply(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.operator.transposed.multiply(gradient), None


@dataclass(frozen=True, eq=False)
class DenseOperator:
    """A dense matrix on a device with the interface of a `SparseOperator`."""

    matrix: Float[Tensor, "rows columns"]

    @property
    def nnz(self) -> int:
        return self.matrix.numel()

    @property
    def transposed(self) -> DenseOperator:
        return DenseOperator(self.matrix.T)

    def to(self, dtype: torch.dtype) -> DenseOperator:
        """The same operator for tensors of this type."""
        return DenseOperator(self.matrix.to(dtype))

    def __call__(self, x: Float[Tensor, "columns *rest"]) -> Float[Tensor, "rows *rest"]:
        return reshaped(self.matrix @ x.reshape(len(x), -1), (self.matrix.shape[0], *x.shape[1:]))


Operator = SparseOperator | DenseOperator

# Cost of a multiplication in a dense product, relative to a sparse product.
DENSE_DISCOUNT = {"cpu": 1 / 4, "cuda": 1 / 10}


def operator(matrix: sp.csr_array | np.ndarray, device: torch.device) -> Operator:
    """The matrix as an operator, sparse or dense, whichever multiplies faster."""
    if isinstance(matrix, np.ndarray):
        return DenseOperator(on_device(matrix, np.float32, device))
    if _cost(matrix, device) < matrix.nnz:
        return DenseOperator(on_device(matrix.toarray(), np.float32, device))
    return SparseOperator(matrix, device)


def chain(left: SparseOperator, right: sp.csr_array, together: sp.csr_array) -> tuple[Operator, ...]:
    """Operators that, applied first to last, multiply by left · right: either both factors or their product `together`,
    whichever is cheaper."""
    if _cost(together, left.device) < left.nnz + _cost(right, left.device):
        return (operator(together, left.device),)
    return operator(right, left.device), left


def _cost(matrix: sp.csr_array, device: torch.device) -> float:
    return min(matrix.nnz, DENSE_DISCOUNT[device.type] * matrix.shape[0] * matrix.shape[1])
