from dataclasses import dataclass
from typing import Literal

import pytest

from mtgcn.errors import InputError
from mtgcn.methods import METHODS, method_from_text
from mtgcn.settings import parse_settings


@dataclass(frozen=True)
class Settings:
    epochs: int = 200
    dropout: float = 0.5
    per_class: int | None = None
    mutual: bool = True
    output: Literal["mean", "first"] = "mean"
    title: str | None = None


def test_texts_become_what_the_fields_declare():
    given = ["epochs=5", "dropout=0", "per-class=60", "mutual=false", "output=first", "title=a=b"]
    parsed = parse_settings(Settings, given)
    assert parsed == {
        "epochs": 5,
        "dropout": 0.0,
        "per_class": 60,
        "mutual": False,
        "output": "first",
        "title": "a=b",
    }
    assert isinstance(parsed["dropout"], float)
    assert parsed["mutual"] is False


def test_none_is_a_value_where_it_is_declared():
    assert parse_settings(Settings, ["per_class=none", "title=none"]) == {"per_class": None, "title": None}


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("epochs", "setting 'epochs' has no '='; write key=value"),
        ("epohcs=5", "unknown setting 'epohcs'; did you mean 'epochs'?"),
        ("epochs=5.5", "setting epochs='5.5' is not of type int; give one that is"),
        ("per_class=many", r"not of type int \| none"),
        ("mutual=perhaps", "not of type bool"),
        ("output=last", r"not of type 'mean' \| 'first'"),
    ],
)
def test_what_cannot_be_read_is_refused(assignment, message):
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        parse_settings(Settings, [assignment])


def test_a_setting_given_twice_is_refused():
    with pytest.raises(InputError, match="'epochs' is given twice"):
        parse_settings(Settings, ["epochs=1", "epochs=2"])


def test_an_unknown_method_is_answered_with_the_nearest():
    with pytest.raises(InputError, match="unknown method 'mtgcn'; did you mean 'mt-gcn'"):
        method_from_text("mtgcn")


@pytest.mark.parametrize("name", METHODS)
def test_every_default_of_every_method_can_be_typed(name):
    method = METHODS[name]()
    typed = [f"{key}={value}" for key, value in vars(method).items()]
    assert method_from_text(name, typed) == method
