"""`mtgcn.compare`: methods on the same splits of a graph. Results are a table, data frame, LaTeX, figure or page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import warn

import torch

from mtgcn.environment import chosen_device
from mtgcn.errors import InputError
from mtgcn.estimator.graph_model import GraphModel, chosen_method
from mtgcn.experiments.compare import ComparedRows, Comparison, compared_rows, comparison_of
from mtgcn.experiments.protocol import PUBLIC, RANDOM
from mtgcn.experiments.scoring import MEASURES, SCORES, check_score
from mtgcn.graph import Graph
from mtgcn.methods import Method, as_method, create, name_of, typed_method_class
from mtgcn.methods.scikit_learn import Estimator
from mtgcn.report import comparisons, pages, progress, tables
from mtgcn.storage.files import write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

DEFAULT_METHODS = ("gcn", "mt-gcn", "mt-plus")


def compare(
    graph: Any,
    methods: Iterable[Any] | Mapping[str, Any] = DEFAULT_METHODS,
    labels_per_class: int | Sequence[int] | None = None,
    runs: int | None = None,
    seed: int = 0,
    *,
    split: Any = RANDOM,
    validation_per_class: int = 0,
    name: str | None = None,
    reference: str | None = None,
    score: str = SCORES[0],
    device: str | torch.device = "auto",
    verbose: bool = False,
) -> ComparisonResults:
    """Fit and score methods on the same splits of a graph, as `mtgcn compare` does.

    Parameters
    ----------
    graph : Graph, or a PyTorch Geometric `Data`, whose masks are its public split
    methods : names; method objects or classes (frozen dataclasses with `fit(task)`); scikit-learn classifiers, which
        see the features alone; networks for the peers of mt-gcn (`torch.nn.Module`); or a mapping from names to these
    split : "random", "over-all", "public", a split file, or arrays as in `mtgcn.experiments.scoring.given_splits`:
        training nodes or a mask, (train, test), (train, validation, test), a mapping, or a list of these, one per run.
        Labelled nodes outside the training set are test nodes unless test nodes are given
    validation_per_class : validation labels drawn from each class in addition to the training labels, for methods that
        use them; no method is scored on them. If 0, 500 nodes are drawn where a method needs validation
    name : name of the graph in captions
    reference : method that the others are compared with; by default mt-plus, mt-gcn or the first
    score : "accuracy", "balanced-accuracy", "macro-f1" or, for two classes, "roc-auc" or "average-precision"

    >>> import networkx
    >>> club = Graph.from_networkx(networkx.karate_club_graph(), label="club", name="karate")
    >>> results = compare(club, methods=["lp", "gcn"], labels_per_class=1, runs=5)
    >>> lp, gcn = results.comparison.cells
    >>> round(lp.accuracy.mean, 2)
    0.97
    """
    if hasattr(graph, "edge_index"):
        if isinstance(split, str) and split == PUBLIC and "train_mask" in graph:
            masks = {"train": "train_mask", "validation": "val_mask", "test": "test_mask"}
            split = {part: graph[mask] for part, mask in masks.items() if mask in graph}
        graph = Graph.from_pyg(graph)
    if not isinstance(graph, Graph):
        raise InputError(
            f"graph is a {type(graph).__name__}; give a PyG Data, or a Graph that holds labels, by from_networkx, "
            "from_scipy, mtgcn.read_graph or mtgcn.load"
        )
    check_score(score, graph.num_classes)
    graph = graph if name is None else replace(graph, name=name)
    rows = compared_rows(
        graph,
        _named(methods),
        split=str(split) if isinstance(split, Path) else split,
        labels_per_class=labels_per_class,
        runs=runs,
        seed=seed,
        validation_per_class=validation_per_class,
        device=chosen_device(device) if isinstance(device, str) else device,
        reference=reference,
        progress=progress.fitting_progress if verbose else nullcontext,
    )
    results = ComparisonResults(rows, comparison_of(rows, reference, score))
    for warning in results.comparison.warnings:
        warn(warning, UserWarning, stacklevel=2)
    return results


@dataclass(frozen=True, eq=False, repr=False)
class ComparisonResults:
    """Results of a comparison, displayed as a table in terminals and notebooks."""

    rows: Mapping[str, ComparedRows]  # one per run, by method
    comparison: Comparison  # means, intervals and paired differences

    def table(self) -> str:
        """Plain text, one line per method: score in per cent, 95 % interval, difference from the reference."""
        return tables.plain_text(comparisons.comparison_table(self.comparison))

    def to_pandas(self) -> DataFrame:
        """One row per method and run; scores between 0 and 1."""
        try:
            import pandas as pd
        except ImportError:
            raise InputError("pandas is not installed; pip install pandas, or use .rows") from None
        kept = ["dataset", "labels_per_class", "split", "method", "run", "seed", *MEASURES]
        kept += ["scored_nodes", "seconds", "device"]
        rows = [[getattr(row, key) for key in kept] for some in self.rows.values() for row in some]
        return pd.DataFrame(rows, columns=kept)

    def to_latex(self, path: str | Path | None = None) -> str:
        r"""A table for `\input` that needs the package booktabs; also written to `path` if given."""
        text = comparisons.comparison_tables([self.comparison])
        if path is not None:
            write_file(path, text)
        return text

    def plot(self) -> Figure:
        """A matplotlib figure of the score of every run, with means and intervals."""
        return comparisons.comparison_figure(self.comparison)

    def report(self, path: str | Path) -> Path:
        """Write an HTML page and return its path."""
        return write_file(path, comparisons.comparison_page([self.comparison]))

    def to_dict(self) -> dict[str, Any]:
        """The object that `mtgcn compare --json` prints."""
        return asdict(self.comparison)

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return pages.html(comparisons.comparison_table(self.comparison))


def _named(methods: Iterable[Any] | Mapping[str, Any]) -> dict[str, Method]:
    if isinstance(methods, str):
        raise InputError(f"methods={methods!r} is a string; give a list, [{methods!r}]")
    if isinstance(methods, Mapping):
        return {name: _method(given)[1] for name, given in methods.items()}
    named: dict[str, Method] = {}
    for given in methods:
        name, method = _method(given)
        if name in named:
            raise InputError(f"two methods are called {name!r}; give a mapping from unique names to methods")
        named[name] = method
    return named


def _method(given: Any) -> tuple[str, Method]:
    if isinstance(given, str):
        typed_method_class(given)
        return given, create(given)
    kind = given if isinstance(given, type) else type(given)
    if issubclass(kind, torch.nn.Module):
        return kind.__name__, create("mt-gcn", backbone=given)
    own = given() if isinstance(given, type) else given
    if isinstance(own, GraphModel):
        own = chosen_method(own)
    elif hasattr(own, "get_params") and hasattr(own, "fit"):
        return kind.__name__, Estimator(estimator=own)
    method = as_method(own)
    return name_of(method), method
