"""Restricted unpickling: a pickle may run any code, so only the types of graph data are admitted."""

from __future__ import annotations

import collections
import io
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError


@dataclass(frozen=True)
class PickleKind:
    """A kind of pickle file, and the types it may use."""

    title: str  # for messages: "… is not a Planetoid file"
    admitted: Mapping[tuple[str, str], Any]  # by module and name in the files


_ARRAYS: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): np.dtype,
    ("numpy", "ndarray"): np.ndarray,
    # a private function of numpy, whose module depends on the version
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("scipy.sparse.csr", "csr_matrix"): sp.csr_matrix,
}

PLANETOID = PickleKind(  # written by Python 2
    "a Planetoid file",
    {
        **_ARRAYS,
        ("__builtin__", "list"): list,
        ("collections", "defaultdict"): collections.defaultdict,
    },
)
GRAPH_ARCHIVE = PickleKind("an archive of a graph", _ARRAYS)


class _RestrictedUnpickler(pickle.Unpickler):
    def __init__(self, content: bytes, admitted: Mapping[tuple[str, str], Any]) -> None:
        # Python 2 strings hold raw bytes, which latin1 preserves.
        super().__init__(io.BytesIO(content), encoding="latin1")
        self.admitted = admitted

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self.admitted[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which graph data do not need") from None


def unpickled(content: bytes, origin: str, kind: PickleKind) -> Any:
    """The object pickled in `content`; `origin` names the file in errors."""
    try:
        return _RestrictedUnpickler(content, kind.admitted).load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise InputError(f"{origin} is not {kind.title}: {error}; delete it to fetch it again") from error
