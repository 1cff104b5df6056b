"""`mtgcn fit`: read, check, fit, estimate the accuracy, write. Nothing is written before all else succeeded."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components

from mtgcn.environment import chosen_device, device_title
from mtgcn.errors import InputError
from mtgcn.estimator.graph_model import DEFAULT_METHOD, GraphModel
from mtgcn.estimator.persistence import FILES, check_destination, save_model
from mtgcn.io.options import TableOptions
from mtgcn.linalg.structural_features import DIMENSIONS
from mtgcn.memory import free_bytes, is_out_of_memory, readable
from mtgcn.methods import Method, method_from_text, name_of
from mtgcn.report.progress import fitting_progress
from mtgcn.splits import Split, check_seed
from mtgcn.storage.files import check_file, write_file
from mtgcn.task import Task, observe
from mtgcn.uncertainty.held_out import ExpectedAccuracy, check_folds, expected_accuracy, why_not_measurable
from mtgcn.uncertainty.peer_weights import (
    PeerContribution,
    accuracy_of_features,
    contributions,
    teaching_remark,
    who_decides,
)
from mtgcn.uncertainty.warnings import label_warnings
from mtgcn.workflows.inputs import check_labels, read_graph
from mtgcn.workflows.output import collected_notes

if TYPE_CHECKING:
    from mtgcn.graph import Graph

MAX_CLASSES_LISTED = 20
MAX_COLUMNS_LISTED = 20
MAX_PEERS_LISTED = 4
WIDTH_SETTINGS = ("hidden_channels", "dimensions")  # memory grows with them; a method has one or none

Expectation = tuple[ExpectedAccuracy | None, str | None]  # the estimate, or why there is none


@dataclass(frozen=True)
class Coverage:
    """How many nodes are connected to a labelled node."""

    components: int
    components_with_labels: int
    nodes_without_labels: int  # nodes in components without any label
    isolated_nodes: int


@dataclass(frozen=True)
class FitSummary:
    """What `mtgcn fit --json` prints. With --check, what a fit would start from: the fields after `warnings`, and
    `expected_accuracy`, are None."""

    nodes: int
    edges: int
    features: int
    columns: Sequence[str]  # how each column of the node table is used, a line each
    coverage: Coverage
    labels: Mapping[str, int]  # labels per class
    method: str
    device: str
    expected_accuracy: ExpectedAccuracy | None
    why_no_expected_accuracy: str | None
    notes: Sequence[str]  # what reading changed: edges made undirected, for instance
    warnings: Sequence[str]  # why predictions may be unreliable
    epochs: int | None = None
    seconds: float | None = None
    mean_confidence: float | None = None
    peers: Sequence[PeerContribution] | None = None  # largest weight first; None for methods without peer weights
    teaching: float | None = None  # strength of mutual teaching, 0 to 1
    model: str | None = None
    report: str | None = None


def fit_files(
    files: TableOptions,
    *,
    out: Path | None = None,
    report: Path | None = None,
    check: bool = False,
    method: str | None = None,
    settings: Sequence[str] = (),
    classes: Sequence[str] | None = None,
    folds: int = 5,
    seed: int = 0,
    device: str = "auto",
) -> FitSummary:
    """Fit a model on these files and write it to the folder `out`, and a page about it to `report`.

    With `check`, everything is read and checked, and nothing is fitted or written.
    """
    check_folds(folds)
    check_seed(seed)
    torch_device = chosen_device(device)
    chosen = method_from_text(method or DEFAULT_METHOD, settings)
    if out is not None:
        check_destination(out)
        check_page(report, out)
    elif not check:
        raise InputError("no folder for the model; give --out, or --check to only see what would be done")
    with collected_notes() as notes:
        graph = read_graph(files)
        check_labels(graph, classes)
        if check:
            check_memory(graph, chosen, torch_device)
        else:
            model = GraphModel(chosen, neighbors=files.knn or 10, metric=files.metric, device=device, random_state=seed)
            with within_memory(graph, chosen, torch_device):
                started = perf_counter()
                with fitting_progress(f"fitting {name_of(chosen)}"):
                    model.fit_graph(graph)
                seconds = perf_counter() - started
                expected = expectation(model, seed, torch_device, folds)
    if check or out is None:
        why_not = why_not_measurable(graph, chosen, folds) if folds else "not measured, as asked"
        return _graph_summary(graph, chosen, torch_device, (None, why_not), notes, label_warnings(graph))
    summary = summary_of(model, seconds, expected, notes, out, report)
    page = None if report is None else _page(model, expected, notes)
    save_model(model, out, training=for_the_card(summary))
    if report is not None and page is not None:
        try:
            write_file(report, page)
        except InputError as error:
            raise InputError(f"{error}. The model is written; mtgcn report {out} makes the page") from error
    return summary


def check_page(report: Path | None, model: Path) -> None:
    """Refuse a page that cannot be written, or that would overwrite a file of the model."""
    if report is None:
        return
    check_file(report)
    real, folder = os.path.realpath(report), os.path.realpath(model)
    if real == folder or real in {os.path.join(folder, name) for name in FILES}:
        raise InputError(f"the page {report} would overwrite the model; give another file")


def expectation(model: GraphModel, seed: int, device: torch.device, folds: int) -> Expectation:
    """The cross-validated accuracy of the model, or why it is not estimated."""
    if folds == 0:
        return None, "not measured, as asked (--folds 0)"
    why_not = why_not_measurable(model.graph_, model.method_, folds)
    if why_not:
        return None, why_not
    with fitting_progress("measuring accuracy on held-out labels"):
        return expected_accuracy(model.graph_, model.method_, seed=seed, device=device, folds=folds), None


def _page(model: GraphModel, expected: Expectation, notes: Sequence[str]) -> str:
    from mtgcn.report.fit_page import Background, fit_html

    return fit_html(model, Background(*expected, notes))


# Summary


def summary_of(
    model: GraphModel,
    seconds: float,
    expected: Expectation,
    notes: Sequence[str],
    out: Path,
    report: Path | None = None,
) -> FitSummary:
    """The summary of a fit that is to be written to `out`."""
    peers = model.peer_report_
    return replace(
        _graph_summary(model.graph_, model.method_, chosen_device(model.device), expected, notes, model.warnings_),
        epochs=int(model.n_iter_),
        seconds=seconds,
        mean_confidence=mean_confidence(model),
        peers=None if peers is None else contributions(peers),
        teaching=None if peers is None else float(peers.teaching[0]),
        model=str(out),
        report=None if report is None else str(report),
    )


def _graph_summary(
    graph: Graph,
    method: Method,
    device: torch.device,
    expected: Expectation,
    notes: Sequence[str],
    warnings: Sequence[str],
) -> FitSummary:
    return FitSummary(
        nodes=graph.num_nodes,
        edges=graph.num_edges,
        features=graph.num_features,
        columns=columns_of(graph),
        coverage=label_coverage(graph),
        labels=dict(zip(graph.class_names, graph.label_counts.tolist(), strict=True)),
        method=name_of(method),
        device=device_title(device),
        expected_accuracy=expected[0],
        why_no_expected_accuracy=expected[1],
        notes=notes,
        warnings=warnings,
    )


def for_the_card(summary: FitSummary) -> dict[str, object]:
    """The part of a summary that the model's card keeps."""
    in_card_already = {"nodes", "edges", "features", "labels", "method", "epochs", "model", "report"}
    return {key: value for key, value in asdict(summary).items() if key not in in_card_already}


