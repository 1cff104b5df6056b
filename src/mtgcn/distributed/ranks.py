"""The processes of a job, as torchrun starts them: how they are told apart, talk to each other, and end together."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from mtgcn.environment import chosen_device
from mtgcn.errors import InputError
from mtgcn.shapes import Int

T = TypeVar("T")

# A rank that dies is noticed at once, since its connections close; this is for machines that vanish without a word.
PATIENCE = timedelta(minutes=5)


@dataclass
class Ranks:
    """One process among `count`. Every rank must call what talks to others, in the same order; alone, none is there."""

    rank: int = 0
    count: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    sent: int = 0  # bytes that left this rank so far, as the algorithms count them that torch uses
    store: Any = None  # where ranks leave words for each other, also when one of them is gone

    @staticmethod
    def started(device: str = "auto") -> Ranks:
        """This process and the others that torchrun has started; alone, where nobody has started any."""
        chosen = chosen_device(device)
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return Ranks(device=chosen)
        if chosen.type == "cuda":
            here, found = int(os.environ["LOCAL_WORLD_SIZE"]), torch.cuda.device_count()
            if here > found:
                raise InputError(
                    f"{here} ranks on this machine and {found} GPUs; start at most {found}, or --device cpu"
                )
            chosen = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(chosen)
        store, rank, count = next(rendezvous("env://", timeout=PATIENCE))
        backend = "nccl" if chosen.type == "cuda" else "gloo"
        told = PrefixStore("mtgcn", store)
        dist.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=PATIENCE)
        return Ranks(rank, count, chosen, store=told)

    def end(self) -> None:
        """Part in peace: nobody is waited for after this."""
        if self.count > 1 and dist.is_initialized():
            dist.destroy_process_group()

    def total(self, values: Tensor) -> Tensor:
        """The sum of every rank's values, the same on all, written over what is given."""
        if self.count > 1:
            dist.all_reduce(values)
            self.sent += 2 * (self.count - 1) * values.nbytes // self.count
        return values

    def exchanged(
        self,
        rows: Tensor,
        outgoing: list[int],
        incoming: list[int],
        out: Tensor | None = None,
    ) -> Tensor:
        """Rows for others, those for rank 0 first, in return for theirs; `outgoing` and `incoming` count by rank."""
        received = rows.new_empty(sum(incoming), *rows.shape[1:]) if out is None else out
        if self.count > 1:
            dist.all_to_all_single(received, rows.contiguous(), incoming, outgoing)
            to_others = sum(outgoing) - outgoing[self.rank]
            self.sent += to_others * rows.element_size() * rows[:1].numel() if len(rows) else 0
        return received

    def everyones(self, thing: Any) -> list[Any]:
        """What each rank has to say, in their order."""
        if self.count == 1:
            return [thing]
        things: list[Any] = [None] * self.count
        dist.all_gather_object(things, thing)
        return things

    def from_first(self, thing: Any) -> Any:
        """What rank 0 says."""
        return self.everyones(thing if self.rank == 0 else None)[0]

    def together(self, work: Callable[[], T]) -> T:
        """What `work` gives, which talks to nobody; where it fails for one rank, all hear what is to be mended."""
        result: list[T] = []
        fault = None
        try:
            result.append(work())
        except InputError as error:
            fault = str(error)
        faults = [told for told in self.everyones(fault) if told is not None]
        if faults:
            raise InputError(faults[0])
        return result[0]

    def counts(self, number: int) -> Int[Tensor, "ranks"]:
        """A number of each rank."""
        return torch.tensor(self.everyones(number))

    def first_to_tell(self) -> bool:
        """Whether this rank is the first to tell of a fault: it alone should, since the others suffer from the same."""
        if self.store is None:  # alone, or they never met; then they all failed in the same way
            return os.environ.get("RANK", "0") == "0"
        try:
            return bool(self.store.add("told", 1) == 1)
        except RuntimeError:  # nobody keeps the words of ranks any more
            return True

    def remark(self, message: str) -> None:
        """Something for a person to know, from rank 0 alone."""
        if self.rank == 0:
            print("mtgcn:", message, file=sys.stderr, flush=True)
