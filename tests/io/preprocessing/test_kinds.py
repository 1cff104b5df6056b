"""What a column is, as found out and as told."""

import numpy as np
import pytest

from mtgcn.errors import InputError
from mtgcn.io.preprocessing.column_table import ColumnTable, Texts
from mtgcn.io.preprocessing.fit import infer_types

ROWS = 100


def table_of(**columns):
    """Columns of numbers where they are an array, else of text."""
    names = tuple(columns)
    numbers = [place for place, name in enumerate(names) if isinstance(columns[name], np.ndarray)]
    rows = len(next(iter(columns.values())))
    return ColumnTable(
        names=names,
        numbers=np.column_stack([columns[names[place]] for place in numbers]) if numbers else np.zeros((rows, 0)),
        number_columns=tuple(numbers),
        texts={place: Texts.of(columns[name]) for place, name in enumerate(names) if place not in numbers},
    )


def kind_of(cells, name="column", told=None):
    [found] = infer_types(table_of(**{name: cells}), {} if told is None else {name: told})
    return found.dropped or found.format or "category"


def cycle(*cells):
    return [cells[row % len(cells)] for row in range(ROWS)]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (cycle("1.5", "2", "NA", ""), "number"),
        (cycle("1,5", "2", "?"), "number with decimal comma"),
        (cycle("12 €", "9 €"), "category"),
        (cycle("yes", "no", "-"), "yes or no"),
        (cycle("ja", "nein"), "category"),
        (cycle("2024-01-01", "2023-05-07", None), "date iso"),
        (cycle("1.2.2024", "17.12.2023"), "date %d.%m.%Y"),
        (cycle("Köln", "Ulm", "n/a"), "category"),
        (cycle("01067", "10115", "20095"), "category"),  # zeros in front: a code
        ([f"note {row}" for row in range(ROWS)], "100 different values"),
        ([f"{row:05}" for row in range(ROWS)], "100 different values"),
        (cycle("NA", None, "?"), "empty"),
        (np.arange(ROWS) + 7.0, "ids, all different"),
        ([str(row + 7) for row in range(ROWS)], "ids, all different"),  # as text, as a table of text alone has them
        ([f"{row},0" for row in range(ROWS)], "ids, all different"),
        ([str(row) if row else "NA" for row in range(ROWS)], "number"),
        ([f"{row}.5" for row in range(ROWS)], "number"),
        (np.arange(ROWS) / 7, "number"),
        (np.tile([3.0, np.nan], ROWS // 2), "number"),
    ],
)
def test_kinds_are_found_out(cells, kind):
    assert kind_of(cells) == kind


@pytest.mark.parametrize("name", ["customer_id", "Kundennr", "customerId", "id", "row no"])
def test_numbers_called_an_id_are_left_out(name):
    ids = np.random.default_rng(0).permutation(10**5)[:ROWS].astype(float)
    assert kind_of(ids, name) == "ids, all different"
    assert kind_of([str(int(one)) for one in ids], name) == "ids, all different"
    assert kind_of(ids, "paid") == "number"
    assert kind_of(ids, name, told="number") == "number"


def test_numbers_without_a_name_are_numbers():
    [found] = infer_types(table_of(x=np.arange(ROWS) * 1.0), named=False)
    assert found.format == "number"


def test_a_person_knows_better():
    assert kind_of(cycle("1", "2"), told="category") == "category"
    assert kind_of([f"x{row % 90}" for row in range(ROWS)], told="category") == "category"
    assert kind_of(cycle("Köln", "Ulm"), told="text") == "free text, 2 different values"
    assert kind_of(cycle("1", "red", "blue"), told="number") == "number"
    assert kind_of(cycle("1,5", "red", "blue"), told="number") == "number with decimal comma"
    assert kind_of(cycle("2024-01-01", "soon", "later"), told="date") == "date iso"
    with pytest.raises(InputError, match="column 'column': 'soon' is not a known date format"):
        kind_of(cycle("soon", "later"), told="date")


def test_ambiguous_commas():
    thousands = cycle("1,500", "2,250", "900")
    with pytest.raises(InputError, match="'1,500' may have a thousands or a decimal separator; write numbers without"):
        kind_of(thousands)
    assert kind_of(thousands, told="number") == "number with decimal comma"
    beside = table_of(price=cycle("1,5", "2,25"), sales=thousands, size=cycle("1.5", "900"))
    assert [found.format for found in infer_types(beside)] == [*["number with decimal comma"] * 2, "number"]
    with pytest.raises(InputError, match=r"'1\.500' may have a thousands"):
        infer_types(table_of(price=cycle("1,5", "2,25"), size=cycle("1.500", "900")))
    assert kind_of(cycle("1.500", "900")) == "number"


@pytest.mark.parametrize(
    ("slips", "refused"),
    [(1, True), (10, True), (11, False)],
)
def test_a_few_cells_that_do_not_fit_are_slips(slips, refused):
    cells = ["odd"] * slips + [str(row) for row in range(ROWS - slips)]
    if refused:
        with pytest.raises(InputError, match=rf"{slips} of 100 values are not numbers \(row 0 'odd'"):
            kind_of(cells)
    else:
        assert kind_of(cells) == "90 different values"
