"""Parsing of numbers and dates."""

import pytest

from mtgcn.io.column_table import COMMA, POINT, date_format, number_in, parse


@pytest.mark.parametrize(
    ("text", "point", "comma"),
    [
        ("12", 12, 12),
        (" -3.5 ", -3.5, None),
        ("3,5", None, 3.5),
        ("1.234", 1.234, None),
        ("1,234", None, 1.234),
        ("2e3", 2000, 2000),
        ("+.5", 0.5, None),
        *((text, None, None) for text in ("1,2,3", "1,234.5", "1e99", "inf", "1_000", "", "€", "12 %", ".", "１２")),
    ],
)
def test_numbers(text, point, comma):
    assert (number_in(text, POINT), number_in(text, COMMA)) == (point, comma)


@pytest.mark.parametrize(
    ("texts", "days"),
    [
        (["1970-01-01", "1970-01-03"], [0, 2]),
        (["1970-01-01 12:00", "1970-01-02T06:00:00"], [0.5, 1.25]),
        (["1970-01-01T02:00:00+02:00", "1970-01-02T00:00:00Z"], [0, 1]),
        (["1.1.1970", "31.01.1970"], [0, 30]),
        (["31/01/1970", "02/01/1970"], [30, 1]),
        (["31-01-1970"], [30]),
        (["02.01.1970 18:00"], [1.75]),
    ],
)
def test_dates(texts, days):
    assert parse(texts, date_format(texts, 1.0)).tolist() == days


@pytest.mark.parametrize(
    "texts", [["2024-13-01", "2024-02-30"], ["blue", "12", "1.5"], ["2024-01-01", "soon"], ["01/31/1970"]]
)
def test_not_dates(texts):
    assert date_format(texts, 0.9) is None
