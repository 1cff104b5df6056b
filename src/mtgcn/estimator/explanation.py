"""Explanations of predictions: an exact decomposition for `mt-plus`; neighbours and nearby labels for other methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError, shown, unknown_name
from mtgcn.estimator.inference import state_of
from mtgcn.estimator.inputs import MISSING, positions_of_ids
from mtgcn.graph import Graph
from mtgcn.io.column_table import Texts
from mtgcn.io.encoder import EncodedColumn
from mtgcn.io.text import TextColumn
from mtgcn.labels import UNLABELED
from mtgcn.linalg.normalisation import normalized_adjacency
from mtgcn.linalg.structural_features import with_structural_features
from mtgcn.methods import name_of
from mtgcn.methods.mt_plus.explanation import LinearPart, PeerPart
from mtgcn.shapes import Float, Int

if TYPE_CHECKING:
    from pandas import DataFrame

    from mtgcn.estimator.graph_model import GraphModel

TOP = 10  # parts that are named in each table
NAMED = 3  # words and labels that are named in the sentence
WALK_STEPS, WALK_RESTART = 10, 0.15  # random walk that ranks labelled nodes for methods without parts
PEERS, COLUMNS, NODES, LABELS = "peers", "columns", "nodes", "labels"
PARTS_OF_WORDS = " (parts of words)"
NEIGHBOURS, NEAREST = "neighbours", "nearest labelled"


@dataclass(frozen=True)
class Part:
    """A part of a prediction."""

    name: str
    value: float  # summand of the difference between the two class probabilities, or of a peer's log-odds
    node: Any = None  # node id, if the part is a node
    label: str | None = None  # class of that node, given or predicted


@dataclass(frozen=True)
class PeerAnswer:
    """The prediction of a peer for the node."""

    name: str
    weight: float
    probability: float  # probability of the predicted class
    versus_probability: float
    log_odds: float
    split: bool  # whether the parts of its view are known; otherwise the view is a single part


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why a node has its class.

    Each of `tables` decomposes `margin`, the difference between two class probabilities, exactly: by peer, by feature
    column (of the node and its surroundings), by node whose features are read, or by label. The effect of temperature
    and class shares is a separate part, calibration. `peer_tables` decompose the log-odds of each peer.
    """

    node: Any  # id
    title: str
    predicted: str
    probability: float
    versus: str  # the other class of the comparison
    versus_probability: float
    given: str | None  # label in the fit
    neighbours_alike: int  # number of neighbours with the same predicted class
    neighbours: int
    sentence: str
    note: str  # what the tables contain
    tables: dict[str, list[Part]]
    peers: list[PeerAnswer] = field(default_factory=list)
    peer_tables: dict[str, dict[str, list[Part]]] = field(default_factory=dict, repr=False)

    @property
    def margin(self) -> float:
        """Difference between the two class probabilities."""
        return self.probability - self.versus_probability

    def records(self) -> list[dict[str, Any]]:
        """One dictionary for each part, with its table."""
        return [{"table": name, **asdict(part)} for name, parts in self.tables.items() for part in parts]

    def table(self) -> DataFrame:
        """The records as a pandas data frame."""
        import pandas as pd

        return pd.DataFrame(self.records(), columns=["table", "name", "value", "node", "label"])

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return asdict(self) | {"margin": self.margin}

    def _repr_html_(self) -> str:
        """The sentence, and a bar for each part."""
        return f"<p>{escape(self.sentence)}</p>{bars_html(self.tables)}<p><small>{escape(self.note)}</small></p>"


