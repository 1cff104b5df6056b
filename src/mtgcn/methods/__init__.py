"""Every method by the name people type."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from mtgcn.errors import InputError, unknown_name
from mtgcn.methods.appnp import PredictThenPropagate
from mtgcn.methods.base import Method, fit_in_chunks
from mtgcn.methods.chebyshev import ChebyshevFilters
from mtgcn.methods.co_training import CoTraining
from mtgcn.methods.correct_and_smooth import CorrectAndSmooth
from mtgcn.methods.deepwalk import DeepWalk
from mtgcn.methods.gcn import GCNWithoutValidation, GCNWithValidation
from mtgcn.methods.ica import IterativeClassification
from mtgcn.methods.karate import karate_club
from mtgcn.methods.logistic import Logistic
from mtgcn.methods.lp import ParWalks
from mtgcn.methods.m3s import M3S
from mtgcn.methods.mani_reg import ManifoldRegularization
from mtgcn.methods.mt_gcn import MTGCN
from mtgcn.methods.mt_plus.method import MTPlus
from mtgcn.methods.multi_stage import MultiStage
from mtgcn.methods.planetoid import Planetoid
from mtgcn.methods.plugins import ENTRY_POINTS, as_method_class, imported_method, installed_method
from mtgcn.methods.ppr import PageRankFeatures
from mtgcn.methods.self_training import SelfTraining
from mtgcn.methods.semi_emb import SemiSupervisedEmbedding
from mtgcn.methods.sgc import SimpleGraphConvolution
from mtgcn.methods.union_intersection import Intersection, Union
from mtgcn.settings import parse_settings

METHODS: dict[str, type[Method]] = {
    "appnp": PredictThenPropagate,
    "chebyshev": ChebyshevFilters,
    "co-training": CoTraining,
    "correct-and-smooth": CorrectAndSmooth,
    "deepwalk": DeepWalk,
    "gcn": GCNWithoutValidation,
    "gcn+v": GCNWithValidation,
    "intersection": Intersection,
    "ica": IterativeClassification,
    "logistic": Logistic,
    "lp": ParWalks,
    "m3s": M3S,
    "mani-reg": ManifoldRegularization,
    "mt-gcn": MTGCN,
    "mt-plus": MTPlus,
    "multi-stage": MultiStage,
    "planetoid": Planetoid,
    "ppr": PageRankFeatures,
    "semi-emb": SemiSupervisedEmbedding,
    "self-training": SelfTraining,
    "sgc": SimpleGraphConvolution,
    "union": Union,
}

__all__ = [
    "METHODS",
    "Method",
    "create",
    "fit_in_chunks",
    "karate_club",
    "method_class",
    "method_from_text",
    "method_title",
    "name_of",
    "register",
    "typed_method_class",
]


def register(name: str, own: type) -> type[Method]:
    """From here on `name` stands for this class wherever a method is named: in `create`, in the estimator, and in
    `mtgcn compare`. The class is a frozen dataclass of settings with `fit(task) -> Prediction`; what else it may
    have (`apply`, `bytes_per_run`) is told at `Method`, which it need not inherit from.
    """
    if not name or any(letter.isspace() or letter == "," for letter in name):
        raise InputError(f"method name {name!r}; give one without spaces and commas, since lists are split there")
    method = as_method_class(own)
    if METHODS.setdefault(name, method) is not method:
        raise InputError(f"method {name!r} is {METHODS[name].__name__} already; give yours another name")
    return method


def method_class(name: str) -> type[Method]:
    """The method of that name: ours, a registered one, or one that an installed package offers."""
    if name not in METHODS and (installed := installed_method(name)) is not None:
        register(name, installed)
    if name not in METHODS and ":" in name:
        raise InputError(
            f"method {name!r} is not imported here, since names in files must not run code; mtgcn run and compare take "
            f"it, and a package makes it known for good by an entry point of the group {ENTRY_POINTS!r}"
        )
    if name not in METHODS:
        raise unknown_name("method", name, METHODS)
    return METHODS[name]


def typed_method_class(name: str) -> type[Method]:
    """The method that a person typed: one by its name or, as `module:Class`, a class of their own, which is imported
    and registered under what they typed. Names that were read from a file go to `method_class`, which runs nothing."""
    if ":" in name and name not in METHODS:
        register(name, imported_method(name))
    return method_class(name)


def method_title(name: str) -> str:
    """A method in one sentence, the first line of its file: where it is from and what it does. Where a file holds
    several methods, or says nothing, the first line of the class tells them apart."""
    own = method_class(name)
    file = _first_line(getattr(sys.modules.get(own.__module__), "__doc__", None))
    alike = sum(other.__module__ == own.__module__ for other in set(METHODS.values()))
    return " ".join(filter(None, (file, _first_line(own.__doc__) if alike > 1 or not file else "")))


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


def name_of(method: Method) -> str:
    """What people type for a method; of one that is not registered, the name of its class."""
    return next((name for name, kind in METHODS.items() if type(method) is kind), type(method).__name__)


def create(name: str, **settings: Any) -> Method:
    """The method of that name with these settings; the paper's where none is given."""
    return with_settings(method_class(name), name, settings)


def method_from_text(name: str, assignments: Iterable[str] = ()) -> Method:
    """The method that a person typed with some of its settings changed by `key=value` texts."""
    return create(name, **parse_settings(typed_method_class(name), assignments))


def with_settings(method: type[Method], name: str, settings: Mapping[str, Any]) -> Method:
    """The method with these settings; `name` is what to call it where one of them does not fit."""
    fields = method.__dataclass_fields__
    for key in settings:
        if key not in fields:
            raise unknown_name(f"setting of {name}", key, fields)
    try:
        return method(**settings)
    except TypeError as error:
        raise InputError(f"settings {dict(settings)} do not fit {name}: {error}") from error
