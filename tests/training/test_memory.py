"""A stack stays within its budget, and threads are given back."""

import pytest
import torch

from mtgcn.training.memory import CPU_BUDGET, SMALL_STACK, default_budget, threads_for


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("size", "threads"), [(SMALL_STACK - 1, 1), (SMALL_STACK, 2), (0, 2)])
def test_only_a_small_stack_is_left_to_one_thread(two_threads, size, threads):
    # 0 bytes: a method that does not say what it takes is left alone.
    with threads_for(size):
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == 2


def test_threads_are_given_back_after_an_error(two_threads):
    with pytest.raises(ZeroDivisionError), threads_for(1):
        raise ZeroDivisionError
    assert torch.get_num_threads() == 2


def test_the_budget_of_the_cpu_is_as_stated():
    assert default_budget(torch.device("cpu")) == CPU_BUDGET
