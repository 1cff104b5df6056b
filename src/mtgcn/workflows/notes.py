"""What reading and fitting had to remark, to be told once and in its place."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from mtgcn.uncertainty.warnings import FitWarning


@contextmanager
def collected_notes() -> Iterator[list[str]]:
    """A list that holds, once this is over, what was warned of meanwhile: each remark once, on one line."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore", FitWarning)  # a summary has them in a place of their own
        yield notes
    notes.extend(dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught))
