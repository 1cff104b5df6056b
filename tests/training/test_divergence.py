"""The first moment that something was not finite is remembered, if somebody watches."""

import numpy as np
import pytest

from mtgcn.training.divergence import note_divergence, watching_divergence


def test_the_first_moment_of_each_is_remembered():
    with watching_divergence() as found:
        note_divergence("a loss", "epoch", np.ones((4, 2, 2)))
        note_divergence("a loss", "epoch", np.array([[1, 2], [3, np.inf], [np.nan, 1]]), before=10, total=20)
        note_divergence("a table", "batch", [True, True, False])
        note_divergence("nothing", "batch", [])
    assert found == [
        "a loss was not finite from epoch 12 of 20 on",
        "a table was not finite from batch 3 of 3 on",
    ]


def test_nobody_need_watch():
    note_divergence("a loss", "epoch", np.array([np.nan]))
    with watching_divergence() as found:
        pass
    note_divergence("a loss", "epoch", np.array([np.nan]))
    assert found == []


def test_watching_ends_also_by_an_error():
    with pytest.raises(ZeroDivisionError), watching_divergence() as outer:
        raise ZeroDivisionError
    note_divergence("a loss", "epoch", np.array([np.nan]))
    assert outer == []