def columns_of(graph: Graph) -> list[str]:
    """How each column of the node table is used, a line each."""
    return [] if graph.preprocessing is None else graph.preprocessing.lines()


def label_coverage(graph: Graph) -> Coverage:
    """Count the components of the graph that contain a label."""
    count, component = connected_components(graph.adjacency, directed=False)
    covered = np.zeros(count, dtype=bool)
    covered[component[graph.known]] = True
    sizes = np.bincount(component, minlength=count)
    return Coverage(
        components=count,
        components_with_labels=int(covered.sum()),
        nodes_without_labels=int(sizes[~covered].sum()),
        isolated_nodes=int((sizes == 1).sum()),
    )


def mean_confidence(model: GraphModel) -> float:
    """Mean probability of the predicted class over the unlabelled nodes."""
    return float(model.label_distributions_[model.labeled_iter_ != 0].max(axis=1).mean())


def summary_lines(summary: FitSummary) -> Iterator[str]:
    """The summary as text, a line each."""
    reach = summary.coverage
    features = _count(summary.features, "feature") if summary.features else "no features"
    yield f"graph       {_count(summary.nodes, 'node')}, {_count(summary.edges, 'edge')}, {features}"
    yield (
        f"components  {reach.components}, {reach.components_with_labels} with labels; "
        f"{_count(reach.nodes_without_labels, 'node')} in components without labels, {reach.isolated_nodes} isolated"
    )
    yield f"labels      {by_class(summary.labels)}"
    for line in summary.columns[:MAX_COLUMNS_LISTED]:
        yield f"column      {line}"
    if (more := len(summary.columns) - MAX_COLUMNS_LISTED) > 0:
        yield f"column      … and {more} more; --json lists all"
    if summary.model is None:
        yield f"would fit   {summary.method} on {summary.device}"
        why_not = summary.why_no_expected_accuracy
        yield f"accuracy    would be {'cross-validated' if why_not is None else f'unknown: {why_not}'}"
    else:
        yield fitted_line(summary)
        yield f"confidence  {100 * (summary.mean_confidence or 0):.1f} % on average over unlabelled nodes"
        yield f"accuracy    {accuracy_text(summary)}"
        yield from (f"peers       {line}" for line in _peer_lines(summary))
    yield from remark_lines(summary)
    if summary.model is None:
        yield "checked     nothing was fitted or written; to fit, give --out instead of --check"
    else:
        yield f"model       {summary.model}"
    if summary.report:
        yield f"report      {summary.report}"


