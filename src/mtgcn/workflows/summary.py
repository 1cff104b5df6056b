"""What `mtgcn fit` tells about a fit: the graph, how the labels cover it, and how far to trust the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse.csgraph import connected_components

from mtgcn.uncertainty.expected_accuracy import ExpectedAccuracy
from mtgcn.uncertainty.peer_weights import PeerContribution, accuracy_of_features, teaching_remark, who_decides

if TYPE_CHECKING:
    from mtgcn.estimator.graph_model import GraphModel
    from mtgcn.graph import Graph
    from mtgcn.workflows.checking import CheckSummary

MOST_CLASSES_LISTED = 20  # more would push everything else off the screen
MOST_COLUMNS_LISTED = 20
MOST_PEERS_LISTED = 4


@dataclass(frozen=True)
class Coverage:
    """How far the labels reach along the edges."""

    components: int
    components_with_labels: int
    nodes_without_labels: int  # nodes whose whole component has no label
    isolated_nodes: int


@dataclass(frozen=True)
class FitSummary:
    """A fit in numbers; what `mtgcn fit --json` prints."""

    nodes: int
    edges: int
    features: int
    columns: Sequence[str]  # what was done with each column of the node table, a line each
    coverage: Coverage
    labels: Mapping[str, int]  # given, by class
    method: str
    epochs: int
    seconds: float
    device: str
    mean_confidence: float
    expected_accuracy: ExpectedAccuracy | None
    why_no_expected_accuracy: str | None
    peers: Sequence[PeerContribution] | None  # the largest vote first; None for methods whose votes have no weights
    teaching: float | None  # how much the peers taught each other, 0 to 1
    notes: Sequence[str]  # what reading did to the graph: edges made undirected, for instance
    warnings: Sequence[str]  # why the answer may be worth less than it looks
    model: str
    report: str | None


def label_coverage(graph: Graph) -> Coverage:
    """Which components have a label. Where there is none, only features speak."""
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


def label_counts(graph: Graph) -> dict[str, int]:
    return dict(zip(graph.class_names, graph.label_counts.tolist(), strict=True))


def mean_confidence(model: GraphModel) -> float:
    """Of the class predicted, over the nodes that were not given."""
    return float(model.label_distributions_[model.labeled_iter_ != 0].max(axis=1).mean())


def summary_lines(summary: FitSummary) -> Iterator[str]:
    """The summary for a person to read."""
    yield from graph_lines(summary)
    yield from column_lines(summary.columns)
    yield f"fitted      {summary.method}, {summary.epochs} epochs, {summary.seconds:.1f} s on {summary.device}"
    yield f"confidence  {100 * summary.mean_confidence:.1f} % on average, of the nodes that were not given"
    yield f"accuracy    {expected_words(summary)}"
    for line in _votes(summary):
        yield f"peers       {line}"
    yield from remark_lines(summary)
    yield f"model       {summary.model}"
    if summary.report:
        yield f"report      {summary.report}"


def graph_lines(summary: FitSummary | CheckSummary) -> Iterator[str]:
    """What was read: the graph, and how the labels cover it."""
    reach = summary.coverage
    yield f"graph       {_count(summary.nodes, 'node')}, {_count(summary.edges, 'edge')}, {_features(summary.features)}"
    yield (
        f"components  {reach.components}, of which {reach.components_with_labels} with labels; "
        f"{_count(reach.nodes_without_labels, 'node')} in those without, {reach.isolated_nodes} without any edge"
    )
    yield f"labels      {by_class(summary.labels)}"


def remark_lines(summary: FitSummary | CheckSummary) -> Iterator[str]:
    """What there is to remark, and to warn of."""
    for note in summary.notes:
        yield f"note        {note}"
    for warning in summary.warnings:
        yield f"warning     {warning}"


def columns_of(graph: Graph) -> list[str]:
    """What was done with each column that features were made of."""
    return [] if graph.preparation is None else graph.preparation.lines()


def column_lines(columns: Sequence[str]) -> Iterator[str]:
    """The first of them for a person to read."""
    for line in columns[:MOST_COLUMNS_LISTED]:
        yield f"column      {line}"
    more = len(columns) - MOST_COLUMNS_LISTED
    if more > 0:
        yield f"column      … and {more} more; --json lists all"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _features(number: int) -> str:
    return _count(number, "feature") if number else "no features"


def by_class(counts: Mapping[str, int]) -> str:
    """How many labels there are, and of which classes."""
    total = sum(counts.values())
    if not total:
        return "0"
    listed = ", ".join(f"{name} {count}" for name, count in list(counts.items())[:MOST_CLASSES_LISTED])
    more = len(counts) - MOST_CLASSES_LISTED
    return f"{total}: {listed} and {more} more" if more > 0 else f"{total}: {listed}"


def _votes(summary: FitSummary) -> Iterator[str]:
    """Who decides, who else has a say, and whether they learned from each other."""
    if summary.peers is None or summary.teaching is None:
        return
    listed, others = summary.peers[:MOST_PEERS_LISTED], summary.peers[MOST_PEERS_LISTED:]
    votes = [_vote(peer, first=peer is listed[0]) for peer in listed]
    more = f" and {len(others)} more" if others else ""
    features = accuracy_of_features(others)
    alone = "" if features is None else f"; features alone {100 * features:.0f} %"
    yield who_decides(summary.peers)
    yield f"{', '.join(votes)}{more}{alone}"
    remark = teaching_remark(summary.teaching)
    if remark:
        yield remark


def _vote(peer: PeerContribution, *, first: bool) -> str:
    """What the numbers are is said once."""
    vote = f"{peer.name} {100 * peer.weight:.0f} %{' of the vote' if first else ''}"
    if peer.held_out_accuracy is None:
        return vote
    return f"{vote} ({100 * peer.held_out_accuracy:.0f} %{' of held-out labels' if first else ''})"


def expected_words(summary: FitSummary) -> str:
    """How accurate the model will be, and how that is known."""
    expected = summary.expected_accuracy
    if expected is None:
        return f"not known: {summary.why_no_expected_accuracy}"
    low, high = (round(100 * end) for end in expected.ci95)
    return (
        f"{100 * expected.accuracy:.0f} % expected (95 % interval {low} to {high}), from predicting each of the "
        f"{expected.labels} labels without it, {expected.folds} folds"
    )
