"""`mtgcn.compare`: methods on the same splits of a graph, shown as table, data frame, LaTeX, figure or page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import warn

import torch

from mtgcn.environment import chosen_device
from mtgcn.errors import InputError
from mtgcn.experiments.compare import ComparedRows, Comparison, compared_rows, comparison_of
from mtgcn.experiments.protocol import RANDOM
from mtgcn.experiments.scoring import FittingProgress, silent_fitting
from mtgcn.graph import Graph
from mtgcn.methods import METHODS, Method, as_method, create, typed_method_class
from mtgcn.storage.files import write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

DEFAULT_METHODS = ("gcn", "mt-gcn", "mt-plus")


def compare(
    graph: Graph,
    methods: Iterable[Any] | Mapping[str, Any] = DEFAULT_METHODS,
    labels_per_class: int | Sequence[int] | None = None,
    runs: int | None = None,
    seed: int = 0,
    *,
    split: str | Path = RANDOM,
    reference: str | None = None,
    device: str | torch.device = "auto",
    verbose: bool = False,
) -> ComparisonResults:
    """Fit and score methods on the same splits of a graph, as `mtgcn compare` does.

    Parameters
    ----------
    methods : names, method objects or classes (frozen dataclasses with `fit(task)`), or a mapping from names to these
    split : "random", "over-all", "public" or a split file; labelled nodes outside the training set are test nodes
    reference : the method the others are compared with; by default mt-plus, mt-gcn or the first

    >>> import networkx
    >>> club = Graph.from_networkx(networkx.karate_club_graph(), label="club", name="karate")
    >>> results = compare(club, methods=["lp", "gcn"], labels_per_class=1, runs=5)
    >>> lp, gcn = results.comparison.cells
    >>> round(lp.accuracy.mean, 2)
    0.97
    """
    if not isinstance(graph, Graph):
        raise InputError(
            f"graph is a {type(graph).__name__}; give a Graph that holds labels, by Graph.from_pyg, from_networkx, "
            "from_scipy, mtgcn.read_graph or mtgcn.load"
        )
    progress: FittingProgress = silent_fitting
    if verbose:
        from mtgcn.report.progress import fitting_progress

        progress = fitting_progress
    rows = compared_rows(
        graph,
        _named(methods),
        split=str(split),
        labels_per_class=labels_per_class,
        runs=runs,
        seed=seed,
        device=chosen_device(device) if isinstance(device, str) else device,
        reference=reference,
        progress=progress,
    )
    results = ComparisonResults(rows, comparison_of(rows, reference))
    for warning in results.comparison.warnings:
        warn(warning, UserWarning, stacklevel=2)
    return results


@dataclass(frozen=True, eq=False, repr=False)
class ComparisonResults:
    """Results of a comparison, displayed as a table in terminals and notebooks."""

    rows: Mapping[str, ComparedRows]  # one per run, by method
    comparison: Comparison  # means, intervals and paired differences

    def table(self) -> str:
        """Plain text, one line per method: accuracy in per cent, 95 % interval, difference from the reference."""
        from mtgcn.report.comparisons import comparison_table
        from mtgcn.report.tables import plain_text

        return plain_text(comparison_table(self.comparison))

    def to_pandas(self) -> DataFrame:
        """One row per method and run; accuracy, macro F1 and calibration error between 0 and 1."""
        try:
            import pandas as pd
        except ImportError:
            raise InputError("pandas is not installed; pip install pandas, or take .rows") from None
        kept = (
            *("dataset", "labels_per_class", "split", "method", "run", "seed", "accuracy", "macro_f1"),
            *("calibration_error", "scored_nodes", "seconds", "device"),
        )
        rows = [[getattr(row, key) for key in kept] for some in self.rows.values() for row in some]
        return pd.DataFrame(rows, columns=list(kept))

    def to_latex(self, path: str | Path | None = None) -> str:
        r"""A table for `\input` that needs the package booktabs; also written to `path` if given."""
        from mtgcn.report.comparisons import comparison_tables

        text = comparison_tables([self.comparison])
        if path is not None:
            write_file(path, text)
        return text

    def plot(self) -> Figure:
        """A matplotlib figure of the accuracy of every run, with means and intervals."""
        from mtgcn.report.comparisons import comparison_figure

        return comparison_figure(self.comparison)

    def report(self, path: str | Path) -> Path:
        """Write an HTML page and return its path."""
        from mtgcn.report.comparisons import comparison_page

        return write_file(path, comparison_page([self.comparison]))

    def to_dict(self) -> dict[str, Any]:
        """The object that `mtgcn compare --json` prints."""
        return asdict(self.comparison)

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        from mtgcn.report.comparisons import comparison_table
        from mtgcn.report.pages import html

        return html(comparison_table(self.comparison))


def _named(methods: Iterable[Any] | Mapping[str, Any]) -> dict[str, Method]:
    if isinstance(methods, str):
        raise InputError(f"methods is the text {methods!r}; give a list, [{methods!r}]")
    if isinstance(methods, Mapping):
        return {name: _method(given)[1] for name, given in methods.items()}
    named: dict[str, Method] = {}
    for given in methods:
        name, method = _method(given)
        if name in named:
            raise InputError(f"two methods are called {name!r}; give a mapping from names of your own to methods")
        named[name] = method
    return named


def _method(given: Any) -> tuple[str, Method]:
    if isinstance(given, str):
        typed_method_class(given)
        return given, create(given)
    method = as_method(given() if isinstance(given, type) else given)
    name = next((name for name, kind in METHODS.items() if kind is type(method)), type(method).__name__)
    return name, method