def bars_html(tables: dict[str, list[Part]]) -> str:
    """A bar chart of the tables: parts that support the class point right, the others left."""
    rows = []
    for table, parts in tables.items():
        largest = max((abs(part.value) for part in parts), default=0) or 1
        rows.append(f"<tr><th colspan='3' style='text-align:left'>{escape(table)}</th></tr>")
        for part in parts:
            width, colour = 100 * abs(part.value) / largest, "#2a6fb0" if part.value >= 0 else "#c0562f"
            side = "margin-left:50%" if part.value >= 0 else f"margin-left:{50 - width / 2:.1f}%"
            bar = f"<div style='height:0.8em;width:{width / 2:.1f}%;background:{colour};{side}'></div>"
            label = f" ({escape(part.label)})" if part.label else ""
            cells = f"<td>{escape(part.name)}{label}</td><td style='width:12em'>{bar}</td><td>{part.value:+.3f}</td>"
            rows.append(f"<tr>{cells}</tr>")
    return f"<table>{''.join(rows)}</table>"


def explain(model: GraphModel, node: Any, versus: Any = None) -> Explanation:
    """Explain why a node of the fit has its class rather than `versus`, by default the second most probable class."""
    graph = model.graph_
    place = int(positions_of_ids(graph.node_ids, np.array([node]))[0])
    if place == MISSING:  # the name of one node will do
        named = [number for number, name in enumerate(graph.node_names or ()) if name == str(node)]
        if len(named) != 1:
            raise InputError(f"the model has no node {shown(node)}; give the id or unique name of a node of the fit")
        [place] = named
    answer, names = model.label_distributions_[place], graph.class_names
    first, second = (int(number) for number in np.argsort(-answer, kind="stable")[:2])
    if versus is not None:
        others = [name for name in names if name != names[first]]
        if str(versus) == names[first]:
            raise InputError(
                f"node {shown(node)} is predicted as {shown(versus)} itself; compare with one of {', '.join(others)}"
            )
        if str(versus) not in others:
            raise unknown_name("class", str(versus), others)
        second = names.index(str(versus))
    around = np.setdiff1d(graph.adjacency[[place]].indices, [place])
    facts: dict[str, Any] = {
        "node": np.asarray(graph.node_ids[place]).item(),
        "title": graph.node_title(place),
        "predicted": names[first],
        "probability": float(answer[first]),
        "versus": names[second],
        "versus_probability": float(answer[second]),
        "given": None if graph.labels[place] == UNLABELED else names[graph.labels[place]],
        "neighbours_alike": int((model.label_distributions_[around].argmax(axis=1) == first).sum()),
        "neighbours": len(around),
    }
    explainer, columns = _explainer(model)
    if explainer is None:
        tables = _near(model, place, first, around)
        clauses = {"nearest labelled:": [f"{part.name} ({part.label})" for part in tables[NEAREST]]}
        note = f"{name_of(model.method_)} has no exact decomposition: these are neighbours and near labels, not reasons"
        return Explanation(**facts, sentence=_sentence(facts, clauses), note=note, tables=tables)

    assert model.peer_distributions_ is not None, "methods with an explainer have peers"
    split = explainer.split(place, first, second, model.peer_distributions_[:, place])
    peers: list[PeerPart] = sorted(split.peers, key=lambda peer: -abs(peer.factor * peer.log_odds))
    tables = {PEERS: [Part(peer.name, peer.factor * peer.log_odds) for peer in peers]}
    calibration = Part("calibration", float(answer[first] - answer[second]) - sum(part.value for part in tables[PEERS]))
    tables_of = partial(_split_tables, model, columns, explainer.labelled, split.steps)
    tables |= tables_of(peers, [peer.factor for peer in peers])
    tables = {name: [*parts, calibration] for name, parts in tables.items()}
    support = [part.name for part in tables.get(COLUMNS, []) if part.value > 0]
    labels = [part.name for part in tables[LABELS] if part.value > 0 and part.node is not None]
    clauses = {
        "words": [name for name in support if name in columns.words],
        "columns": [name for name in support if name in columns.titles],
        "labels that support it:": labels,
    }
    shares = f"{facts['probability']:.3f} - {facts['versus_probability']:.3f}"
    return Explanation(
        **facts,
        sentence=_sentence(facts, clauses),
        note=f"each table splits the difference to {facts['versus']}, {shares}",
        tables=tables,
        peers=[PeerAnswer(p.name, p.weight, *p.probabilities, p.log_odds, p.linear is not None) for p in peers],
        peer_tables={peer.name: tables_of([peer], [1.0]) for peer in peers if peer.linear is not None},
    )


