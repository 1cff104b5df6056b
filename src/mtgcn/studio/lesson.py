"""One teaching: the model fitted on the labels of now, as `mtgcn fit` and `mtgcn label` do it; what that changed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from mtgcn.environment import chosen_device
from mtgcn.errors import InputError
from mtgcn.estimator.graph_model import DEFAULT_METHOD, GraphModel, chosen_method
from mtgcn.estimator.persistence import is_model, load_model, save_model
from mtgcn.graph import UNKNOWN, Graph
from mtgcn.methods import method_class
from mtgcn.settings import parse_settings
from mtgcn.studio.map import model_places
from mtgcn.studio.project import Project
from mtgcn.studio.state import State
from mtgcn.training.progress import stage
from mtgcn.uncertainty.expected_accuracy import expected_accuracy, why_not_measurable
from mtgcn.workflows.fit import Expectation, for_the_card, mean_confidence, summary_of, within_memory
from mtgcn.workflows.output import collected_notes

CACHE = "cache"  # what is costly to make again; nothing is written outside of the project
GRAPH = "studio_graph"  # in the card of a model: the fingerprint of the graph that was loaded


@dataclass(frozen=True)
class Recipe:
    """How to fit."""

    method: str | None = None
    settings: Sequence[str] = ()  # key=value
    seed: int = 0
    device: str = "auto"
    folds: int = 5  # parts of the labels held out in turn to measure accuracy; 0: it is not

    def model(self, project: Project) -> GraphModel:
        """Not fitted yet; as `mtgcn fit` would make it for the same files."""
        name = self.method or DEFAULT_METHOD
        options = project.source.options
        return GraphModel(
            method=name,
            neighbors=options.get("knn") or 10,
            metric=options.get("metric") or "euclidean",
            settings=parse_settings(method_class(name), self.settings) or None,
            device=self.device,
            random_state=self.seed,
        )


@dataclass(frozen=True)
class Moved:
    """Nodes that are predicted otherwise than before."""

    before: str
    after: str
    nodes: int


@dataclass(frozen=True)
class Taught:
    """What came of a teaching."""

    labels: Mapping[str, int]  # learned from, by class
    seconds: float
    refitted: bool  # whether what is learned without labels was kept from the model before
    mean_confidence: float
    expected_accuracy: Mapping[str, Any] | None  # accuracy, ci95, labels, folds
    why_no_expected_accuracy: str | None
    warnings: Sequence[str]
    # Against the model before; None where there was none to compare with.
    changed: int | None = None  # nodes predicted otherwise
    compared: int | None = None  # nodes that had no label then
    moved: Sequence[Moved] = ()  # from which class to which, the most nodes first
    mean_confidence_before: float | None = None
    expected_accuracy_before: Mapping[str, Any] | None = None


def check_teachable(project: Project) -> None:
    """Refuse labels that leave nothing to learn, or nothing to tell."""
    labels, nodes = project.labels(), project.graph.num_nodes
    classes = sorted(set(labels.values()))
    if not labels:
        raise InputError("no node is labelled yet; label nodes of at least two classes")
    if len(classes) == 1:
        raise InputError(f"all labels are of one class, {classes[0]!r}; label nodes of at least two classes")
    if len(labels) == nodes:
        raise InputError(f"all {nodes} nodes are labelled, so there is nothing to predict; there is nothing to teach")


def model_of(project: Project) -> GraphModel | None:
    """The model of the last teaching; None where there is none, or it belongs to another graph."""
    if not project.is_loaded or not is_model(project.model_folder):
        return None
    model = load_model(project.model_folder)
    return model if model.training_.get(GRAPH) == project.loaded.fingerprint else None


def teach(project: Project, recipe: Recipe) -> Taught:
    """Fit the model on the labels of now and put it into the project, once it is whole."""
    check_teachable(project)
    with stage("reading"):
        state, graph = project.state, project.labelled_graph()
        before = model_of(project)
        model = recipe.model(project)
        device, method = chosen_device(recipe.device), chosen_method(model)
    said = None if before is None else _Said(before, state)
    refitted = before is not None and before.method_ == method and before.seed_ == recipe.seed
    with collected_notes() as notes, _cache_in(project.folder / CACHE), within_memory(graph, method, device):
        started = perf_counter()
        if before is not None and refitted:
            model = before
            model.device = recipe.device
            model.fit_again(graph, np.array(graph.class_names))
        else:
            model.fit_graph(graph)
        seconds = perf_counter() - started
        with stage("measuring accuracy on held-out labels"):
            expected = _expectation(model, recipe)
    summary = summary_of(model, seconds, expected, [*project.loaded.notes, *notes], project.model_folder)
    with stage("writing the model"):
        save_model(model, project.model_folder, training=for_the_card(summary) | {GRAPH: project.loaded.fingerprint})
        project.forget_renames(state.renamed)
    model_places(project, model)
    told = Taught(
        labels=summary.labels,
        seconds=seconds,
        refitted=refitted,
        mean_confidence=mean_confidence(model),
        expected_accuracy=None if summary.expected_accuracy is None else asdict(summary.expected_accuracy),
        why_no_expected_accuracy=summary.why_no_expected_accuracy,
        warnings=summary.warnings,
    )
    return told if said is None else said.compared_with(model, told)


class _Said:
    """What a model said, kept while another takes its place."""

    def __init__(self, model: GraphModel, state: State) -> None:
        names = [state.name_now(str(name)) for name in model.classes_]
        self.predicted = np.array(names, dtype=object)[model.label_distributions_.argmax(axis=1)]
        self.free = model.graph_.labels == UNKNOWN
        self.confidence = mean_confidence(model)
        self.accuracy = model.training_.get("expected_accuracy")

    def compared_with(self, model: GraphModel, told: Taught) -> Taught:
        now = model.transduction_.astype(object)
        moved = np.flatnonzero(self.free & (now != self.predicted))
        pairs = Counter(zip(self.predicted[moved].tolist(), map(str, now[moved].tolist()), strict=True))
        return replace(
            told,
            changed=len(moved),
            compared=int(self.free.sum()),
            moved=[Moved(before, after, nodes) for (before, after), nodes in pairs.most_common()],
            mean_confidence_before=self.confidence,
            expected_accuracy_before=self.accuracy,
        )


def _expectation(model: GraphModel, recipe: Recipe) -> Expectation:
    graph: Graph = model.graph_
    if recipe.folds == 0:
        return None, "not measured, as asked"
    why_not = why_not_measurable(graph, model.method_, recipe.folds)
    if why_not:
        return None, why_not
    device = chosen_device(recipe.device)
    return expected_accuracy(graph, model.method_, seed=recipe.seed, device=device, folds=recipe.folds), None


@contextmanager
def _cache_in(folder: Path) -> Iterator[None]:
    """While this lasts, what is kept for later is kept in that folder."""
    before = os.environ.get("MTGCN_CACHE")
    os.environ["MTGCN_CACHE"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["MTGCN_CACHE"]
        else:
            os.environ["MTGCN_CACHE"] = before
