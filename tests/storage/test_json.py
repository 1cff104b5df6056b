"""Strict JSON."""

import pytest

from mtgcn.storage.files import MAX_JSON_DEPTH, parsed_json


def test_valid_json():
    assert parsed_json(b'{"a": [1, 2.5, null, true, "\xc3\xa9"]}') == {"a": [1, 2.5, None, True, "é"]}


@pytest.mark.parametrize("bracket", ["[]", "{}"])
def test_nesting_limit(bracket):
    def nested(depth):
        opened = "[" if bracket == "[]" else '{"a":'
        return opened * depth + "1" + bracket[1] * depth

    parsed_json(nested(MAX_JSON_DEPTH))
    for depth in (MAX_JSON_DEPTH + 1, 100_000):
        with pytest.raises(ValueError, match="nested deeper than 100 levels"):
            parsed_json(nested(depth))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": {"b": 1, "b": 2}}', "key 'b' is given twice"),
        ("[NaN]", "NaN is not a number"),
        ("[-Infinity]", "-Infinity is not a number"),
        ("9" * 5000, "digits"),
        (b"\xff\xfe\xff", "decode|codec"),
        ("{", "Expecting"),
    ],
)
def test_invalid_json(text, told):
    with pytest.raises(ValueError, match=told):
        parsed_json(text)
