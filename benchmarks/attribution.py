"""Where a teaching epoch of mt-gcn spends its time, and the least each part could take.

    python benchmarks/attribution.py                         # cora (30 runs), pubmed (10 runs)
    python benchmarks/attribution.py --large                 # the large graph as well: 10 GiB, several minutes

Each part is timed by wrapping the function that does it. Its floor is the larger of two times: the bytes it must
move at least (everything read once and written once) at the speed of a large copy, and its multiplications at the
speed of a large matrix product. Parts are timed inside the real epoch, with whatever the caches hold then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any
from unittest import mock

import measuring
import torch
from speed import LOWEST_RATE, RUNS
from synthetic import random_graph
from torch import Tensor

from mtgcn.datasets import load
from mtgcn.graph import Graph
from mtgcn.linalg.operators import DenseOperator, SparseOperator
from mtgcn.methods import MTGCN, mt_gcn
from mtgcn.methods.base import fit_in_chunks
from mtgcn.nn.layers import DropoutStream, ReluDropout, _GroupedProduct
from mtgcn.splits import draw_splits
from mtgcn.task import observe
from mtgcn.training import loop
from mtgcn.training.loop import Optimiser
from mtgcn.training.progress import progress_callbacks

NUMBER = 4  # bytes


@dataclass
class Part:
    seconds: float = 0.0
    bytes: int = 0
    products: int = 0  # multiplications with an addition


@dataclass
class Ledger:
    """Seconds, bytes and multiplications by part; a part within another is charged to the inner one alone."""

    parts: dict[str, Part] = field(default_factory=lambda: defaultdict(Part))
    recording: bool = False
    _inner: list[float] = field(default_factory=list)

    def charged(self, name: str | Callable[..., str], work: Callable, cost: Callable[..., tuple[int, int]]) -> Callable:
        def wrapped(*args: Any, **settings: Any) -> Any:
            self._inner.append(0.0)
            started = perf_counter()
            result = work(*args, **settings)
            taken = perf_counter() - started
            inside = self._inner.pop()
            if self._inner:
                self._inner[-1] += taken
            if self.recording:
                part = self.parts[name(*args) if callable(name) else name]
                moved, products = cost(result, *args)
                part.seconds += taken - inside
                part.bytes += moved
                part.products += products
            return result

        return wrapped


def size(*values: Any) -> int:
    """Bytes of the tensors among these."""
    return sum(value.nbytes for value in values if isinstance(value, Tensor))


def sparse_cost(result: Tensor, operator: SparseOperator, x: Tensor) -> tuple[int, int]:
    return size(result, x) + 2 * NUMBER * operator.nnz, operator.nnz * x.shape[1]


def sparse_name(operator: SparseOperator, x: Tensor) -> str:
    rows, columns = operator.matrix.shape
    return "products with Â" if rows == columns else "products with X"


def dense_cost(result: Tensor, operator: DenseOperator, x: Tensor) -> tuple[int, int]:
    return size(result, x, operator.matrix), operator.nnz * x[0].numel()


def modelwise_cost(result: Any, context: Any, *tensors: Tensor) -> tuple[int, int]:
    given = tensors if len(tensors) > 1 else (*context.saved_tensors, *tensors)
    produced = result if isinstance(result, tuple) else (result,)
    hidden = next(tensor for tensor in (*given, *produced) if tensor.ndim == 3)
    classes = (result if isinstance(result, Tensor) else tensors[0]).shape[1]
    times = 1 if isinstance(result, Tensor) else 2
    return size(*given, *produced), times * hidden.numel() * classes


def traffic(result: Any, *args: Any) -> tuple[int, int]:
    results = result if isinstance(result, tuple) else (result,)
    return size(*results, *args), 0


def adam_cost(_: Any, adam: Optimiser) -> tuple[int, int]:
    parameters = [one for group in adam.groups for one in group.parameters]
    return 7 * size(*parameters), 0  # reads four arrays, writes three


@contextmanager
def watching(ledger: Ledger) -> Iterator[None]:
    """While this lasts, everything an epoch does is charged to a part of the ledger."""
    wraps = [
        (SparseOperator, "multiply", sparse_name, sparse_cost),
        (DenseOperator, "__call__", "products with X", dense_cost),
        (_GroupedProduct, "forward", "hidden layer times Θ1", modelwise_cost),
        (_GroupedProduct, "backward", "hidden layer times Θ1", modelwise_cost),
        (ReluDropout, "forward", "ReLU and dropout", traffic),
        (ReluDropout, "backward", "ReLU and dropout", traffic),
        (DropoutStream, "kept", "dropout's bits", traffic),
        (mt_gcn, "confidence", "choosing pseudo labels", traffic),
        (mt_gcn, "most_confident", "choosing pseudo labels", traffic),
        (Optimiser, "step", "Adam", adam_cost),
        (mt_gcn.Teaching, "step", "losses and bookkeeping, forward", lambda *_: (0, 0)),
    ]
    with ExitStack() as stack:
        for owner, name, part, cost in wraps:
            given = owner.__dict__[name]
            static = isinstance(given, staticmethod)
            wrapped = ledger.charged(part, given.__func__ if static else given, cost)
            stack.enter_context(mock.patch.object(owner, name, staticmethod(wrapped) if static else wrapped))
        yield


def attribute(graph: Graph, labels_per_class: int, runs: int, epochs: int) -> tuple[Ledger, float]:
    """The ledger of some teaching epochs, and the seconds they took in all."""
    ledger = Ledger()
    task = observe(graph, draw_splits(graph, labels_per_class, runs, seed=0), seed=0)
    total, last = 0.0, 0.0

    def epoch_done(done: int, _: int) -> None:
        # A chunk's warm-up epoch and first teaching epoch make what later ones find made, so they are left out.
        nonlocal total, last
        now = perf_counter()
        total += now - last if done > 2 else 0
        last = now
        ledger.recording = 2 <= done < epochs + 2

    every_epoch = mock.patch.object(loop, "EPOCHS_BETWEEN_REPORTS", 1)
    with watching(ledger), every_epoch, progress_callbacks(epoch_done):
        fit_in_chunks(MTGCN(warmup_epochs=1, teaching_epochs=epochs + 1), task)
    return ledger, total


def report(
    title: str, ledger: Ledger, total: float, epochs: int, bandwidth: float, rate: float
) -> list[dict[str, Any]]:
    rows = []
    for name, part in sorted(ledger.parts.items(), key=lambda item: -item[1].seconds):
        floor = max(part.bytes / bandwidth, part.products / rate)
        rows.append(
            {
                "part": name,
                "ms per epoch": 1e3 * part.seconds / epochs,
                "share": f"{part.seconds / total:.0%}",
                "MB per epoch": part.bytes / epochs / 1e6,
                "M products": part.products / epochs / 1e6,
                "floor, ms": 1e3 * floor / epochs,
                "times the floor": part.seconds / floor if floor else "",
            }
        )
    rest = total - sum(part.seconds for part in ledger.parts.values())
    rows.append(
        {"part": "the rest, mostly backward", "ms per epoch": 1e3 * rest / epochs, "share": f"{rest / total:.0%}"}
    )
    print(f"\n{title}: {1e3 * total / epochs:.1f} ms per teaching epoch of all runs\n")
    columns = list(rows[0])
    measuring.show_table([{column: row.get(column, "") for column in columns} for row in rows])
    return rows


def product_rate(side: int = 2048) -> float:
    """Multiplications per second of a large matrix product, the best of several."""
    left, right = torch.rand(side, side), torch.rand(side, side)
    return side**3 / min(measuring.timed(torch.mm, left, right)[1] for _ in range(5))


def main() -> None:
    arguments = measuring.arguments(
        __doc__,
        dataset=("cora,pubmed", "comma-separated"),
        epochs=20,
        large=(False, "2.4 million nodes, 62 million edges as well"),
    )
    _, facts = measuring.start(arguments)
    bandwidth, rate = measuring.copy_bandwidth(), product_rate()
    print(f"a large copy moves {bandwidth / 1e9:.1f} GB/s, a large product does {rate / 1e9:.0f} G multiplications/s")
    found = {}
    for name in filter(None, arguments.dataset.split(",")):
        ledger, total = attribute(load(name), LOWEST_RATE[name], RUNS[name], arguments.epochs)
        found[name] = report(name, ledger, total, arguments.epochs, bandwidth, rate)
    if arguments.large:
        graph = random_graph(nodes=2_400_000, edges=62_000_000, features=100, classes=47, seed=0)
        ledger, total = attribute(graph, 5, 1, 2)
        found["large"] = report("large", ledger, total, 2, bandwidth, rate)
    measuring.write_json(arguments.json, {"machine": facts, "bandwidth": bandwidth, "products": rate, "parts": found})


if __name__ == "__main__":
    main()
