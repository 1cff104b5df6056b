"""The ranks of a job started by torchrun, and the `Communicator` with which methods run on them.

All nodes have one order, and each rank holds an interval of it. Neighbours of its nodes that are held by other ranks
are its boundary. The boundary is the same in every product with the graph, so the exchange of rows is planned once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from mtgcn.communicator import Communicator, Rows
from mtgcn.environment import check_versions, chosen_device, versions
from mtgcn.errors import InputError
from mtgcn.shapes import Float, Int, Real
from mtgcn.task import MISSING

T = TypeVar("T")

# The connections of a failed process close at once; this limit is for machines that become unreachable.
TIMEOUT = timedelta(minutes=5)


@dataclass
class Ranks:
    """One process among `count`. All ranks must call the communicating methods in the same order."""

    rank: int = 0
    count: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    sent: int = 0  # bytes sent by this rank so far, estimated from torch's algorithms
    store: Any = None  # key-value store of all ranks, which outlives a failed rank

    @staticmethod
    def started(device: str = "auto") -> Ranks:
        """The ranks that torchrun started, or a single rank without torchrun."""
        chosen = chosen_device(device)
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return Ranks(device=chosen)
        if chosen.type == "cuda":
            here, gpus = int(os.environ["LOCAL_WORLD_SIZE"]), torch.cuda.device_count()
            if here > gpus:
                raise InputError(f"{here} ranks on this machine and {gpus} GPUs; start at most {gpus}, or --device cpu")
            chosen = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(chosen)
        store, rank, count = next(rendezvous("env://", timeout=TIMEOUT))
        backend = "nccl" if chosen.type == "cuda" else "gloo"
        own_store = PrefixStore("mtgcn", store)
        own = {name: version for name, version in versions().items() if name != "python"}
        own_store.set(f"versions {rank}", json.dumps(own))
        for other in range(count):
            check_versions(json.loads(own_store.get(f"versions {other}")), own, f"rank {other}")
        dist.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=TIMEOUT)
        return Ranks(rank, count, chosen, store=own_store)

    def end(self) -> None:
        """Leave the job."""
        if self.count > 1 and dist.is_initialized():
            dist.destroy_process_group()

    def sum(self, values: Tensor) -> Tensor:
        """The sum of the values of all ranks, equal on all of them."""
        if self.count == 1:
            return values
        summed = values.to(self.device, copy=True)
        dist.all_reduce(summed)
        self.sent += 2 * (self.count - 1) * summed.nbytes // self.count
        return summed.to(values.device)

    def exchange(self, rows: Tensor, outgoing: list[int], incoming: list[int]) -> Tensor:
        """Send rows, sorted by rank, and receive rows from the other ranks; the lists count rows by rank."""
        if self.count == 1:
            return rows
        received = rows.new_empty(sum(incoming), *rows.shape[1:])
        dist.all_to_all_single(received, rows.contiguous(), incoming, outgoing)
        self.sent += (sum(outgoing) - outgoing[self.rank]) * rows[:1].nbytes
        return received

    def counts_from(self, outgoing: list[int]) -> list[int]:
        """The number of rows that this rank receives from each rank, given the numbers that it sends."""
        return [counts[self.rank] for counts in self.gather(outgoing)]

    def ask(self, rows: Tensor, to: Int[Tensor, "rows"], compute: Callable[[Tensor], Tensor]) -> Tensor:
        """Send each row to a rank, apply `compute` to the received rows there, and return the resulting rows."""
        order = to.argsort(stable=True)
        outgoing = torch.bincount(to, minlength=self.count).tolist()
        incoming = self.counts_from(outgoing)
        received = self.exchange(rows[order].to(self.device), outgoing, incoming)
        answers = self.exchange(compute(received), incoming, outgoing).to(rows.device)
        return torch.empty_like(answers).index_copy_(0, order, answers)

    def gather(self, value: Any) -> list[Any]:
        """The values of all ranks, in order."""
        if self.count == 1:
            return [value]
        values: list[Any] = [None] * self.count
        dist.all_gather_object(values, value)
        return values

    def on_first(self, work: Callable[[], T]) -> T:
        """Run `work` on rank 0; returns its result on all ranks."""
        return self.gather(self.together(lambda: work() if self.rank == 0 else None))[0]

    def together(self, work: Callable[[], T]) -> T:
        """Run `work`, which must not communicate; an `InputError` of one rank is raised on all ranks."""
        result: Any = None
        fault = None
        try:
            result = work()
        except InputError as error:
            fault = str(error)
        for message in self.gather(fault):
            if message is not None:
                raise InputError(message)
        return result

    def first_to_report(self) -> bool:
        """Whether this rank failed first. Only the first prints its message; the others fail because of it."""
        if self.store is None:  # a single rank, or a failure before the ranks were connected
            return os.environ.get("RANK", "0") == "0"
        try:
            return bool(self.store.add("reported", 1) == 1)
        except RuntimeError:  # the store has ended with its process
            return True


MIN_LENGTH = 1e-11  # shorter columns (squared length relative to the longest) are rounding errors


class RankCommunicator(Communicator):
    """Communication between ranks. Rank r holds the rows of the nodes from `starts[r]` up to `starts[r + 1]`."""

    has_whole_graph = False

    def __init__(
        self,
        ranks: Ranks,
        starts: Int[np.ndarray, "starts"],
        numbers: Int[np.ndarray, "here"],
        border: Int[np.ndarray, "border"],
    ) -> None:
        """`numbers` are the rows of this rank's nodes in the node table, `border` the positions of the nodes that it
        needs from other ranks. All ranks must call this."""
        self.ranks, self.starts, self.boundary_size = ranks, starts, len(border)
        self.num_nodes, self.here = int(starts[-1]), int(starts[ranks.rank + 1] - starts[ranks.rank])
        self._numbers = torch.from_numpy(numbers).to(ranks.device)
        self._sorted_numbers, self._row_of_sorted = self._numbers.sort()
        self._incoming = np.diff(np.searchsorted(border, starts)).tolist()
        self._outgoing = ranks.counts_from(self._incoming)
        wanted = torch.from_numpy(border).to(ranks.device)
        self._given = ranks.exchange(wanted, self._incoming, self._outgoing) - int(starts[ranks.rank])

    @property
    def dtype(self) -> torch.dtype:
        # Rounding of sums over ranks depends on their number. Over hundreds of epochs, differences of 1e-7 become
        # visible, those of 1e-16 do not. Sums on GPUs are not reproducible anyway.
        return torch.float32 if self.ranks.device.type == "cuda" else torch.float64

    def sum(self, values: Tensor) -> Tensor:
        return self.ranks.sum(values)

    def mean_of_rows(self, rows: Rows) -> Rows:
        if isinstance(rows, np.ndarray):
            return self.mean_of_rows(torch.from_numpy(rows)).numpy()
        return (self.sum(rows.sum(0, dtype=torch.float64)) / self.num_nodes).to(rows.dtype)

    def orthonormal(self, columns: Float[Tensor, "nodes width"]) -> Float[Tensor, "nodes rank"]:
        for _ in range(2):  # one pass leaves rounding errors in short columns
            lengths, combine = torch.linalg.eigh(self.gram(columns.double()))
            independent = lengths > MIN_LENGTH * lengths.max()
            columns = (columns.double() @ (combine[:, independent] / lengths[independent].sqrt())).float()
        return columns

    def numbers(self, count: int, device: torch.device) -> Int[Tensor, "nodes"]:
        return self._numbers.to(device)

    def rows_of(self, numbers: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
        place = torch.searchsorted(self._sorted_numbers, numbers.contiguous())
        return self._row_of_sorted[place.clamp(max=self.here - 1)]

    def positions(self, words: Int[Tensor, "nodes"]) -> Int[Tensor, "nodes"]:
        def ranked(received: Tensor) -> Tensor:
            before = sum(self.ranks.gather(len(received))[: self.ranks.rank])
            return before + super(RankCommunicator, self).positions(received[:, 0])

        return self._by_word(ranked, words)

    def duplicate_ranks(self, keys: Int[Tensor, "nodes"]) -> Int[Tensor, "nodes"]:
        def counted(received: Tensor) -> Tensor:
            order = received[:, 1].argsort()
            found = super(RankCommunicator, self).duplicate_ranks(received[order, 0])
            return torch.empty_like(found).index_copy_(0, order, found)

        return self._by_word(counted, keys, self._numbers.to(keys.device))

    def _by_word(
        self, compute: Callable[[Tensor], Tensor], words: Int[Tensor, "nodes"], *more: Int[Tensor, "nodes"]
    ) -> Int[Tensor, "nodes"]:
        """Send each word (with `more` numbers) to a rank, apply `compute` there, and return the values to the nodes.
        Smaller words go to lower ranks and equal words to the same rank; random words are spread evenly."""
        rank = ((words >> 32) & 0xFFFFFFFF) * self.ranks.count >> 32
        return self.ranks.ask(torch.stack([words, *more], 1), rank, compute)

    def with_boundary(self, rows: Real[Tensor, "nodes *rest"]) -> Real[Tensor, "columns *rest"]:
        if self.ranks.count == 1:
            return rows
        there = rows.to(self.ranks.device)
        boundary = self.ranks.exchange(there[self._given], self._outgoing, self._incoming)
        return torch.cat([there, boundary]).to(rows.device)

    def max_rows(self, rows: int) -> int:
        return int(np.diff(self.starts).max())

    def gather_rows(
        self, table: Float[Tensor, "nodes width"], index: Int[Tensor, "some"], first: Int[Tensor, "1"] | int = 0
    ) -> Float[Tensor, "some width"]:
        rows = table.index_select(0, first + index.clamp(min=0))
        return self.sum(rows.masked_fill_((index < 0)[:, None], 0))  # each row is held by one rank

    def permute(
        self, rows: Float[Tensor, "nodes width"], receiver: Int[Tensor, "nodes"], giver: Int[Tensor, "nodes"]
    ) -> Float[Tensor, "nodes width"]:
        first = int(self.starts[self.ranks.rank])
        own = first + torch.arange(self.here, device=rows.device)
        # The rank that holds node i matches the i-th giver with the i-th receiver.
        position = torch.cat([self.positions(giver), self.positions(receiver)])
        node = torch.cat([own, torch.full_like(own, MISSING)])

        def giver_of(received: Tensor) -> Tensor:
            place, node = received[:, 0] - first, received[:, 1]
            givers = torch.empty_like(node[: self.here])
            givers[place[node != MISSING]] = node[node != MISSING]
            return givers[place]

        source = self.ranks.ask(torch.stack([position, node], 1), self._owner(position), giver_of)[self.here :]
        return self.ranks.ask(source, self._owner(source), lambda wanted: rows[wanted - first])

    def _owner(self, nodes: Int[Tensor, "some"]) -> Int[Tensor, "some"]:
        return torch.searchsorted(torch.from_numpy(self.starts).to(nodes.device), nodes, right=True) - 1

    def gather_labelled(
        self, index: Int[Tensor, "runs labelled"], classes: Int[Tensor, "runs labelled"], tables: Mapping[str, Tensor]
    ) -> tuple[Int[Tensor, "runs all"], Int[Tensor, "runs all"], Mapping[str, Tensor]]:
        """As in the base class, for a single run, in the order of the node table."""
        [mine], [known], device = index, classes, index.device
        parts = self.ranks.gather(
            [part.cpu() for part in (self._numbers[mine], known, *(table[mine] for table in tables.values()))]
        )
        numbers, *columns = (torch.cat(some).to(device) for some in zip(*parts, strict=True))
        order = numbers.argsort()
        all_classes, *rows = (column[order] for column in columns)
        return (
            torch.arange(len(order), device=device)[None],
            all_classes[None],
            dict(zip(tables, rows, strict=True)),
        )
