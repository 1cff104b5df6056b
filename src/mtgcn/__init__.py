"""Classify the nodes of a graph from a handful of labels: MT-GCN and the methods it is compared with."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mtgcn._version import __version__

if TYPE_CHECKING:
    from mtgcn.comparison import compare
    from mtgcn.datasets import load
    from mtgcn.estimator.classifier import LabelFolds, MutualTeachingClassifier
    from mtgcn.graph import Graph
    from mtgcn.io.options import TableOptions
    from mtgcn.io.read import read_graph
    from mtgcn.methods import register
    from mtgcn.methods.mt_gcn import teaching_loss
    from mtgcn.uncertainty.warnings import FitWarning

__all__ = [
    "FitWarning",
    "Graph",
    "LabelFolds",
    "MutualTeachingClassifier",
    "TableOptions",
    "__version__",
    "compare",
    "load",
    "read_graph",
    "register",
    "teaching_loss",
]

# Imported when first asked for, so that `import mtgcn` and `mtgcn --help` cost next to nothing.
_HOME_OF = {
    "FitWarning": "mtgcn.uncertainty.warnings",
    "Graph": "mtgcn.graph",
    "LabelFolds": "mtgcn.estimator.classifier",
    "MutualTeachingClassifier": "mtgcn.estimator.classifier",
    "TableOptions": "mtgcn.io.options",
    "compare": "mtgcn.comparison",
    "load": "mtgcn.datasets",
    "read_graph": "mtgcn.io.read",
    "register": "mtgcn.methods",
    "teaching_loss": "mtgcn.methods.mt_gcn",
}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
