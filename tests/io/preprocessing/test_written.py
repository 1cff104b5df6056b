"""Numbers, dates and yes or no in the ways people write them."""

import numpy as np
import pytest

from mtgcn.io.preprocessing import written
from mtgcn.io.preprocessing.values import COMMA, POINT, date_format, is_boolean, is_code, number_in, parse


@pytest.mark.parametrize(
    ("text", "point", "comma"),
    [
        ("12", 12, 12),
        (" -3.5 ", -3.5, None),
        ("3,5", None, 3.5),
        ("1.234", 1.234, 1234),
        ("1,234", 1234, 1.234),
        ("1,234,567.5", 1234567.5, None),
        ("1.234.567,5", None, 1234567.5),
        ("1 234 567", 1234567, 1234567),
        ("1'234.50", 1234.5, None),
        ("1.200,00 €", None, 1200),
        ("$1,200.00", 1200, None),
        ("12 %", 12, 12),
        ("2e3", 2000, 2000),
        ("+.5", 0.5, None),
        ("1,2,3", None, None),
        ("12,34,567", None, None),
        ("1e99", None, None),
        ("inf", None, None),
        ("1_000", None, None),
        ("", None, None),
        ("€", None, None),
        (".", None, None),
        ("１２", None, None),
    ],
)
def test_numbers_with_points_and_with_commas(text, point, comma):
    assert (number_in(text, POINT), number_in(text, COMMA)) == (point, comma)


def test_zeros_in_front_make_a_name():
    assert [is_code(text) for text in ("007", "-01", "0", "0.5", "10", "0,5")] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("texts", "days"),
    [
        (["1970-01-01", "1970-01-03"], [0, 2]),
        (["1970-01-01 12:00", "1970-01-02T06:00:00"], [0.5, 1.25]),
        (["1970-01-01T02:00:00+02:00", "1970-01-02T00:00:00Z"], [0, 1]),
        (["1.1.1970", "31.01.1970"], [0, 30]),
        (["31/01/1970", "02/01/1970"], [30, 1]),
        (["01/31/1970", "01/02/1970"], [30, 1]),
        (["1970/01/05"], [4]),
        (["Jan 3, 1970", "Feb 1, 1970"], [2, 31]),
        (["3 January 1970"], [2]),
        (["02.01.1970 18:00"], [1.75]),
        (["1970-02", "1970-01"], [31, 0]),
    ],
)
def test_dates_in_every_order(texts, days):
    reading = date_format(texts, 1.0)
    assert parse(texts, reading).tolist() == days


def test_what_is_no_date():
    assert date_format(["2024-13-01", "2024-02-30"], 0.5) is None
    assert date_format(["blue", "12", "1.5"], 0.5) is None
    assert date_format(["2024-01-01", "soon"], 0.9) is None


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["yes", "NO"], True),
        (["wahr", "falsch"], True),
        (["Y", "n", "yes"], True),
        (["y"], False),
        (["yes", "nein"], False),
        (["true", "false", "maybe"], False),
    ],
)
def test_yes_and_no_of_one_language(texts, expected):
    assert is_boolean(texts) == expected


def test_what_cannot_be_read_is_nan():
    found = parse(["ja", "x", "nein", "True", "0", "1.0"], written.TRUTH)
    assert np.array_equal(found, [1, np.nan, 0, 1, 0, 1], equal_nan=True)
