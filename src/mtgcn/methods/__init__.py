"""The registry of methods: built-in methods, methods of installed packages, and user-defined classes."""

from __future__ import annotations

import os
import sys
from abc import ABCMeta
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, cast

from mtgcn.errors import InputError, shown, unknown_name
from mtgcn.methods import linear, scikit_learn
from mtgcn.methods.appnp import PredictThenPropagate
from mtgcn.methods.base import Method as Method
from mtgcn.methods.base import fit_in_chunks as fit_in_chunks
from mtgcn.methods.base import karate_club as karate_club
from mtgcn.methods.base import task_of as task_of
from mtgcn.methods.chebyshev import ChebyshevFilters
from mtgcn.methods.correct_and_smooth import CorrectAndSmooth
from mtgcn.methods.deepwalk import DeepWalk
from mtgcn.methods.gcn import GCNWithoutValidation, GCNWithValidation
from mtgcn.methods.gcnii import GCNII, GCNIIWithValidation
from mtgcn.methods.grand import GRAND, GRANDWithValidation
from mtgcn.methods.ica import IterativeClassification
from mtgcn.methods.iceberg import IceBerg, IceBergWithValidation
from mtgcn.methods.krylov import TruncatedKrylov
from mtgcn.methods.lp import ParWalks
from mtgcn.methods.m3s import M3S, MultiStage
from mtgcn.methods.mani_reg import ManifoldRegularization
from mtgcn.methods.mt_gcn import MTGCN
from mtgcn.methods.mt_plus.method import MTPlus
from mtgcn.methods.planetoid import Planetoid
from mtgcn.methods.poisson import PoissonLearning
from mtgcn.methods.self_training import CoTraining, Intersection, SelfTraining, Union
from mtgcn.methods.semi_emb import SemiSupervisedEmbedding
from mtgcn.settings import parse_settings

METHODS: dict[str, type[Method]] = {
    "appnp": PredictThenPropagate,
    "chebyshev": ChebyshevFilters,
    "co-training": CoTraining,
    "correct-and-smooth": CorrectAndSmooth,
    "deepwalk": DeepWalk,
    "gcn": GCNWithoutValidation,
    "gcn+v": GCNWithValidation,
    "gcnii": GCNII,
    "gcnii+v": GCNIIWithValidation,
    "gradient-boosting": scikit_learn.GradientBoosting,
    "grand": GRAND,
    "grand+v": GRANDWithValidation,
    "intersection": Intersection,
    "ica": IterativeClassification,
    "iceberg": IceBerg,
    "iceberg+v": IceBergWithValidation,
    "krylov": TruncatedKrylov,
    "label-spreading": scikit_learn.LabelSpreading,
    "logistic": linear.Logistic,
    "logistic-self": linear.SelfTrainedLogistic,
    "lp": ParWalks,
    "m3s": M3S,
    "mani-reg": ManifoldRegularization,
    "mt-gcn": MTGCN,
    "mt-plus": MTPlus,
    "multi-stage": MultiStage,
    "planetoid": Planetoid,
    "poisson": PoissonLearning,
    "ppr": linear.PageRankFeatures,
    "ppr-self": linear.SelfTrainedPageRank,
    "random-forest": scikit_learn.RandomForest,
    "semi-emb": SemiSupervisedEmbedding,
    "self-training": SelfTraining,
    "sgc": linear.SimpleGraphConvolution,
    "sgc-self": linear.SelfTrainedGraphConvolution,
    "sklearn-logistic": scikit_learn.SklearnLogistic,
    "sklearn-logistic-self": scikit_learn.SelfTrainedSklearnLogistic,
    "union": Union,
}

ENTRY_POINTS = "mtgcn.methods"  # entry point group of methods in installed packages


def create(name: str, **settings: Any) -> Method:
    """Create a method by name, with these settings.

    >>> task, accuracy = karate_club()
    >>> round(accuracy(create("mt-gcn", dropout=0.3).fit(task)), 2)
    0.96
    """
    method = method_class(name)
    for key in settings:
        if key not in method.__dataclass_fields__:
            raise unknown_name(f"setting of {name}", key, method.__dataclass_fields__)
    try:
        return method(**settings)
    except TypeError as error:
        raise InputError(f"settings {settings} do not fit {name}: {error}") from error


def register(name: str, own: type) -> type[Method]:
    """Register a class under `name`, for `create`, the estimator and `mtgcn compare`. The class is a frozen dataclass
    of settings with `fit(task) -> Prediction`. It need not inherit from `Method`, which lists optional members.
    """
    if not name or any(letter.isspace() or letter == "," for letter in name):
        raise InputError(f"method name {name!r} is empty or has spaces or commas; give one without")
    method = as_method_class(own)
    if METHODS.setdefault(name, method) is not method:
        raise InputError(f"method {name!r} is already {METHODS[name].__name__}; choose another name")
    return method


