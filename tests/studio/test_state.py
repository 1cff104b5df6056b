import json

import pytest

from mtgcn.errors import InputError
from mtgcn.studio.source import Source
from mtgcn.studio.state import State, read_state, state_text

STATE = State(
    3,
    Source(files={"edges": "e.csv"}, options={"knn": None}),
    "labels-before-3.csv",
    ("a", "b"),
    ("n1",),
    (("x", "a"),),
)


def test_it_is_read_as_it_was_written():
    assert read_state(state_text(STATE)) == STATE
    assert read_state(None) == State()


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"load": "three"},
        {"classes": "ab"},
        {"skipped": [1]},
        {"source": {"files": {"edges": "e.csv"}}},
        {"source": {"dataset": None, "files": {"edges": "../../etc/passwd"}, "options": {}}},
        {"source": {"dataset": None, "files": {"secrets": "e.csv"}, "options": {}}},
        {"renamed": [["a"]]},
        {"unsettled": "../labels.csv"},
        {"unsettled": 3},
    ],
)
def test_what_a_person_broke_is_one_line(change):
    content = json.dumps(json.loads(state_text(STATE)) | change).encode()
    with pytest.raises(InputError):
        read_state(content)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"null"])
def test_what_is_no_project_is_one_line(content):
    with pytest.raises(InputError, match=r"project\.json"):
        read_state(content)


def test_renames_are_followed_in_their_order():
    state = State(renamed=(("a", "b"), ("x", "a"), ("b", "c")))
    assert [state.name_now(name) for name in ("a", "x", "b", "other")] == ["c", "a", "c", "other"]
