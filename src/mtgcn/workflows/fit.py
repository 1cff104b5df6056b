"""`mtgcn fit` and `label`: read and check files, fit, estimate the accuracy, and write the model if all succeeded."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp
import torch

from mtgcn.environment import chosen_device, device_title
from mtgcn.errors import InputError, unknown_name
from mtgcn.estimator.graph_model import (
    DEFAULT_METHOD,
    MEASURING,
    GraphModel,
    LabelChanges,
    chosen_method,
    measured_accuracy,
    measured_score,
    with_more_labels,
)
from mtgcn.estimator.inputs import NEIGHBORS, check_learnable, read_graph
from mtgcn.estimator.persistence import FILES, changing_model, check_destination, load_model, save_model
from mtgcn.experiments.scoring import SCORE_TITLES, SCORES, ExpectedScore, check_score
from mtgcn.io import read
from mtgcn.io.options import Column, TableOptions
from mtgcn.labels import UNLABELED, class_named
from mtgcn.linalg.structural_features import DIMENSIONS
from mtgcn.memory import check_address_space, free_bytes, is_out_of_memory, readable
from mtgcn.methods import Method, method_from_text, name_of
from mtgcn.methods.base import described_size
from mtgcn.report.progress import fitting_progress
from mtgcn.splits import Split, check_seed
from mtgcn.storage.files import check_file, write_file
from mtgcn.task import Task, observe
from mtgcn.uncertainty.held_out import ExpectedAccuracy, check_folds, why_not_measurable
from mtgcn.uncertainty.peer_weights import (
    PeerContribution,
    accuracy_of_features,
    contributions,
    teaching_remark,
    who_decides,
)
from mtgcn.uncertainty.warnings import components_without_label, label_warnings
from mtgcn.workflows.output import collected_files, collected_notes

if TYPE_CHECKING:
    from mtgcn.graph import Graph

MAX_CLASSES_LISTED = 20
MAX_COLUMNS_LISTED = 20
MAX_CORRECTIONS_LISTED = 5
MAX_PEERS_LISTED = 4
WIDTH_SETTINGS = ("hidden_channels", "dimensions")  # settings that determine memory; a method has at most one

Expectation = tuple[ExpectedAccuracy | None, str | None]  # the estimate, or why it is missing


@dataclass(frozen=True)
class Coverage:
    """How many nodes are connected to a labelled node."""

    components: int
    components_with_labels: int
    nodes_without_labels: int  # nodes in components without any label
    isolated_nodes: int


@dataclass(frozen=True)
class FitSummary:
    """Output of `mtgcn fit --json`. With --check, the fields that need a fit are None."""

    nodes: int
    edges: int
    features: int
    columns: Sequence[str]  # use of each column of the node table, one line each
    coverage: Coverage
    labels: Mapping[str, int]  # labels per class
    method: str
    device: str
    expected_accuracy: ExpectedAccuracy | None
    why_no_expected_accuracy: str | None
    notes: Sequence[str]  # notes on reading, for instance that edges were made undirected
    warnings: Sequence[str]  # why predictions may be unreliable
    epochs: int | None = None
    seconds: float | None = None  # reading and cross-validation included
    mean_confidence: float | None = None
    peers: Sequence[PeerContribution] | None = None  # largest weight first; None for methods without peer weights
    teaching: float | None = None  # strength of mutual teaching, 0 to 1
    model: str | None = None
    report: str | None = None
    expected_score: ExpectedScore | None = None  # score other than accuracy, if chosen
    files: Sequence[str] = ()  # detected type of each file, one line each


@dataclass(frozen=True)
class Refit:
    """A refit with more labels, compared with the fit before."""

    nodes_predicted_otherwise: int  # previously unlabelled nodes with a new prediction
    nodes_without_label_before: int
    mean_confidence_before: float
    expected_accuracy_before: Mapping[str, Any] | None
    fit: FitSummary


@dataclass(frozen=True)
class LabelSummary:
    """Output of `mtgcn label --json`."""

    changes: LabelChanges
    refit: Refit | None  # None if no label is new
    model: str


def fit_files(
    files: TableOptions,
    *,
    out: Path | None = None,
    report: Path | None = None,
    check: bool = False,
    method: str | None = None,
    settings: Sequence[str] = (),
    classes: Sequence[str] | None = None,
    folds: int | None = None,
    score: str = SCORES[0],
    class_prior: str | Mapping[str, float] | None = None,
    seed: int = 0,
    device: str = "auto",
) -> FitSummary:
    """Fit a model on these files, and write it to the folder `out` and an HTML page about it to `report`.

    With `check`, everything is read and checked, but nothing is fitted or written.
    """
    started = perf_counter()
    check_address_space()
    check_folds(folds)
    check_seed(seed)
    check_score(score)
    torch_device = chosen_device(device)
    chosen = method_from_text(method or DEFAULT_METHOD, settings)
    if out is not None:
        check_destination(out)
        if report is not None:
            check_file(report)
            real, folder = os.path.realpath(report), os.path.realpath(out)
            if real == folder or real in {os.path.join(folder, name) for name in FILES}:
                raise InputError(f"the page {report} would overwrite the model; give another file")
    elif not check:
        raise InputError("--out is missing; give a folder for the model, or --check for a dry run")
    with collected_notes() as notes, collected_files() as recognised:
        with fitting_progress("reading"):
            graph = read_graph(files)
        check_labels(graph, classes)
        check_score(score, graph.num_classes)
        if check:
            check_memory(graph, chosen, torch_device)
        else:
            k = files.knn or NEIGHBORS
            model = GraphModel(
                chosen, neighbors=k, metric=files.metric, class_prior=class_prior, device=device, random_state=seed
            )
            expected = _fit(model, graph, None, folds)
            expected_score = measured_score(model, folds, score)
    if class_prior is not None and not check:
        shares = model.label_distributions_.mean(axis=0)
        listed = ", ".join(f"{name} {100 * share:.1f} %" for name, share in zip(graph.class_names, shares, strict=True))
        notes.append(f"probabilities are corrected to the class shares {listed}; accuracy is measured without it")
    if check or out is None:
        why_not = "not measured, as asked" if folds == 0 else why_not_measurable(graph, chosen)
        expected = None, why_not
        return _summary(graph, chosen, torch_device, expected, notes, warnings=label_warnings(graph), files=recognised)
    summary = summary_of(
        model,
        expected,
        notes,
        seconds=perf_counter() - started,
        model=str(out),
        report=None if report is None else str(report),
        expected_score=expected_score,
        files=recognised,
    )
    if report is None:
        save_model(model, out, training=for_the_card(summary))
        return summary
    from mtgcn.report.fit_page import Background, fit_html

    page = fit_html(model, Background(*expected, notes, expected_score))
    save_model(model, out, training=for_the_card(summary))
    try:
        write_file(report, page)
    except InputError as error:
        raise InputError(f"{error}. The model was saved; mtgcn report {out} writes the page") from error
    return summary


def _fit(model: GraphModel, graph: Graph, classes: np.ndarray | None, folds: int | None) -> Expectation:
    """Fit, or refit with `classes`; returns the cross-validated accuracy."""
    method = chosen_method(model)
    with within_memory(graph, method, chosen_device(model.device)):
        with fitting_progress(f"fitting {name_of(method)}"):
            model.fit_graph(graph) if classes is None else model.fit_again(graph, classes)
        if folds == 0:
            return None, "not measured, as asked (--folds 0)"
        with fitting_progress(MEASURING):
            return measured_accuracy(model, folds)


def label_files(
    folder: Path,
    labels: Path,
    *,
    columns: Mapping[str, Column | Literal[False]] | None = None,
    new_classes: Sequence[str] = (),
    folds: int | None = None,
    device: str = "auto",
) -> LabelSummary:
    """Add the labels of a table to a stored model and refit it; the folder is replaced when the refit has succeeded."""
    started = perf_counter()
    check_folds(folds)
    chosen_device(device)
    with changing_model(folder):
        model = load_model(folder)
        model.device = device
        check_destination(folder)
        if not model.has_node_ids_ and not model.graph_.numbered:
            raise InputError("the nodes of this model have no ids, so labels cannot refer to them; fit it on files")
        before, predicted_before = model.training_, model.transduction_
        unlabeled = model.graph_.labels == UNLABELED
        with collected_notes() as notes:
            more = read_more_labels(labels, model.graph_, columns or {})
            new = [class_named(name, model.graph_.class_names) for name in new_classes]
            graph, classes, changes = with_more_labels(model, more, new)
            if not changes.any:
                return LabelSummary(changes, None, str(folder))
            check_labels(graph)
            confidence_before = mean_confidence(model)
            expected = _fit(model, graph, classes, folds)
            score = (before.get("expected_score") or {}).get("score", SCORES[0])
            expected_score = measured_score(model, folds, check_score(score))
        seconds = perf_counter() - started
        fit = summary_of(model, expected, notes, seconds=seconds, model=str(folder), expected_score=expected_score)
        kept_notes = [*before.get("notes", ()), *fit.notes]  # notes on the files of the first fit still apply
        save_model(model, folder, training=for_the_card(fit) | {"notes": kept_notes})
    refit = Refit(
        nodes_predicted_otherwise=int((model.transduction_ != predicted_before)[unlabeled].sum()),
        nodes_without_label_before=int(unlabeled.sum()),
        mean_confidence_before=confidence_before,
        expected_accuracy_before=before.get("expected_accuracy"),
        fit=fit,
    )
    return LabelSummary(changes, refit, str(folder))


# Labels


def read_more_labels(path: Path, graph: Graph, columns: Mapping[str, Column | Literal[False]]) -> dict[Any, str]:
    """The labels of a table by node id; all ids must be in the graph."""
    for role in columns:
        if role not in ("id", "label"):
            raise unknown_name("column role", role, ("id", "label"))
    codes, names = read.read_labels(path, graph.node_ids, TableOptions(columns=columns), graph.class_names)
    return {node: names[code] for node, code in zip(graph.node_ids.tolist(), codes, strict=True) if code != UNLABELED}


def check_labels(graph: Graph, classes: Sequence[str] | None = None) -> None:
    """Raise unless a fit can learn from the labels and has nodes to predict. `classes` are the expected ones."""
    if not len(graph.known):
        raise InputError("no row or node is labelled; name the class column with --target, or give --labels")
    names = graph.class_names if classes is None else [class_named(name, graph.class_names) for name in classes]
    for name in graph.class_names:
        if name not in names:
            raise InputError(
                f"a node is labelled {name!r}, which --classes does not list; add it, or correct the label"
            )
    counts = dict(zip(graph.class_names, graph.label_counts.tolist(), strict=True))
    check_learnable(names, [counts.get(name, 0) for name in names], graph.num_nodes)


# Summary


def summary_of(fitted: GraphModel, expected: Expectation, notes: Sequence[str], **facts: Any) -> FitSummary:
    """The summary of a fit; `facts` are further fields."""
    peers = fitted.peer_report_
    if peers is not None:
        facts |= {"peers": contributions(peers), "teaching": float(peers.teaching[0])}
    facts |= {"epochs": fitted.n_iter_, "mean_confidence": mean_confidence(fitted), "warnings": fitted.warnings_}
    return _summary(fitted.graph_, fitted.method_, chosen_device(fitted.device), expected, notes, **facts)


def _summary(
    graph: Graph, method: Method, device: torch.device, expected: Expectation, notes: Sequence[str], **facts: Any
) -> FitSummary:
    component, unlabelled = components_without_label(graph, graph.known)
    return FitSummary(
        nodes=graph.num_nodes,
        edges=graph.num_edges,
        features=graph.num_features,
        columns=[] if graph.preprocessing is None else graph.preprocessing.lines(),
        coverage=Coverage(
            components=len(unlabelled),
            components_with_labels=int(np.count_nonzero(unlabelled == 0)),
            nodes_without_labels=int(unlabelled.sum()),
            isolated_nodes=int((np.bincount(component) == 1).sum()),
        ),
        labels=dict(zip(graph.class_names, graph.label_counts.tolist(), strict=True)),
        method=name_of(method),
        device=device_title(device),
        expected_accuracy=expected[0],
        why_no_expected_accuracy=expected[1],
        notes=notes,
        **facts,
    )


def for_the_card(summary: FitSummary) -> dict[str, object]:
    """The part of a summary that is stored in the model card."""
    in_card_already = {"nodes", "edges", "features", "labels", "method", "epochs", "model", "report"}
    return {key: value for key, value in asdict(summary).items() if key not in in_card_already}


def mean_confidence(model: GraphModel) -> float:
    """Mean probability of the predicted class over the unlabelled nodes."""
    return float(model.label_distributions_[model.labeled_iter_ != 0].max(axis=1).mean())


def summary_lines(summary: FitSummary) -> Iterator[str]:
    """The summary as lines of text."""
    reach = summary.coverage
    features = _count(summary.features, "feature") if summary.features else "no features"
    yield f"graph       {_count(summary.nodes, 'node')}, {_count(summary.edges, 'edge')}, {features}"
    yield (
        f"components  {reach.components}, {reach.components_with_labels} with labels; "
        f"{_count(reach.nodes_without_labels, 'node')} in components without labels, {reach.isolated_nodes} isolated"
    )
    yield f"labels      {_by_class(summary.labels)}"
    yield from (f"file        {line}" for line in summary.files)
    for line in summary.columns[:MAX_COLUMNS_LISTED]:
        yield f"column      {line}"
    if (more := len(summary.columns) - MAX_COLUMNS_LISTED) > 0:
        yield f"column      … and {more} more; --json lists all"
    if summary.model is None:
        yield f"would fit   {summary.method} on {summary.device}"
        why_not = summary.why_no_expected_accuracy
        yield f"accuracy    would be {'cross-validated' if why_not is None else f'unknown: {why_not}'}"
    else:
        yield _fitted_line(summary)
        yield f"confidence  {100 * (summary.mean_confidence or 0):.1f} % on average over unlabelled nodes"
        yield from _accuracy_lines(summary)
        if summary.peers is not None and summary.teaching is not None:
            yield from (f"peers       {line}" for line in _peer_lines(summary.peers, summary.teaching))
    yield from _remark_lines(summary)
    if summary.model is None:
        yield "checked     nothing was fitted or written; to fit, give --out instead of --check"
    else:
        yield f"model       {summary.model}"
    if summary.report:
        yield f"report      {summary.report}"


def _fitted_line(summary: FitSummary) -> str:
    return f"fitted      {summary.method}, {summary.epochs} iterations, {summary.seconds:.1f} s on {summary.device}"


def _remark_lines(summary: FitSummary) -> Iterator[str]:
    yield from (f"note        {note}" for note in summary.notes)
    yield from (f"warning     {warning}" for warning in summary.warnings)


def _by_class(counts: Mapping[str, int]) -> str:
    """The number of labels, in total and per class."""
    if not (total := sum(counts.values())):
        return "0"
    listed = ", ".join(f"{name} {count}" for name, count in list(counts.items())[:MAX_CLASSES_LISTED])
    more = len(counts) - MAX_CLASSES_LISTED
    return f"{total}: {listed} and {more} more" if more > 0 else f"{total}: {listed}"


def _accuracy_lines(summary: FitSummary, before: str = "") -> Iterator[str]:
    """Lines with the expected accuracy and score, or why they are missing; `before` describes the previous fit."""
    expected = summary.expected_accuracy
    if expected is None:
        yield f"accuracy    not known: {summary.why_no_expected_accuracy}{before}"
    else:
        low, high = (round(100 * end) for end in expected.ci90)
        yield (
            f"accuracy    {100 * expected.accuracy:.0f} % expected (90 % interval {low} to {high}), cross-validated on "
            f"{expected.labels} labels in {_count(expected.folds, 'fold')}{before}"
        )
    if found := summary.expected_score:
        low, high = (round(100 * end) for end in found.ci95)
        title = SCORE_TITLES[found.score]
        yield f"score       {title} {100 * found.value:.0f} % expected (95 % interval {low} to {high})"
    if expected is not None and expected.gain is not None:
        yield f"labelling   {expected.gain}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _peer_lines(peers: Sequence[PeerContribution], teaching: float) -> Iterator[str]:
    """Peer weights with held-out accuracies, and a remark if teaching was weak."""
    yield who_decides(peers)
    weights: list[str] = []
    for peer in peers[:MAX_PEERS_LISTED]:
        weight, accuracy = ("", "") if weights else ("weight ", "held-out accuracy ")  # only with the first peer
        held_out = "" if (share := peer.held_out_accuracy) is None else f" ({accuracy}{100 * share:.0f} %)"
        weights.append(f"{peer.name} {weight}{100 * peer.weight:.0f} %{held_out}")
    others = peers[MAX_PEERS_LISTED:]
    more = f" and {len(others)} more" if others else ""
    features = accuracy_of_features(others)
    yield f"{', '.join(weights)}{more}{'' if features is None else f'; features alone {100 * features:.0f} %'}"
    if remark := teaching_remark(teaching):
        yield remark


def label_lines(summary: LabelSummary) -> Iterator[str]:
    """The summary as lines of text."""
    changes = summary.changes
    yield f"added       {_by_class(changes.added)}"
    yield from (f"new class   {name}" for name in changes.new_classes)
    for one in changes.corrected[:MAX_CORRECTIONS_LISTED]:
        yield f"corrected   {one.node}: {one.before} before, now {one.after}"
    if len(changes.corrected) > MAX_CORRECTIONS_LISTED:
        yield f"corrected   and {len(changes.corrected) - MAX_CORRECTIONS_LISTED} more"
    if changes.repeated:
        yield f"known       {changes.repeated} of the labels were already in the model"
    if summary.refit is None:
        yield f"model       {summary.model}, unchanged: no label is new"
        return
    refit, fit = summary.refit, summary.refit.fit
    yield f"labels      {_by_class(fit.labels)}"
    yield _fitted_line(fit)
    yield (
        f"changed     predictions of {refit.nodes_predicted_otherwise} of {refit.nodes_without_label_before} "
        "previously unlabelled nodes"
    )
    now, then = (f"{100 * share:.1f} %" for share in (fit.mean_confidence or 0, refit.mean_confidence_before))
    yield f"confidence  {now} on average over unlabelled nodes; {then} before"
    before = refit.expected_accuracy_before
    was = "; not known before" if fit.expected_accuracy else ""
    yield from _accuracy_lines(fit, was if before is None else f"; {100 * before['accuracy']:.0f} % before")
    yield from _remark_lines(fit)
    yield f"model       {fit.model}"


# Memory


@contextmanager
def within_memory(graph: Graph, method: Method, device: torch.device) -> Iterator[None]:
    """Raise before a fit that needs more memory than is free; after a later memory error, suggest a smaller setting."""
    task, needed, free = check_memory(graph, method, device)
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise InputError(
            f"out of memory while fitting {described_size(task)}, with {readable(free)} free on {device.type} at the "
            f"start; {_what_would_fit(method, task, min(needed, free) // 2)}"
        ) from error


def check_memory(graph: Graph, method: Method, device: torch.device) -> tuple[Task, int, int]:
    """Raise if a fit needs more memory than is free. Returns the task, the bytes needed and the bytes free."""
    task = observe(graph, [Split(graph.known, graph.known[:0], graph.known[:0])], seed=0, device=device)
    needed, free = needed_bytes(method, task), available_bytes(device)
    if needed > free:
        raise InputError(
            f"out of memory: fitting {described_size(task)} needs about {readable(needed)}, but {readable(free)} are "
            f"free on {device.type}; {_what_would_fit(method, task, free)}"
        )
    return task, needed, free


def needed_bytes(method: Method, task: Task) -> int:
    """Approximate memory (bytes) to fit one run, in addition to the graph."""
    # Training keeps scaled copies of edges and features, and the features smoothed over the edges.
    edges, features = _bytes_of(task.graph.adjacency), _bytes_of(task.graph.features)
    if task.graph.features is None and method.uses_features:
        features = task.num_nodes * DIMENSIONS * np.float32().nbytes  # computed from the edges
    return method.bytes_per_run(task) + method.shared_bytes(task) + edges + 2 * features


def _bytes_of(matrix: Any) -> int:  # csr_array | np.ndarray | None
    parts = [matrix.data, matrix.indices, matrix.indptr] if sp.issparse(matrix) else [matrix]
    return sum(part.nbytes for part in parts if part is not None)


def available_bytes(device: torch.device) -> int:
    """Free memory of a device; on a CPU, within the limits of the container and the process."""
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
