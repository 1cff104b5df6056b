"""Every method by the name people type."""

from __future__ import annotations

from typing import Any

from mtgcn.errors import InputError, unknown_name
from mtgcn.methods.base import Method, fit_in_chunks
from mtgcn.methods.chebyshev import ChebyshevFilters
from mtgcn.methods.co_training import CoTraining
from mtgcn.methods.deepwalk import DeepWalk
from mtgcn.methods.gcn import GCNWithoutValidation, GCNWithValidation
from mtgcn.methods.ica import IterativeClassification
from mtgcn.methods.lp import ParWalks
from mtgcn.methods.m3s import M3S
from mtgcn.methods.mani_reg import ManifoldRegularization
from mtgcn.methods.mt_gcn import MTGCN
from mtgcn.methods.multi_stage import MultiStage
from mtgcn.methods.planetoid import Planetoid
from mtgcn.methods.self_training import SelfTraining
from mtgcn.methods.semi_emb import SemiSupervisedEmbedding
from mtgcn.methods.union_intersection import Intersection, Union

METHODS: dict[str, type[Method]] = {
    "chebyshev": ChebyshevFilters,
    "co-training": CoTraining,
    "deepwalk": DeepWalk,
    "gcn": GCNWithoutValidation,
    "gcn+v": GCNWithValidation,
    "intersection": Intersection,
    "ica": IterativeClassification,
    "lp": ParWalks,
    "m3s": M3S,
    "mani-reg": ManifoldRegularization,
    "mt-gcn": MTGCN,
    "multi-stage": MultiStage,
    "planetoid": Planetoid,
    "semi-emb": SemiSupervisedEmbedding,
    "self-training": SelfTraining,
    "union": Union,
}

__all__ = ["METHODS", "Method", "create", "fit_in_chunks"]


def create(name: str, **settings: Any) -> Method:
    """The method of that name with these settings; the paper's where none is given."""
    if name not in METHODS:
        raise unknown_name("method", name, METHODS)
    fields = METHODS[name].__dataclass_fields__
    for key in settings:
        if key not in fields:
            raise unknown_name(f"setting of {name}", key, fields)
    try:
        return METHODS[name](**settings)
    except TypeError as error:
        raise InputError(f"settings {settings} do not fit {name}: {error}") from error
