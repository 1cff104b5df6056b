"""Result rows, and the append-only file that stores them.

`rows.jsonl` holds one JSON object per row. The rows of a unit are consecutive and in order, and are written and synced
in one call. So only the end of the file can be incomplete after a crash, and the rows alone show whether a unit is
complete. `rows.jsonl.gz` is read too. Rows are validated by pydantic, which is imported when rows are read, so that
`scoring` and `plan` also run where only torch, NumPy and SciPy are installed.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import warnings
import zlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from filelock import FileLock, Timeout
from typing_extensions import TypedDict

from mtgcn.errors import InputError
from mtgcn.experiments.protocol import RANDOM
from mtgcn.memory import check_fits
from mtgcn.splits import LARGEST_SEED
from mtgcn.storage.files import read_plain

if TYPE_CHECKING:
    from pydantic import ConfigDict, TypeAdapter, ValidationError

FORMAT: Final = 3  # format of stored rows and curves
ROWS_FILE, LOCK_FILE = "rows.jsonl", ".lock"
PACKED_ROWS_FILE = f"{ROWS_FILE}.gz"  # read but never written

# Fields that are equal for all rows of a unit; only some units are of a comparison.
SHARED_IN_A_UNIT = (
    *("dataset", "split", "method", "settings", "seed", "protocol", "validation", "runs", "averages", "table", "line"),
    "comparison",
)
STORED: ConfigDict = {"strict": True, "extra": "forbid", "allow_inf_nan": False}


class Constrained:
    """Limits of a stored value as in pydantic's core schemas, like `pydantic.Field` without importing pydantic."""

    def __init__(self, **limits: object) -> None:
        self.limits = limits

    def __get_pydantic_core_schema__(self, source: object, handler: Callable[[object], dict[str, object]]) -> object:
        return handler(source) | self.limits


Count = Annotated[int, Constrained(ge=0, le=2**31)]


class GraphCounts(TypedDict):
    """Size of a graph."""

    nodes: Count
    edges: Count
    features: Count
    classes: Count


@dataclass(frozen=True)
class ResultRow:
    """The scores of one method on one split, with everything needed to repeat the run."""

    dataset: str
    # One number if it is the same for all classes, or the mean if labels are drawn over all classes.
    labels_per_class: Count | Annotated[tuple[Count, ...], Constrained(min_length=1)]
    split: str  # "random", "over-all", "public" or the path of a split file
    method: str
    settings: dict[str, Any]
    run: Count
    seed: Annotated[int, Constrained(ge=0, le=LARGEST_SEED)]  # seed of the cell; with `run` it gives the seed of a run
    accuracy: float
    macro_f1: float
    calibration_error: float
    seconds: Annotated[float, Constrained(ge=0)]  # wall time of fitting the cell, divided by its runs
    device: str
    threads: Count
    versions: dict[str, str]
    # Runs of a cell with the same number share random parts, such as an embedding; None: no shared parts.
    group: Count | None = field(default=None, kw_only=True)
    balanced_accuracy: float | None = field(default=None, kw_only=True)  # None in rows of earlier releases
    roc_auc: float | None = field(default=None, kw_only=True)  # None unless there are two classes
    average_precision: float | None = field(default=None, kw_only=True)  # for the rarer of two classes

    def __post_init__(self) -> None:
        if "mtgcn" not in self.versions:
            raise ValueError("mtgcn is missing in its versions")


@dataclass(frozen=True)
class StoredRow(ResultRow):
    """A row of `rows.jsonl`: a result, its unit of work and its place in the tables."""

    __pydantic_config__: ClassVar[ConfigDict] = STORED

    unit: str  # hash of everything that decides the numbers; rows fitted together share it
    protocol: Literal["ours", "paper"]
    validation: Count  # nodes set aside and not scored
    runs: Count  # number of rows of this unit
    averages: Count  # the authors divide their runs into averages and print the largest
    table: str = ""  # name of the table and title of the line that the unit fills; "" in a comparison
    line: str = ""
    format: Literal[3] = FORMAT


@dataclass(frozen=True)
class ComparedRow(StoredRow):
    """A row of `mtgcn run` or `mtgcn compare`."""

    comparison: str = field(kw_only=True)  # hash of graph, splits and versions; rows that share it may be paired
    scored_nodes: Count = field(kw_only=True)
    graph: GraphCounts = field(kw_only=True)


Rows = tuple[StoredRow, ...]  # rows of one unit


def read_units(folder: Path) -> dict[str, Rows]:
    """The rows of every complete unit in a folder, by unit. Safe while a sweep is writing there."""
    path, packed = folder / ROWS_FILE, folder / PACKED_ROWS_FILE
    if not path.exists() and not packed.exists():
        raise InputError(f"{folder} holds no {ROWS_FILE}; run mtgcn reproduce --out {folder} first")
    units = _scan(packed, unpacked(packed))[0] if packed.exists() else {}
    return units | (_scan(path, content_of(path))[0] if path.exists() else {})


def unpacked(path: Path) -> bytes:
    """The content of a gzip file. Checks that it fits into memory, since a few bytes can expand without bound."""
    try:
        packed = read_plain(path)
        with gzip.open(io.BytesIO(packed)) as file:
            size = sum(len(part) for part in iter(lambda: file.read(1 << 24), b""))
        check_fits(4 * size, f"{path}, unpacked,", "is it a file of rows?")  # for text, lines and rows
        return gzip.decompress(packed)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be unpacked: {error}; restore the file from a copy") from error


