"""Words, counts and pixels are told from measurements."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from mtgcn.io.preprocessing.fit import Size, are_amounts


def judged(table):
    return are_amounts([Size.of(np.asarray(column, dtype=np.float64)) for column in np.asarray(table).T])


@pytest.mark.parametrize("load", [load_wine, load_iris, load_breast_cancer])
def test_measurements_are_no_amounts(load):
    assert not any(judged(load().data))


@pytest.mark.parametrize("divisor", [1, 16])
@pytest.mark.parametrize("images", [40, 1797])  # in few images some pixels are never white
def test_pixels_are_amounts(divisor, images):
    assert all(judged(load_digits().data[:images] / divisor))


def test_a_table_of_words_is_one_and_a_measurement_beside_it_is_none():
    random = np.random.default_rng(0)
    words = random.poisson(0.1, (100, 60)).astype(float)
    words[:, 0] = random.poisson(3, 100)  # a frequent word, seldom zero
    words[0, 0] = 0
    income = random.normal(45000, 9000, 100)
    assert judged(np.column_stack([words, income])) == [True] * 60 + [False]


def test_few_counts_of_like_size_are_amounts_and_others_are_not():
    random = np.random.default_rng(0)
    visits = random.poisson([3, 5, 9], (50, 3)).astype(float)
    visits[0] = 0
    assert judged(visits) == [True] * 3
    assert not any(judged(visits * [1, 1, 100]))  # one dwarfs the others
    assert not any(judged(visits + np.array([0, 0, 18])))  # ages do not begin at zero
    assert not any(judged(visits + 0.5))
    assert not any(judged(visits[:, :1]))  # there is nothing to compare it with
