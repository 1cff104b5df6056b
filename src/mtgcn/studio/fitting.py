"""Fits the model of a project, as `mtgcn fit` and `mtgcn label` do, compares it with the previous one, and lays out the
map."""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from mtgcn.environment import chosen_device
from mtgcn.estimator.graph_model import DEFAULT_METHOD, GraphModel, chosen_method
from mtgcn.estimator.inputs import check_learnable
from mtgcn.estimator.persistence import is_model, load_model, read_card, save_model
from mtgcn.graph import Graph
from mtgcn.graph_cache import cached_per_graph
from mtgcn.labels import UNLABELED
from mtgcn.linalg.layout_2d import layout_2d
from mtgcn.methods import method_from_text
from mtgcn.report.fit_page import map_rows, shown_nodes
from mtgcn.shapes import Float, Int
from mtgcn.studio.project import Project
from mtgcn.training.progress import report_progress, stage
from mtgcn.uncertainty.held_out import expected_accuracy, why_not_measurable
from mtgcn.uncertainty.suggestions import smoothed_features
from mtgcn.workflows.fit import Expectation, for_the_card, mean_confidence, summary_of, within_memory
from mtgcn.workflows.output import collected_notes

GRAPH_KEY = "studio_graph"  # in the card of a model: the fingerprint of its graph
LAYOUT_FILE = "map.npz"
LAYOUT_SEED = 0
MAX_LAYOUT_BYTES = 64 << 20

Layout = tuple[Int[np.ndarray, "shown"], Float[np.ndarray, "shown 2"]]  # nodes and their coordinates, 0 to 1


@dataclass(frozen=True)
class FitOptions:
    """Options of a fit."""

    method: str | None = None
    settings: Sequence[str] = ()  # key=value
    seed: int = 0
    device: str = "auto"
    folds: int = 5  # of the cross-validated accuracy; 0: not measured

    def new_model(self, project: Project) -> GraphModel:
        """An unfitted model, configured like that of `mtgcn fit` for the same files."""
        options = project.source.options
        return GraphModel(
            method_from_text(self.method or DEFAULT_METHOD, self.settings),
            neighbors=options.get("knn") or 10,
            metric=options.get("metric") or "euclidean",
            device=self.device,
            random_state=self.seed,
        )


class FitResult(BaseModel):
    """Summary of a fit and comparison with the previous model."""

    model_config = ConfigDict(frozen=True)
    labels: Mapping[str, int]  # per class
    seconds: float
    refitted: bool  # whether label-free computations of the previous model were reused
    mean_confidence: float
    expected_accuracy: Mapping[str, Any] | None = None  # accuracy, ci95, labels, folds
    why_no_expected_accuracy: str | None = None
    warnings: Sequence[str] = ()
    # The rest is None or empty without a previous model.
    changed: int | None = None  # nodes with another predicted class
    compared: int | None = None  # nodes that were unlabelled in the previous fit
    changes: Sequence[tuple[str, str, int]] = ()  # class before, class now, nodes; most nodes first
    mean_confidence_before: float | None = None


def check_labels(project: Project) -> None:
    """Check that there is something to learn and something to predict."""
    counts = Counter(project.labels().values())
    check_learnable(list(counts), list(counts.values()), project.loaded.graph.num_nodes)


def fitted_model(project: Project) -> GraphModel | None:
    """The model of the project; None without one, or if it belongs to another graph."""
    if not project.is_loaded or not is_model(project.model_folder):
        return None
    model = load_model(project.model_folder)
    return model if model.training_.get(GRAPH_KEY) == project.loaded.fingerprint else None


