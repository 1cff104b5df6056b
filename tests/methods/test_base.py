"""What a method answers is looked at before anything is made of it."""

from dataclasses import dataclass

import numpy as np
import pytest

from mtgcn.errors import InputError
from mtgcn.methods import fit_in_chunks
from mtgcn.methods.plugins import as_method
from mtgcn.task import Prediction


@dataclass(frozen=True)
class Answering:
    """Answers a table of the shape that is asked for and changes it as it is told."""

    change: object

    def fit(self, task):
        return self.change(np.full((task.runs, task.num_nodes, task.num_classes), 1 / task.num_classes))


def with_nan(shares):
    shares[0, 3, 1] = np.nan
    return Prediction(shares)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda shares: shares, "Answering.fit answered a ndarray; return a mtgcn.task.Prediction"),
        (lambda shares: None, "Answering.fit answered a NoneType"),
        (
            lambda shares: Prediction(shares[:, :3]),
            r"of shape \(2, 3, 3\); here they are runs, nodes, classes: \(2, 40",
        ),
        (lambda shares: Prediction(2 * shares), "do not sum to 1 at every node; normalise them"),
        (with_nan, r"not finite \(NaN\); did its training diverge"),
    ],
)
def test_an_answer_that_is_none_is_refused(two_runs, change, message):
    with pytest.raises(InputError, match=message):
        fit_in_chunks(as_method(Answering(change)), two_runs)


def test_an_answer_that_is_one_comes_back(two_runs):
    shares = fit_in_chunks(as_method(Answering(Prediction)), two_runs).probabilities
    assert shares.shape == (2, 40, 3)