def _explainer(model: GraphModel) -> tuple[Any, Any]:
    """An object that decomposes predictions of this model, and column names; cached, and None for most methods."""
    state = state_of(model)
    if "explainer" not in state:
        graph = seen = model.graph_
        if graph.features is None and model.method_.uses_features:
            seen = with_structural_features(graph, model.seed_)
        explainer = model.method_.explainer(model.parameters_ or {}, seen)
        state["explainer"] = explainer, None if explainer is None else NamedColumns(graph)
    found: tuple[Any, Any] = state["explainer"]
    return found


def _split_tables(
    model: GraphModel,
    columns: NamedColumns,
    labelled: Int[np.ndarray, "labelled"],
    steps: Float[np.ndarray, "nodes steps"],
    peers: Sequence[PeerPart],
    factors: Sequence[float],
) -> dict[str, list[Part]]:
    """Decompose the weighted sum of the log-odds of some peers by columns, by nodes and by labels."""
    both = list(zip(factors, peers, strict=True))
    whole = [Part(f"{peer.name} as a whole", f * peer.log_odds) for f, peer in both if peer.linear is None]
    parts = [(f, peer.linear) for f, peer in both if peer.linear is not None]
    if not parts:
        return {COLUMNS: whole, NODES: whole, LABELS: whole}
    total = LinearPart.weighted_sum(*zip(*parts, strict=True))
    constant = Part("every node", float(total.constant))
    ends = [Part("pseudo labels", float(total.pseudo_labels)), Part("what the solver left", float(total.residual))]
    by_label = [(one if one == MISSING else int(labelled[one]), value) for one, value in _largest(total.labelled)]
    found = {
        COLUMNS: [*columns.parts(total.by_column, steps, total.directions), constant],
        NODES: [*(_of_node(model, *one, "other nodes") for one in _largest(total.by_node)), constant],
        LABELS: [*(_of_node(model, *one, "other labels") for one in by_label), *ends],
    }
    return {name: found[name] + whole for name in found if name != COLUMNS or model.graph_.features is not None}


def _sentence(facts: dict[str, Any], clauses: dict[str, list[str]]) -> str:
    """`X is a politician (93 %): 7 of its 9 neighbours are; …`. A clause names the first of its names."""
    named = [f"{title} {', '.join(names[:NAMED])}" for title, names in clauses.items() if names]
    alike, count = facts["neighbours_alike"], facts["neighbours"]
    around = f"{alike} of its {count} neighbours {'is' if alike == 1 else 'are'}" if count else "it has no neighbours"
    labelled = "" if facts["given"] is None else f", labelled {facts['given']}"
    share = f"{100 * facts['probability']:.0f} %{labelled}"
    return f"{facts['title']} is {facts['predicted']} ({share}): {'; '.join([around, *named])}."


def _largest(values: np.ndarray) -> list[tuple[int, float]]:
    """The positions of the largest values, by size, and -1 with the sum of the others."""
    values = np.asarray(values, dtype=np.float64)
    places = np.argpartition(-np.abs(values), TOP)[:TOP] if len(values) > TOP else np.arange(len(values))
    places = places[np.argsort(-np.abs(values[places]), kind="stable")]
    rest = np.delete(values, places)
    others = [(MISSING, float(rest.sum()))] if rest.any() else []
    return [(int(place), float(values[place])) for place in places if values[place]] + others


def _of_node(model: GraphModel, place: int, value: float, others: str = "") -> Part:
    graph = model.graph_
    if place == MISSING:
        return Part(others, value)
    label = graph.labels[place]
    known = graph.class_names[label] if label != UNLABELED else str(model.transduction_[place])
    return Part(graph.node_title(place), value, np.asarray(graph.node_ids[place]).item(), known)


