from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Optional

import numpy as np
import pytest

from mtgcn import settings
from mtgcn.errors import InputError
from mtgcn.experiments.plan import Selection
from mtgcn.methods import METHODS, method_from_text
from mtgcn.nn.base import NetworkSettings
from mtgcn.nn.infomax import InfomaxSettings

if TYPE_CHECKING:
    from nowhere import Nothing


@dataclass(frozen=True)
class Everything(settings.Settings):
    shared: ClassVar[str] = "no setting"

    epochs: int = 200
    dropout: settings.Rate = 0.5  # on the hidden layer
    per_class: settings.PositiveInt | None = None  # t
    mutual: bool = True
    output: Literal["mean", "first"] = "mean"
    title: str | None = None
    share: Annotated[float, settings.Gt(0, "more than 0, or nothing is left"), settings.Le(1)] = 1.0
    # How many degrees below freezing,
    # or none.
    cold: Optional[Annotated[float, settings.Lt(0)]] = None  # noqa: UP045 - the older syntax
    hops: Annotated[int | None, settings.Ge(2)] = 2
    whatever: Any = None


NAN, INF = math.nan, math.inf


def test_parse_settings():
    given = ["epochs=5", "dropout=0", "per-class=60", "mutual=false", "output=first", "title=a=b", "cold=-1", "hops=3"]
    parsed = settings.parse_settings(Everything, given)
    expected = {"epochs": 5, "dropout": 0.0, "per_class": 60, "mutual": False, "output": "first"}
    assert parsed == expected | {"title": "a=b", "cold": -1.0, "hops": 3}
    assert isinstance(parsed["dropout"], float)
    assert parsed["mutual"] is False


def test_parse_none():
    typed = ["per_class=none", "title=none", "cold=none", "hops=none"]
    assert settings.parse_settings(Everything, typed) == dict.fromkeys(("per_class", "title", "cold", "hops"))


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("epochs", "setting 'epochs' has no '='; write key=value"),
        ("epohcs=5", "unknown setting 'epohcs'; did you mean 'epochs'?"),
        ("epochs=5.5", "epochs is '5.5'; give a whole number"),
        ("per_class=many", "per_class is 'many'; give a whole number or none"),
        ("mutual=perhaps", "mutual is 'perhaps'; give true or false"),
        ("output=last", "output is 'last'; choose from mean, first"),
        ("epochs=1 epochs=2", "'epochs' is given twice"),
    ],
)
def test_invalid_text_is_refused(assignment, message):
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        settings.parse_settings(Everything, assignment.split())


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("per_class", 0, "per_class is 0; give at least 1"),
        ("dropout", 1.5, "dropout is 1.5; give a rate from 0 to below 1"),
        ("dropout", -0.1, "dropout is -0.1; give a rate from 0 to below 1"),
        ("dropout", NAN, "dropout is nan; give a rate from 0 to below 1"),
        ("dropout", np.float32(2), "dropout is 2.0; give a rate from 0 to below 1"),
        ("output", "last", "output is 'last'; choose from mean, first"),
        ("output", ["mean"], "output is ['mean']; choose from mean, first"),
        ("share", 0, "share is 0; give more than 0, or nothing is left"),
        ("share", 1.1, "share is 1.1; give at most 1"),
        ("cold", 0, "cold is 0; give a number below 0"),
        ("cold", -INF, "cold is -inf; give a finite number"),
        ("hops", 1, "hops is 1; give at least 2"),
        ("epochs", True, "epochs is True; give a whole number"),
        ("epochs", 5.0, "epochs is 5.0; give a whole number"),
        ("epochs", None, "epochs is None; give a whole number"),
        ("per_class", "60", "per_class is '60'; give a whole number or none"),
        ("dropout", "0.5", "dropout is '0.5'; give a number"),
        ("dropout", 1j, "dropout is 1j; give a number"),
        ("mutual", "no", "mutual is 'no'; give true or false"),
        ("title", 5, "title is 5; give a text or none"),
    ],
)
def test_invalid_values_are_refused(setting, value, message):
    with pytest.raises(InputError) as refusal:
        Everything(**{setting: value})
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ("epochs", [0, -3, 10**30, np.int64(5)]),
        ("dropout", [0, 0.0, 0.999, np.float32(0.5), np.int64(0)]),
        ("per_class", [None, 1]),
        ("mutual", [True, False, np.bool_(True)]),
        ("output", ["mean", np.str_("first")]),
        ("share", [1e-300, 1]),
        ("cold", [None, -1e300]),
        ("hops", [None, 2]),
        ("title", ["", None]),
        ("whatever", [None, NAN, print]),
    ],
)
def test_valid_values_are_unchanged(setting, values):
    for value in values:
        assert getattr(Everything(**{setting: value}), setting) is value


