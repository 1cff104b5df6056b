"""Stored rows with chosen scores, for tests that fit nothing."""

from mtgcn import environment
from mtgcn.experiments.store import ComparedRow, StoredRow

FIELDS = {
    "dataset": "ring",
    "labels_per_class": 2,
    "split": "random",
    "method": "constant",
    "settings": {"favourite": 1},
    "run": 0,
    "seed": 0,
    "accuracy": 0.5,
    "macro_f1": 0.5,
    "calibration_error": 0.125,
    "seconds": 1.5,
    "device": "cpu",
    "threads": 1,
    "versions": environment.versions(),
    "unit": "unit",
    "protocol": "ours",
    "validation": 0,
    "runs": 1,
    "averages": 1,
}
COMPARED = {
    "comparison": "one",
    "scored_nodes": 100,
    "graph": {"nodes": 120, "edges": 300, "features": 5, "classes": 3},
}
OF_UNIT = (
    *("dataset", "labels_per_class", "split", "method", "seed", "device", "threads", "protocol", "validation"),
    *("runs", "averages", "table", "line"),
)


def stored_row(**changes) -> StoredRow:
    return StoredRow(**FIELDS | changes)


def compared_row(**changes) -> ComparedRow:
    return ComparedRow(**FIELDS | COMPARED | changes)


def rows_of(unit, accuracy=lambda run: 0.5 + 0.01 * run, **changes) -> tuple[StoredRow, ...]:
    """The rows of a unit of a plan."""
    kept = {name: getattr(unit, name) for name in OF_UNIT}
    shared = kept | {"unit": unit.id, "settings": unit.identity["settings"]} | changes
    return tuple(stored_row(**shared, run=run, accuracy=accuracy(run)) for run in range(unit.runs))