def _near(model: GraphModel, place: int, first: int, neighbours: np.ndarray) -> dict[str, list[Part]]:
    """Neighbours with their probability of the class, and labelled nodes with their share of a random walk."""
    adjacency = normalized_adjacency(model.graph_)
    walk = start = np.bincount([place], minlength=adjacency.shape[0]).astype(np.float32)
    for _ in range(WALK_STEPS):
        walk = (1 - WALK_RESTART) * (adjacency @ walk) + WALK_RESTART * start
    known = model.graph_.known[model.graph_.known != place]
    near = known[np.argsort(-walk[known], kind="stable")[:TOP]]
    strongest = neighbours[np.argsort(-walk[neighbours], kind="stable")[:TOP]]
    return {
        NEIGHBOURS: [_of_node(model, node, float(model.label_distributions_[node, first])) for node in strongest],
        NEAREST: [_of_node(model, node, float(walk[node])) for node in near if walk[node] > 0],
    }


class NamedColumns:
    """Names of the features. Text columns are split into words if their cells are kept."""

    def __init__(self, graph: Graph) -> None:
        preprocessing, features = graph.preprocessing, np.zeros((0, 0)) if graph.features is None else graph.features
        width = features.shape[1]
        names = graph.feature_names or (() if preprocessing is None else preprocessing.names)
        self.names = list(names) if len(names) == width else [f"feature {number + 1}" for number in range(width)]
        self.target = np.arange(width)  # name of each feature; MISSING: replaced by words
        self.texts: list[tuple[slice, Any, np.ndarray, np.ndarray]] = []  # features, term weights, components, names
        columns = () if preprocessing is None or len(preprocessing.names) != width else preprocessing.columns
        places = {name: number for number, name in enumerate(self.names)}
        for column in columns:
            if not isinstance(column, TextColumn | EncodedColumn):
                continue
            place = places[column.outputs[0]]
            block = slice(place, place + column.dimensions)
            self.names.append(column.name)
            whole = len(self.names) - 1
            if (
                not isinstance(column, TextColumn)
                or (terms := _terms(graph, column)) is None
                or not np.allclose(terms @ column.components, features[:, block], atol=1e-3)
            ):
                self.target[block] = whole
                continue
            self.target[block] = MISSING
            lengths = np.sqrt(np.asarray((features * features).sum(axis=1), dtype=np.float64)).reshape(-1)
            scaled = sp.csr_array(sp.diags_array(1 / np.where(lengths > 0, lengths, 1)) @ terms, dtype=np.float32)
            first = len(self.names)
            self.names[-1] += PARTS_OF_WORDS
            self.names += [f"'{word}'" for word in column.words]
            of_terms = np.concatenate([first + np.arange(len(column.words)), np.full(len(column.characters), whole)])
            self.texts.append((block, scaled, column.components, of_terms.astype(np.int64)))
        self.words = {f"'{word}'" for column in columns if isinstance(column, TextColumn) for word in column.words}
        self.titles = {name for name in self.names if name not in self.words and not name.endswith(PARTS_OF_WORDS)}

    def parts(
        self,
        by_feature: Float[np.ndarray, "features"],
        steps: Float[np.ndarray, "nodes steps"],
        directions: Float[np.ndarray, "features steps"],
    ) -> list[Part]:
        values = np.zeros(len(self.names))
        kept = self.target != MISSING
        np.add.at(values, self.target[kept], by_feature[kept])
        for block, terms, components, names in self.texts:
            np.add.at(values, names, ((terms.T @ steps) * (components @ directions[block])).sum(axis=1))
        return [Part("other columns" if place < 0 else self.names[place], value) for place, value in _largest(values)]


def _terms(graph: Graph, column: TextColumn) -> sp.csr_array | None:
    """Weights of the terms of each node's text; None if the cells are not kept."""
    if graph.cells is None or column.name not in graph.cells.column_names:
        return None
    texts = Texts.of(graph.cells[column.name].to_pylist()).without_missing_words
    if not texts.values:
        return None
    rows = column.terms(texts.values)
    return sp.csr_array(sp.vstack([rows, sp.csr_array((1, rows.shape[1]))], format="csr")[texts.codes])
