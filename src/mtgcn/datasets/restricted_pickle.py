"""Planetoid's files are Python 2 pickles, and a pickle may run any code: this reader admits only harmless types."""

from __future__ import annotations

import collections
import io
import pickle
from typing import Any

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError

# Keyed by the names of Python 2 and of the numpy and scipy of that time, as they stand in the files.
ADMITTED: dict[tuple[str, str], Any] = {
    ("__builtin__", "list"): list,
    ("collections", "defaultdict"): collections.defaultdict,
    ("numpy", "dtype"): np.dtype,
    ("numpy", "ndarray"): np.ndarray,
    # numpy keeps this function in a private module that has moved before; an array names it whatever the version.
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("scipy.sparse.csr", "csr_matrix"): sp.csr_matrix,
}


class _RestrictedUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return ADMITTED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which graph data never need") from None


def unpickled(content: bytes, origin: str) -> Any:
    """The object pickled in `content`; `origin` names the file in errors."""
    try:
        # Python 2 strings hold the raw bytes of arrays; latin1 keeps every byte as it is.
        return _RestrictedUnpickler(io.BytesIO(content), encoding="latin1").load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise InputError(f"{origin} is not a Planetoid file: {error}; delete it, and it is fetched anew") from error