def test_unresolvable_annotations_are_not_checked():
    @dataclass(frozen=True)
    class Half(settings.Settings):
        known: settings.PositiveInt = 1
        unknown: Nothing | None = None
        worse: list[Nothing] = field(default_factory=list)

    assert Half(unknown=5).unknown == 5
    with pytest.raises(InputError, match="known is 0; give at least 1"):
        Half(known=0)
    assert settings.parse_settings(Half, ["known=2"]) == {"known": 2}


def test_derived_fields_are_no_settings():
    @dataclass(frozen=True)
    class Derived(settings.Settings):
        given: settings.PositiveInt = 1
        made: settings.PositiveInt = field(default=0, init=False)

    assert Derived().made == 0
    assert [one.name for one in settings.described_settings(Derived)] == ["given"]
    with pytest.raises(InputError, match="unknown setting 'made'"):
        settings.parse_settings(Derived, ["made=3"])


def test_described_settings():
    described = {one.name: one for one in settings.described_settings(Everything)}
    assert list(described) == [one.name for one in fields(Everything)]
    assert described["dropout"] == settings.SettingDescription(
        name="dropout", limits="number, at least 0, below 1", default="0.5", meaning="on the hidden layer"
    )
    assert described["per_class"] == settings.SettingDescription(
        "per_class", "whole number, at least 1, at most 1000000, or none", "none", "t"
    )
    assert described["output"].limits == "one of mean, first"
    assert described["mutual"] == settings.SettingDescription("mutual", "true or false", "true", "")
    assert described["title"].limits == "text or none"
    assert described["share"].limits == "number, above 0, at most 1"
    assert described["cold"].limits == "number, below 0, or none"

    @dataclass(frozen=True)
    class Required(settings.Settings):
        # What it is called,
        # in one word.
        title: str
        bare: int

    assert settings.described_settings(Required) == [
        settings.SettingDescription("title", "text", "", "What it is called, in one word."),
        settings.SettingDescription("bare", "whole number", "", ""),
    ]


def test_described_settings_without_source():
    made = dataclass(frozen=True)(type("Made", (settings.Settings,), {"__annotations__": {"epochs": int}, "epochs": 3}))
    assert settings.described_settings(made) == [settings.SettingDescription("epochs", "whole number", "3", "")]


@pytest.mark.parametrize("name", METHODS)
def test_defaults_survive_a_round_trip_as_text(name):
    method = METHODS[name]()
    typed = [f"{key}={value}" for key, value in vars(method).items()]
    assert method_from_text(name, typed) == method
    described = [f"{one.name}={one.default}" for one in settings.described_settings(METHODS[name])]
    assert method_from_text(name, described) == method


def numeric(settings_class):
    """Numbers, and what is a number unless it is None."""
    described = {one.name: one.limits for one in settings.described_settings(settings_class)}
    return [name for name, limits in described.items() if "number" in limits]


SETTINGS_CLASSES = [*METHODS.values(), NetworkSettings, InfomaxSettings, Selection]


@pytest.mark.slow
@pytest.mark.parametrize("settings_class", SETTINGS_CLASSES, ids=lambda one: one.__name__)
def test_every_setting_is_checked(settings_class):
    assert numeric(settings_class)
    assert issubclass(settings_class, settings.Settings)
    for one in settings.described_settings(settings_class):
        if one.limits == "true or false":
            with pytest.raises(InputError, match=f"^{one.name} is 'maybe'; give true or false$"):
                settings_class(**{one.name: "maybe"})
    for name in numeric(settings_class):
        for value in (NAN, INF, -INF, -1, "1", True):
            with pytest.raises(InputError, match=f"^{name} is {value!r}; "):
                settings_class(**{name: value})
