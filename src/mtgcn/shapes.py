"""Shapes in signatures: `Float[Tensor, "nodes classes"]` is a tensor of floating point numbers with these two axes.

The names are jaxtyping's. At run time they are plain array types, and nothing is imported or checked, unless
MTGCN_CHECK_SHAPES is 1, as in the tests (tests/support/shape_checks.py).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

__all__ = ["Bool", "Float", "Int", "Real", "UInt64"]

if TYPE_CHECKING or os.environ.get("MTGCN_CHECK_SHAPES") == "1":
    from jaxtyping import Bool, Float, Int, Real, UInt64
else:

    class _Unchecked:
        def __class_getitem__(cls, array_and_axes: tuple[Any, str]) -> Any:
            return array_and_axes[0]

    Bool = Float = Int = Real = UInt64 = _Unchecked
