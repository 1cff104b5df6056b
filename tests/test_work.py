"""Counts of operations add up."""

from mtgcn.work import DECOMPOSED_LIKE, NARROW, Work, decomposition, product


def test_counts_of_a_kind_add_up_and_repeat():
    together = Work(multiplied=1, gathered=2, touched=3, calls=4) + 2 * Work(multiplied=10, touched=5, calls=1)
    assert together == Work(multiplied=21, gathered=2, touched=13, calls=6)


def test_a_thin_product_takes_as_long_as_one_of_some_columns():
    assert product(10, 20, 1) == product(10, 20, NARROW)
    assert product(10, 20, 100).multiplied == 20_000
    assert decomposition(10, 3).multiplied == DECOMPOSED_LIKE * 90
