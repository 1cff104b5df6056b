"""What every answer must be, whatever was asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from fuzz.trial import require
from mtgcn import Graph


def require_sound_graph(graph: Graph) -> None:
    """Finite, symmetric, and with names that can be written down."""
    nodes = graph.num_nodes
    adjacency = graph.adjacency
    require(nodes > 0 and adjacency.shape == (nodes, nodes), "no square adjacency")
    require(np.isfinite(adjacency.data).all() and (adjacency.data > 0).all(), "weights that are none")
    require(abs(adjacency - adjacency.T).max() <= 1e-5 * adjacency.data.max(initial=1), "an adjacency with a direction")
    require(len(graph.labels) == nodes == len(graph.node_ids), "labels or ids for other nodes")
    require(graph.labels.min() >= -1 and graph.labels.max() < max(1, graph.num_classes), "a label of no class")
    if graph.features is not None:
        values = graph.features.data if sp.issparse(graph.features) else graph.features
        require(graph.features.shape[0] == nodes and graph.num_features, "features for other nodes")
        require(np.isfinite(values).all(), "features that are not finite")
        require(len(graph.feature_names) in (0, graph.num_features), "names for other features")
    for names in (graph.class_names, graph.node_ids.tolist()):
        require(len(set(names)) == len(names), "two things of one name")
    for names in (graph.class_names, graph.feature_names, graph.node_ids.tolist()):
        "".join(map(str, names)).encode()


def require_sound_probabilities(probabilities: Any, rows: int, classes: int) -> None:
    require(np.shape(probabilities) == (rows, classes), f"probabilities of shape {np.shape(probabilities)}")
    require(np.isfinite(probabilities).all(), "probabilities that are not finite")
    require(np.min(probabilities) >= 0 and np.allclose(np.sum(probabilities, axis=1), 1, atol=1e-3), "no probabilities")