def fitted_line(summary: FitSummary) -> str:
    """Method, iterations, seconds and device."""
    return f"fitted      {summary.method}, {summary.epochs} iterations, {summary.seconds:.1f} s on {summary.device}"


def remark_lines(summary: FitSummary) -> Iterator[str]:
    """The notes and warnings of a summary."""
    yield from (f"note        {note}" for note in summary.notes)
    yield from (f"warning     {warning}" for warning in summary.warnings)


def by_class(counts: Mapping[str, int]) -> str:
    """The total of these labels, and the number of each class."""
    if not (total := sum(counts.values())):
        return "0"
    listed = ", ".join(f"{name} {count}" for name, count in list(counts.items())[:MAX_CLASSES_LISTED])
    more = len(counts) - MAX_CLASSES_LISTED
    return f"{total}: {listed} and {more} more" if more > 0 else f"{total}: {listed}"


def accuracy_text(summary: FitSummary) -> str:
    """The cross-validated accuracy with its interval, or why there is none."""
    expected = summary.expected_accuracy
    if expected is None:
        return f"not known: {summary.why_no_expected_accuracy}"
    low, high = (round(100 * end) for end in expected.ci95)
    return (
        f"{100 * expected.accuracy:.0f} % expected (95 % interval {low} to {high}), cross-validated on "
        f"{expected.labels} labels in {expected.folds} folds"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _peer_lines(summary: FitSummary) -> Iterator[str]:
    """Peer weights with held-out accuracies, and a remark where the peers hardly taught each other."""
    if summary.peers is None or summary.teaching is None:
        return
    listed, others = summary.peers[:MAX_PEERS_LISTED], summary.peers[MAX_PEERS_LISTED:]
    yield who_decides(summary.peers)
    weights = ", ".join(_peer_weight(peer, first=peer is listed[0]) for peer in listed)
    features = accuracy_of_features(others)
    yield (
        f"{weights}{f' and {len(others)} more' if others else ''}"
        f"{'' if features is None else f'; features alone {100 * features:.0f} %'}"
    )
    if remark := teaching_remark(summary.teaching):
        yield remark


def _peer_weight(peer: PeerContribution, *, first: bool) -> str:
    """The first peer also names what the two numbers are."""
    weight = f"{peer.name} {'weight ' if first else ''}{100 * peer.weight:.0f} %"
    if peer.held_out_accuracy is None:
        return weight
    return f"{weight} ({'held-out accuracy ' if first else ''}{100 * peer.held_out_accuracy:.0f} %)"


# Memory


@contextmanager
def within_memory(graph: Graph, method: Method, device: torch.device) -> Iterator[None]:
    """Refuse a fit that needs more memory than is free; if memory runs out all the same, say what would fit."""
    task, needed, free = check_memory(graph, method, device)
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise InputError(
            f"out of memory while fitting {task.num_nodes} nodes, with {readable(free)} free on {device.type} at the "
            f"start; {_what_would_fit(method, task, min(needed, free) // 2)}"
        ) from error


def check_memory(graph: Graph, method: Method, device: torch.device) -> tuple[Task, int, int]:
    """Refuse a fit that needs more memory than is free. Returns the task, the bytes needed and the bytes free."""
    task = observe(graph, [Split(graph.known, graph.known[:0], graph.known[:0])], seed=0, device=device)
    needed, free = needed_bytes(method, task), available_bytes(device)
    if needed > free:
        raise InputError(
            f"out of memory: fitting {task.num_nodes} nodes takes about {readable(needed)} and {readable(free)} are "
            f"free on {device.type}; {_what_would_fit(method, task, free)}"
        )
    return task, needed, free


def needed_bytes(method: Method, task: Task) -> int:
    """Estimate of the memory that fitting one run takes, beside the graph."""
    # Training keeps scaled copies of edges and features, and the features smoothed over the edges.
    edges, features = _bytes_of(task.graph.adjacency), _bytes_of(task.graph.features)
    if task.graph.features is None and method.uses_features:
        features = task.num_nodes * DIMENSIONS * np.float32().nbytes  # computed from the edges
    return method.bytes_per_run(task) + method.shared_bytes(task) + edges + 2 * features


def _bytes_of(matrix: sp.csr_array | np.ndarray | None) -> int:
    if matrix is None:
        return 0
    if isinstance(matrix, np.ndarray):
        return matrix.nbytes
    return matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes


def available_bytes(device: torch.device) -> int:
    """Free memory of a device; on a CPU within the limits of the container and the process."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else free_bytes()


def _what_would_fit(method: Method, task: Task, budget: int) -> str:
    choices = [f"a graph of about {int(task.num_nodes * budget / needed_bytes(method, task))} nodes"]
    for setting in WIDTH_SETTINGS:
        width = getattr(method, setting, 0)
        while (width := width // 2) >= 2:
            if needed_bytes(replace(method, **{setting: width}), task) <= budget:
                choices.insert(0, f"--set {setting}={width}")
                break
    return f"what would fit: {' or '.join(choices)}"
