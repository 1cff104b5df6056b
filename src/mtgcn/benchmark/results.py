"""`ResultRow`: one run of one cell. Tables, pages and JSON are all made from rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ResultRow:
    """How one method did on one split, and everything needed to do it again."""

    dataset: str
    labels_per_class: int | tuple[int, ...]  # one number if every class has as many
    method: str
    settings: Mapping[str, Any]
    run: int
    seed: int  # of the whole cell; the run's own seed follows from it and `run`
    accuracy: float
    macro_f1: float
    calibration_error: float
    seconds: float  # wall time of fitting the cell, shared out equally among its runs
    device: str
    threads: int
    versions: Mapping[str, str]
