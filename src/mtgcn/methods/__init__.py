"""Every method by the name people type."""

from __future__ import annotations

from typing import Any

from mtgcn.errors import InputError, unknown_name
from mtgcn.methods.base import Method, fit_in_chunks
from mtgcn.methods.chebyshev import ChebyshevFilters
from mtgcn.methods.gcn import GCNWithoutValidation, GCNWithValidation
from mtgcn.methods.mt_gcn import MTGCN

METHODS: dict[str, type[Method]] = {
    "chebyshev": ChebyshevFilters,
    "gcn": GCNWithoutValidation,
    "gcn+v": GCNWithValidation,
    "mt-gcn": MTGCN,
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
