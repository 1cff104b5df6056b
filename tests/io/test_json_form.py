import pytest

from mtgcn.io.json_form import Anything, Number, Text, Truth, Whole, check_form

FORM = {
    "name": Text(5),
    "sizes": [Whole(1, 9)],
    "share": (Number(0, 1), None),
    "sure": Truth(),
    "counts": Anything(of=Whole()),
}
RIGHT = {"name": "a", "sizes": [1, 9], "share": 0.5, "sure": True, "counts": {"x": 0}, "more": object()}


def test_what_is_of_the_form_passes_and_so_do_other_keys():
    check_form(RIGHT, FORM)
    check_form(RIGHT | {"share": None, "sizes": [], "counts": {}}, FORM)


@pytest.mark.parametrize(
    ("part", "value", "told"),
    [
        ("name", "abcdef", "name is 'abcdef'"),
        ("name", "a\ud800", "name is"),
        ("name", 5, "name is '5'"),
        ("sizes", [1, 0], r"sizes\[1\] is '0'"),
        ("sizes", [True], r"sizes\[0\] is 'True'"),
        ("sizes", {"0": 1}, "sizes is"),
        ("share", float("nan"), "share is 'nan'"),
        ("share", 10**400, "share is '1000"),
        ("share", "0.5", "share is '0.5'"),
        ("sure", 1, "sure is '1'"),
        ("counts", {"x": -1}, "x is '-1'"),
        ("counts", [], "counts is"),
    ],
)
def test_the_first_part_that_is_not_is_named(part, value, told):
    with pytest.raises(ValueError, match=told):
        check_form(RIGHT | {part: value}, FORM)


def test_what_is_missing_is_named():
    with pytest.raises(ValueError, match="sure is missing"):
        check_form({key: value for key, value in RIGHT.items() if key != "sure"}, FORM)
    with pytest.raises(ValueError, match="card is"):
        check_form([], FORM, "card")
