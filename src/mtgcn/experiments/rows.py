"""`ResultRow`: one run of one cell. Tables, pages and JSON are all made from rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mtgcn.errors import InputError, shown
from mtgcn.experiments.split_choice import RANDOM
from mtgcn.io.json_form import Anything, Number, Text, Whole, check_form
from mtgcn.splits import LARGEST_SEED

FORMAT = 2  # of stored rows and curves: what their fields and settings are called
COUNT = Whole(most=2**31)
# What tables and pages reckon with; settings are the method's.
ROW_FORM = {
    **dict.fromkeys(("dataset", "split", "method", "device", "unit", "protocol"), Text()),
    **dict.fromkeys(("run", "runs", "averages", "threads", "validation"), COUNT),
    **dict.fromkeys(("accuracy", "macro_f1", "calibration_error"), Number()),
    "labels_per_class": (COUNT, [COUNT]),
    "settings": Anything(),
    "seed": Whole(most=LARGEST_SEED),
    "seconds": Number(0),
    "versions": Anything(of=Text()),
}
VERSIONS_FORM = {"mtgcn": Text()}
GROUP = (COUNT, None)
COMPARED_FORM = {
    "comparison": Text(),
    "scored_nodes": COUNT,
    "graph": dict.fromkeys(("nodes", "edges", "features", "classes"), Whole()),
}
# All that decides the numbers; what the runs were made on is told of each.
SHARED_IN_A_UNIT = ("dataset", "split", "method", "settings", "seed", "protocol", "validation", "runs", "averages")


@dataclass(frozen=True)
class ResultRow:
    """How one method did on one split, and everything needed to do it again."""

    dataset: str
    labels_per_class: int | tuple[int, ...]  # one number if every class has as many, or as many on average (over-all)
    split: str  # "random", "over-all", "public" or the path of a split file
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
    # Runs of a cell with the same number share random parts, such as an embedding; None: this one shares none.
    group: int | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class StoredRow(ResultRow):
    """A row of a sweep: besides the result, which unit of work it belongs to and how that was reported."""

    unit: str  # short for all that decides the numbers; equal for the rows that were fitted together
    protocol: str  # "paper" rows are optimistic and say so wherever they are shown
    validation: int  # nodes set aside and scored for nobody
    runs: int  # rows of this unit
    averages: int  # into how many averages, of which the authors print the largest, the runs are cut
    format: int = FORMAT

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> StoredRow:
        """What `dataclasses.asdict` made, after a way through JSON."""
        check_form(content, ROW_FORM)
        check_form(content["versions"], VERSIONS_FORM)
        check_form(content.get("group"), GROUP, "group")
        counts = content["labels_per_class"]
        if counts == []:
            raise ValueError("labels_per_class is empty")
        kind = ComparedRow if "comparison" in content else StoredRow
        if kind is ComparedRow:
            check_form(content, COMPARED_FORM)
        return kind(
            **{
                "format": format_of(content),
                **content,
                "labels_per_class": tuple(counts) if isinstance(counts, list) else counts,
            }
        )


@dataclass(frozen=True)
class ComparedRow(StoredRow):
    """A row of a comparison, on a graph that may be anybody's: it fills no place of the paper's tables."""

    comparison: str = field(kw_only=True)  # short for what its methods share; equal for rows that may be paired
    scored_nodes: int = field(kw_only=True)
    graph: Mapping[str, int] = field(kw_only=True)  # nodes, edges, features and classes


def check_of_one_unit(row: StoredRow, first: StoredRow) -> None:
    """A ValueError unless two rows have in common what all rows of a unit have."""
    if type(row) is not type(first):
        raise ValueError("a row of a sweep among those of a comparison")
    for name in SHARED_IN_A_UNIT:
        if getattr(row, name) != getattr(first, name):
            raise ValueError(f"its {name} is not that of its unit")
    # Elsewhere classes may have as many labels as the run's own draw gave them.
    if row.split == RANDOM and row.labels_per_class != first.labels_per_class:
        raise ValueError("its labels_per_class is not that of its unit")


def format_of(content: Mapping[str, Any]) -> int:
    """The format of a stored row or curve; the first did not say."""
    found = content.get("format", 1)
    if not Whole(1, 10**6).allows(found):
        raise ValueError(f"format is {shown(found)}")
    return int(found)


def check_format(found: int, path: Path) -> None:
    """Refuse what another mtgcn wrote and this one would misread."""
    if found < FORMAT:
        raise InputError(
            f"{path} is of format {found}, written by mtgcn before 0.3.0, and this version reads format {FORMAT}; "
            "run the experiment again"
        )
    if found > FORMAT:
        raise InputError(f"{path} is of format {found} and this mtgcn reads format {FORMAT}; take a newer mtgcn")
