"""Names in messages and files."""

import pytest

from mtgcn.errors import LONGEST_NAME, InputError, check_names, unknown_name


def test_valid_names():
    check_names(["é", "日本", "🙂", "x" * LONGEST_NAME], "class")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x" * 2_000_000, "has 2000000 characters; give names of at most 1000$"),
        ("a\ud800", "contains an unpaired surrogate; rename it$"),
    ],
)
def test_invalid_names(name, message):
    with pytest.raises(InputError, match=message) as caught:
        check_names(["fine", name], "class", "labels.csv")
    assert str(caught.value).startswith("labels.csv: class ")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("name", "hint"), [("hidden", "did you mean 'hidden_channels'?"), ("maybe", "choose from yes, hidden_channels")]
)
def test_unknown_names(name, hint):
    assert str(unknown_name("setting", name, ["yes", "hidden_channels"])) == f"unknown setting {name!r}; {hint}"
