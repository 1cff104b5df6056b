"""How ranks are told apart, agree on what went wrong, and let one of them say it."""

import pytest
import torch

from mtgcn.distributed.ranks import Ranks
from mtgcn.errors import InputError
from thread_ranks import on_ranks


class Store:
    """What torchrun keeps for its ranks: counters that outlive each of them."""

    def __init__(self):
        self.counts = {}

    def add(self, key, number):
        self.counts[key] = self.counts.get(key, 0) + number
        return self.counts[key]


def test_without_torchrun_a_process_is_alone(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    ranks = Ranks.started("cpu")
    assert (ranks.rank, ranks.count, ranks.device.type) == (0, 1, "cpu")
    values = torch.arange(4)
    assert ranks.total(values) is values
    assert ranks.everyones("word") == ["word"]
    assert ranks.from_first("word") == "word"
    assert ranks.exchanged(torch.ones(0, 2), [0], [0]).shape == (0, 2)
    assert ranks.first_to_tell()
    assert ranks.sent == 0
    ranks.end()


def test_more_ranks_than_gpus_are_refused(monkeypatch):
    for name, value in (("WORLD_SIZE", "4"), ("LOCAL_WORLD_SIZE", "4"), ("LOCAL_RANK", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("mtgcn.distributed.ranks.chosen_device", torch.device)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(InputError, match="4 ranks on this machine and 2 GPUs; start at most 2, or --device cpu"):
        Ranks.started("cuda")


def test_what_one_rank_cannot_do_all_hear_of():
    def work(ranks):
        def read():
            if ranks.rank == 1:
                raise InputError("part 1 is damaged")
            return ranks.rank

        with pytest.raises(InputError, match="part 1 is damaged"):
            ranks.together(read)
        return ranks.together(lambda: 10 * ranks.rank)

    assert on_ranks(3, work) == [0, 10, 20]


def test_the_first_rank_is_heard_and_counts_are_everyones():
    def work(ranks):
        assert ranks.from_first(f"rank {ranks.rank}") == "rank 0"
        assert ranks.counts(ranks.rank + 5).tolist() == [5, 6, 7]

    on_ranks(3, work)


def test_only_one_tells_of_a_fault():
    store = Store()
    told = [Ranks(rank, 3, store=store).first_to_tell() for rank in (2, 0, 1)]
    assert told == [True, False, False]


def test_where_ranks_never_met_the_first_one_tells(monkeypatch):
    for rank, tells in (("0", True), ("3", False)):
        monkeypatch.setenv("RANK", rank)
        assert Ranks().first_to_tell() is tells


def test_where_nobody_keeps_words_any_more_a_fault_is_told_rather_twice_than_never():
    class Gone:
        def add(self, key, number):
            raise RuntimeError("connection refused")

    assert Ranks(1, 2, store=Gone()).first_to_tell()


def test_remarks_come_from_the_first_rank_alone(capsys):
    on_ranks(3, lambda ranks: ranks.remark("going on"))
    assert capsys.readouterr().err == "mtgcn: going on\n"
