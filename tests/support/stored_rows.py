"""Stored rows with chosen scores, for tests that fit nothing."""

from mtgcn import environment
from mtgcn.experiments.store import ComparedRow, StoredRow

FIELDS = {"dataset": "ring", "labels_per_class": 2, "split": "random", "method": "constant"}
FIELDS |= {"settings": {"favourite": 1}, "run": 0, "seed": 0, "accuracy": 0.5, "macro_f1": 0.5}
FIELDS |= {"calibration_error": 0.125, "seconds": 1.5, "device": "cpu", "threads": 1}
FIELDS |= {"versions": environment.versions(), "unit": "unit", "protocol": "ours", "validation": 0, "runs": 1}
FIELDS |= {"averages": 1}
SIZES = {"nodes": 120, "edges": 300, "features": 5, "classes": 3}
COMPARED = {"comparison": "one", "scored_nodes": 100, "graph": SIZES}
BAND = {"mean": [0.1, None], "low": [0.05, None], "high": [0.2, None]}
MADE = {"dataset": "cora", "labels_per_class": 2, "settings": {"warmup_epochs": 200}, "runs": 10, "seed": 0}
MADE |= {"device": "cpu", "threads": 1, "every": 10, "versions": environment.versions()}
CURVES = {"made": MADE, "epochs": [10, 20], "accuracy": BAND, "losses": {"supervised": BAND}, "class_names": ["a"]}
CURVES |= {"precision": [BAND], "format": 3}  # one entry of a file of curves
OF_UNIT = (
    *("dataset", "labels_per_class", "split", "method", "seed", "device", "threads", "protocol", "validation"),
    *("runs", "averages", "table", "line"),
)


def stored_row(**changes):
    return StoredRow(**FIELDS | changes)


def compared_row(**changes):
    return ComparedRow(**FIELDS | COMPARED | changes)


def rows_of(unit, accuracy=lambda run: 0.5 + 0.01 * run, **changes):
    """The rows of a unit of a plan."""
    kept = {name: getattr(unit, name) for name in OF_UNIT}
    shared = kept | {"unit": unit.id, "settings": unit.identity["settings"]} | changes
    return tuple(stored_row(**shared, run=run, accuracy=accuracy(run)) for run in range(unit.runs))
