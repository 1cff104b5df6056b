"""`mtgcn fit --check`: read everything, say what would be done, fit nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mtgcn.environment import chosen_device, device_title
from mtgcn.estimator.fitting import DEFAULT_METHOD
from mtgcn.io.options import TableOptions
from mtgcn.methods import method_from_text
from mtgcn.uncertainty.expected_accuracy import why_not_measurable
from mtgcn.uncertainty.warnings import label_warnings
from mtgcn.workflows.inputs import check_learnable, read_graph
from mtgcn.workflows.memory_check import check_memory
from mtgcn.workflows.notes import collected_notes
from mtgcn.workflows.summary import (
    Coverage,
    column_lines,
    columns_of,
    graph_lines,
    label_counts,
    label_coverage,
    remark_lines,
)


@dataclass(frozen=True)
class CheckSummary:
    """What a fit would start from; what `mtgcn fit --check --json` prints."""

    nodes: int
    edges: int
    features: int
    columns: Sequence[str]
    coverage: Coverage
    labels: Mapping[str, int]
    method: str
    device: str
    why_no_expected_accuracy: str | None  # None: accuracy would be measured
    notes: Sequence[str]
    warnings: Sequence[str]


def check_files(
    files: TableOptions,
    *,
    method: str | None = None,
    settings: Sequence[str] = (),
    classes: Sequence[str] | None = None,
    folds: int = 5,
    seed: int = 0,
    device: str = "auto",
) -> CheckSummary:
    """What `fit_files` would do with the same arguments, up to the fit; whatever it would refuse is refused."""
    name = method or DEFAULT_METHOD
    torch_device = chosen_device(device)
    chosen = method_from_text(name, settings)
    with collected_notes() as notes:
        graph = read_graph(files)
        check_learnable(graph, classes)
        check_memory(graph, chosen, torch_device)
    return CheckSummary(
        nodes=graph.num_nodes,
        edges=graph.num_edges,
        features=graph.num_features,
        columns=columns_of(graph),
        coverage=label_coverage(graph),
        labels=label_counts(graph),
        method=name,
        device=device_title(torch_device),
        why_no_expected_accuracy=why_not_measurable(graph, chosen, folds) if folds else "not measured, as asked",
        notes=notes,
        warnings=label_warnings(graph),
    )


def check_lines(summary: CheckSummary) -> Iterator[str]:
    """The summary for a person to read."""
    yield from graph_lines(summary)
    yield from column_lines(summary.columns)
    yield f"would fit   {summary.method} on {summary.device}"
    why_not = summary.why_no_expected_accuracy
    known = "would be measured on held-out labels" if why_not is None else f"would not be known: {why_not}"
    yield f"accuracy    {known}"
    yield from remark_lines(summary)
    yield "checked     nothing was fitted, nothing written; leave out --check and give --out to fit"