def content_of(path: Path) -> bytes:
    """The content of a file."""
    try:
        return read_plain(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; check path and permissions") from error


class Store:
    """A folder of rows, as a context manager that locks it against other writers."""

    def __init__(self, folder: Path, warn: Callable[[str], None] = warnings.warn) -> None:
        self.folder, self.path, self._warn = folder, folder / ROWS_FILE, warn
        self._lock = FileLock(folder / LOCK_FILE, thread_local=False)
        self.units: dict[str, Rows] = {}  # the rows of every complete unit

    def __enter__(self) -> Store:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(blocking=False)
        except Timeout:
            raise InputError(
                f"another process is writing to {self.folder}; wait for it, or choose another --out"
            ) from None
        except OSError as error:
            raise InputError(f"cannot write into {self.folder}: {error.strerror}; choose another --out") from error
        with ExitStack() as opened:
            opened.callback(self._lock.release)
            try:
                self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
                opened.callback(os.close, self._file)
                content = content_of(self.path)
                self.units, complete = _scan(self.path, content)
                if complete < len(content):
                    self._warn(
                        f"the end of {self.path} was incomplete, as after a crash; its last {len(content) - complete} "
                        "bytes were removed and will be computed again"
                    )
                    os.ftruncate(self._file, complete)
                    os.fsync(self._file)
            except OSError as error:
                raise InputError(f"cannot write {self.path}: {error.strerror}; choose another --out") from error
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def append(self, rows: Sequence[StoredRow]) -> None:
        """Store all rows of one unit, or none of them."""
        text = "".join(json.dumps(asdict(row), allow_nan=False) + "\n" for row in rows)
        size = os.fstat(self._file).st_size
        try:
            left = memoryview(text.encode())
            while left:
                left = left[os.write(self._file, left) :]
            os.fsync(self._file)
        except OSError as error:
            with suppress(OSError):  # otherwise the next sweep removes the incomplete end
                os.ftruncate(self._file, size)
            raise InputError(
                f"cannot write to {self.path}: {error.strerror}; make room there and start the same command again; "
                "finished units are kept"
            ) from error
        self.units[rows[0].unit] = tuple(rows)


def _scan(path: Path, content: bytes) -> tuple[dict[str, Rows], int]:
    """The complete units of a file, and the position where the last of them ends."""
    units: dict[str, Rows] = {}
    begun: list[StoredRow] = []
    position = complete = 0
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        position += len(line)
        row = _parsed(line, path, number)
        if row is None or row.run != len(begun) or (begun and row.unit != begun[0].unit):
            # A crash damages only the end. Other damage has another cause and must not be repaired by deletion.
            if any(_parsed(rest, path, number) for rest in content[position:].splitlines(keepends=True)):
                raise InputError(
                    f"line {number} of {path} is damaged or misplaced, and rows follow it; "
                    "restore the file from a copy, or choose another --out"
                )
            break
        begun.append(row)
        # In other splits the number of labels per class differs between runs.
        shared = (*SHARED_IN_A_UNIT, *(["labels_per_class"] if row.split == RANDOM else []))
        for name in shared:
            if getattr(row, name, None) != getattr(begun[0], name, None):
                raise _no_row(path, number, f"its {name} differs from its unit")
        if len(begun) == row.runs:
            units.setdefault(row.unit, tuple(begun))
            complete = position
            begun = []
    return units, complete


@cache
def _adapter() -> TypeAdapter[StoredRow]:
    """The parser of rows, built at the first use, since building takes longer than reading a small file."""
    from pydantic import Discriminator, Tag, TypeAdapter

    def kind(content: Any) -> str:
        return "comparison" if isinstance(content, dict) and "comparison" in content else "sweep"

    return TypeAdapter(
        Annotated[Annotated[StoredRow, Tag("sweep")] | Annotated[ComparedRow, Tag("comparison")], Discriminator(kind)]
    )


def _parsed(line: bytes, path: Path, number: int) -> StoredRow | None:
    """The row of a line; None if the line is incomplete or not a row."""
    from pydantic import ValidationError

    if not line.endswith(b"\n"):
        return None
    try:
        return _adapter().validate_json(line)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
        if any(one["type"] in ("json_invalid", "dataclass_type") for one in problems):
            return None
        check_format(error, path)
        if any(one["type"] == "missing" and len(one["loc"]) == 2 for one in problems):
            return None
        raise _no_row(path, number, described(error)) from error


def described(error: ValidationError) -> str:
    """The first problem of a stored record: where, what and which value."""
    problem = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(map(str, problem["loc"][1:])) or "it"  # without the kind or number of the record
    return f"{where} is {str(problem['input'])[:60]!r}: {problem['msg']}"


def check_format(error: ValidationError, path: Path) -> None:
    """Refuse a record of another format."""
    for problem in error.errors(include_url=False):
        if problem["loc"][-1:] == ("format",):
            raise InputError(
                f"{path} has format {str(problem['input'])[:20]}, and this mtgcn reads format {FORMAT}; run the "
                "experiment again, or use the version of mtgcn that wrote it"
            ) from None


def _no_row(path: Path, number: int, why: str) -> InputError:
    remedy = "restore the file from a copy, or choose another --out"
    return InputError(f"line {number} of {path} is not a row that mtgcn wrote ({why}); {remedy}")
