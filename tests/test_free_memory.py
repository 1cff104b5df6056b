"""What would take more memory than there is is refused before it is tried."""

import pytest

from mtgcn import free_memory
from mtgcn.errors import InputError
from mtgcn.free_memory import check_fits, free_bytes, readable


def test_the_tightest_limit_counts(monkeypatch):
    monkeypatch.setattr(free_memory, "_machine_free", lambda: 3000)
    monkeypatch.setattr(free_memory, "_container_free", lambda: None)
    monkeypatch.setattr(free_memory, "_process_free", lambda: 2000)
    assert free_bytes() == 2000


def test_where_nobody_tells_there_is_no_limit(monkeypatch):
    for limit in ("_machine_free", "_container_free", "_process_free"):
        monkeypatch.setattr(free_memory, limit, lambda: None)
    check_fits(2**60, "a graph", "give a smaller one")


def test_what_does_not_fit_is_told_with_both_numbers(monkeypatch):
    monkeypatch.setattr(free_memory, "free_bytes", lambda: 2**30)
    check_fits(2**30, "a graph", "give a smaller one")
    told = "^a graph takes about 2.0 GiB and 1.0 GiB of memory are free; give a smaller one$"
    with pytest.raises(InputError, match=told):
        check_fits(2**31, "a graph", "give a smaller one")


def test_numbers_that_no_machine_has_are_no_trouble():
    assert readable(10**400) == "more memory than any machine has"
    with pytest.raises(InputError, match="takes about more memory than any machine has"):
        check_fits(10**400, "it", "give less")
