"""The map: all nodes in the plane, so that those that look alike, and of which the same is believed, lie together."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mtgcn.estimator.persistence import read_card
from mtgcn.graph import UNKNOWN, Graph
from mtgcn.graph_cache import cached_per_graph
from mtgcn.linalg.layout_2d import layout_2d
from mtgcn.report.fit_view import map_rows, shown_nodes
from mtgcn.shapes import Float, Int
from mtgcn.training.progress import report_progress, stage
from mtgcn.uncertainty.suggestions import smoothed_features

if TYPE_CHECKING:
    from mtgcn.estimator.graph_model import GraphModel
    from mtgcn.studio.answers import ProjectAnswers
    from mtgcn.studio.project import Project

MAP = "map.npz"
SEED = 0


@dataclass(frozen=True, eq=False)
class MapPoints:
    """All nodes in the plane, or of very many some."""

    nodes: Sequence[str]
    places: Float[np.ndarray, "shown 2"]  # x from 0 to 1, y from 0 to at most 1
    predicted: Int[np.ndarray, "shown"]  # places in `classes`; -1 where there is no model
    confidence: Float[np.ndarray, "shown"]  # 0 where there is no model
    given: Int[np.ndarray, "shown"]  # places in `classes`; -1 where no label is given now
    classes: Sequence[str]


def project_map(project: Project, answers: ProjectAnswers | None) -> MapPoints:
    """Places in the plane, and what is said there. With a model they are those that the teaching left; otherwise they
    are found here, once, which takes seconds: not to be done where a page waits."""
    loaded, labels = project.loaded, project.labels()
    nodes, places = places_without_model(project.graph) if answers is None else model_places(project, answers.model)
    model_classes = () if answers is None else answers.class_names
    classes = tuple(dict.fromkeys([*project.classes, *model_classes]))
    number = {name: place for place, name in enumerate(classes)}
    shown = [loaded.ids[node] for node in nodes.tolist()]
    predicted = np.full(len(nodes), UNKNOWN)
    if answers is not None:
        predicted = np.array([number[name] for name in model_classes])[answers.predicted[nodes]]
    return MapPoints(
        nodes=shown,
        places=places,
        predicted=predicted,
        confidence=np.zeros(len(nodes)) if answers is None else answers.confidence[nodes],
        given=np.array([number.get(labels.get(node, ""), UNKNOWN) for node in shown]),
        classes=classes,
    )


@cached_per_graph
def places_without_model(graph: Graph) -> tuple[Int[np.ndarray, "shown"], Float[np.ndarray, "shown 2"]]:
    """Nodes and their places by what they look like alone."""
    nodes = shown_nodes(graph.num_nodes, [], SEED)
    return nodes, layout_2d(smoothed_features(graph)[nodes], seed=SEED)


def model_places(project: Project, model: GraphModel) -> tuple[Int[np.ndarray, "shown"], Float[np.ndarray, "shown 2"]]:
    """Nodes and their places as kept in the project, if they are those of this model; else they are made and kept."""
    made_for = str(read_card(project.model_folder)["sha256"])
    kept = _kept(project, made_for, model.graph_.num_nodes)
    if kept is not None:
        return kept
    nodes = shown_nodes(model.graph_.num_nodes, model.graph_.known.tolist(), SEED)
    with stage("placing nodes on the map"):
        places = layout_2d(
            map_rows(model, nodes), seed=SEED, progress=lambda done, total: report_progress(done, total, dict)
        )
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, nodes=nodes, places=places.astype(np.float32), made_for=np.array(made_for))
    project.files.write(content.getvalue(), MAP)
    return nodes, places.astype(np.float32)


def _kept(project: Project, made_for: str, nodes: int) -> tuple[np.ndarray, np.ndarray] | None:
    content = project.files.read(MAP, at_most=64 << 20)
    if content is None:
        return None
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            if str(arrays["made_for"]) != made_for:
                return None
            kept, places = arrays["nodes"], arrays["places"]
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile):
        return None  # it can be made again
    sound = kept.ndim == 1 and kept.dtype.kind == "i" and len(kept) and kept.min() >= 0 and kept.max() < nodes
    if not sound or places.shape != (len(kept), 2) or not np.isfinite(places).all():
        return None
    return kept, places
