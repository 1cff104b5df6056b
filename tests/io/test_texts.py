import pytest

from mtgcn.errors import LONGEST_NAME, InputError, check_names


def test_names_may_be_long_and_of_any_script():
    check_names(["é", "日本", "🙂", "x" * LONGEST_NAME], "class")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("x" * 2_000_000, "has 2000000 characters; give names of at most 1000$"),
        ("a\ud800", "contains an unpaired surrogate; rename it$"),
    ],
)
def test_what_cannot_be_kept_or_written_is_refused_in_a_short_line(name, told):
    with pytest.raises(InputError, match=told) as refused:
        check_names(["fine", name], "class", "labels.csv")
    assert str(refused.value).startswith("labels.csv: class ")
    assert len(str(refused.value)) < 200