def method_class(name: str) -> type[Method]:
    """The class of a built-in or registered method, or one of an installed package. Never imports `module:Class`."""
    if name not in METHODS:
        for one in entry_points(group=ENTRY_POINTS, name=name):
            try:
                return register(name, one.load())
            except (ImportError, AttributeError) as error:
                raise InputError(f"method {name!r} of {one.value} cannot be imported: {error}") from error
        if ":" in name:
            raise InputError(
                f"method {name!r} must be registered first, since names in files never import code; pass it to "
                f"mtgcn run or compare, or register it with an entry point of the group {ENTRY_POINTS!r}"
            )
        raise unknown_name("method", name, METHODS)
    return METHODS[name]


def typed_method_class(name: str) -> type[Method]:
    """The class of a method that a user typed: a name, or `module:Class`, which is imported and registered under that
    name. For names from files use `method_class`, which runs no code."""
    if ":" in name and name not in METHODS:
        register(name, imported_method(name))
    return method_class(name)


def method_from_text(name: str, assignments: Iterable[str] = ()) -> Method:
    """Create a method that a user typed, with settings from `key=value` texts."""
    return create(name, **parse_settings(typed_method_class(name), assignments))


def method_title(name: str) -> str:
    """The first docstring line of the module, followed by that of the class if the module has several methods."""
    own = method_class(name)
    module = getattr(sys.modules.get(own.__module__), "__doc__", None)
    file, title = ((text or "").strip().partition("\n")[0] for text in (module, own.__doc__))
    alone = sum(other.__module__ == own.__module__ for other in set(METHODS.values())) == 1
    return file if file and alone else f"{file} {title}".strip()


def name_of(method: Method) -> str:
    """The registered name of a method, or else the name of its class."""
    return next((name for name, kind in METHODS.items() if type(method) is kind), type(method).__name__)


def as_method_class(own: type) -> type[Method]:
    """The class itself if it is a `Method`, else a subclass of it and `Method`."""
    title = getattr(own, "__name__", repr(own))
    if not isinstance(own, type) or not callable(getattr(own, "fit", None)):
        raise InputError(f"{title} has no fit(task); give a frozen dataclass with fit(task)")
    if not is_dataclass(own) or not own.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise InputError(f"{title} is not a frozen dataclass; write @dataclass(frozen=True)")
    return own if issubclass(own, Method) else _adopted(own)


@cache
def _adopted(own: type) -> type[Method]:
    names = {"__module__": own.__module__, "__qualname__": own.__qualname__, "__doc__": own.__doc__}
    return cast("type[Method]", ABCMeta(own.__name__, (own, Method), {**names, "__reduce__": _reduce}))


def as_method(own: Any) -> Method:
    """An instance of a dataclass with `fit` as a `Method` with the same settings."""
    if isinstance(own, type) or not is_dataclass(own):
        raise InputError(f"method is {shown(own)}; give a name, or an instance of a dataclass with fit(task)")
    return own if isinstance(own, Method) else as_method_class(type(own))(**_settings(own))


def _settings(own: Any) -> dict[str, Any]:
    return {field.name: getattr(own, field.name) for field in fields(own) if field.init}


def _reduce(self: Any) -> tuple[Any, ...]:
    # Pickle cannot find an adopted class, so an instance of the original class is stored.
    return as_method, (type(self).__bases__[0](**_settings(self)),)


def imported_method(reference: str) -> type[Method]:
    """Import `module:Class`, also from the current folder. This runs the module, so `reference` must come from a user,
    never from a file."""
    module_name, _, class_name = reference.partition(":")
    if not module_name or not class_name.isidentifier():
        raise InputError(f"method {reference!r}; write module:Class, for instance mine:Shares for Shares in mine.py")
    if module_name.endswith(".py"):
        raise InputError(f"method {reference!r} names a file; name the module, {module_name.removesuffix('.py')!r}")
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module itself lacks another module: its author needs the traceback
        raise InputError(
            f"method {reference!r}: no module {module_name!r} in {here} or on Python's path; "
            "go to its folder, or add that to PYTHONPATH"
        ) from None
    if not hasattr(module, class_name):
        classes = [name for name, value in vars(module).items() if isinstance(value, type)]
        raise unknown_name(f"class of module {module_name}", class_name, classes)
    return as_method_class(getattr(module, class_name))