def fit_project(project: Project, options: FitOptions) -> FitResult:
    """Fit a model on the present labels and save it in the project once it is complete."""
    check_labels(project)
    with stage("reading"):
        state, graph = project.state, project.labelled_graph()
        previous = fitted_model(project)
        model = options.new_model(project)
        device, method = chosen_device(options.device), chosen_method(model)
    if previous is not None:  # kept, since a refit overwrites the model
        names = np.array([state.current_name(str(name)) for name in previous.classes_], dtype=object)
        before = names[previous.label_distributions_.argmax(axis=1)]
        unlabelled, confidence_before = previous.graph_.labels == UNLABELED, mean_confidence(previous)
    refitted = previous is not None and previous.method_ == method and previous.seed_ == options.seed
    with collected_notes() as notes, within_memory(graph, method, device):
        started = perf_counter()
        if previous is not None and refitted:
            model = previous
            model.device = options.device
            model.fit_again(graph, np.array(graph.class_names))
        else:
            model.fit_graph(graph)
        seconds = perf_counter() - started
        with stage("measuring accuracy on held-out labels"):
            fit, folds = (model.graph_, model.method_), options.folds
            why_not = why_not_measurable(*fit, folds) if folds else "not measured, as asked"
            expected: Expectation = None, why_not
            if not why_not:
                expected = expected_accuracy(*fit, seed=options.seed, device=device, folds=folds), None
    summary = summary_of(model, seconds, expected, [*project.loaded.notes, *notes], project.model_folder)
    with stage("writing the model"):
        card = for_the_card(summary) | {GRAPH_KEY: project.loaded.fingerprint}
        save_model(model, project.model_folder, training=card)
        project.forget_renames(state.renamed)
    model_layout(project, model)
    comparison: dict[str, Any] = {}
    if previous is not None:
        now = model.transduction_.astype(object)
        changed = np.flatnonzero(unlabelled & (now != before))
        pairs = Counter(zip(before[changed].tolist(), map(str, now[changed].tolist()), strict=True))
        comparison = {
            "changed": len(changed),
            "compared": int(unlabelled.sum()),
            "changes": [(*classes, nodes) for classes, nodes in pairs.most_common()],
            "mean_confidence_before": confidence_before,
        }
    return FitResult(
        labels=summary.labels,
        seconds=seconds,
        refitted=refitted,
        mean_confidence=mean_confidence(model),
        expected_accuracy=None if summary.expected_accuracy is None else asdict(summary.expected_accuracy),
        why_no_expected_accuracy=summary.why_no_expected_accuracy,
        warnings=summary.warnings,
        **comparison,
    )


@dataclass(frozen=True, eq=False)
class MapPoints:
    """Nodes in the plane; a sample of a very large graph."""

    nodes: Int[np.ndarray, "shown"]
    places: Float[np.ndarray, "shown 2"]  # from 0 to 1
    ids: Sequence[str]


@cached_per_graph
def feature_layout(graph: Graph) -> Layout:
    """Layout without a model, by features and neighbourhoods; takes seconds."""
    nodes = shown_nodes(graph.num_nodes, [], LAYOUT_SEED)
    return nodes, layout_2d(smoothed_features(graph)[nodes], seed=LAYOUT_SEED)


def map_points(project: Project, model: GraphModel | None) -> MapPoints:
    """The nodes on the map, by the predictions of a model if there is one; takes seconds if they are not stored."""
    loaded = project.loaded
    nodes, places = feature_layout(loaded.graph) if model is None else model_layout(project, model)
    return MapPoints(nodes, places, [loaded.ids[node] for node in nodes.tolist()])


def model_layout(project: Project, model: GraphModel) -> Layout:
    """Layout by the predictions of a model; read from the project if it was made for this model."""
    made_for = str(read_card(project.model_folder)["sha256"])
    content = project.files.read(LAYOUT_FILE, at_most=MAX_LAYOUT_BYTES) or b""
    with suppress(ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile):  # missing or damaged: it is made again
        arrays = np.load(io.BytesIO(content), allow_pickle=False)
        nodes, places = arrays["nodes"], arrays["places"]
        own = str(arrays["made_for"]) == made_for and nodes.dtype.kind == "i" and places.shape == (len(nodes), 2)
        if own and nodes.min() >= 0 and nodes.max() < model.graph_.num_nodes and np.isfinite(places).all():
            return nodes, places
    nodes = shown_nodes(model.graph_.num_nodes, model.graph_.known.tolist(), LAYOUT_SEED)
    with stage("placing nodes on the map", unit="step"):
        places = layout_2d(map_rows(model, nodes), seed=LAYOUT_SEED, progress=report_progress).astype(np.float32)
    stored = io.BytesIO()
    np.savez(stored, allow_pickle=False, nodes=nodes, places=places, made_for=np.array(made_for))
    project.files.write(stored.getvalue(), LAYOUT_FILE)
    return nodes, places
