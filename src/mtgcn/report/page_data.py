"""The nodes of a fit as its page carries them: one JSON object, in which long lists are packed.

A packed list is {"type": "Uint8", "data": base64 of its numbers}, in the smallest of Uint8, Uint16 and Uint32 that
holds them, the lowest byte first: what the typed arrays of a browser read as they are.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import scipy.sparse as sp
from markupsafe import Markup

from mtgcn.graph import Graph
from mtgcn.report.fit_charts import MAP_WIDTH, map_places
from mtgcn.report.fit_view import SURE, UNSURE, Map
from mtgcn.shapes import Float, Int

BEST_CLASSES = 3  # of each node, with their probabilities
PROBABILITY_STEPS = 10_000  # a probability is carried as so many parts
PLACE_STEPS = 65_535  # along the width of the map
MOST_EDGES = 150_000  # of larger graphs each node's heaviest


def node_data(shown: Map, graph: Graph, probabilities: Float[np.ndarray, "nodes classes"]) -> Markup:
    """Everything the page tells of single nodes, as text that may stand inside a script element."""
    of_shown = probabilities[shown.nodes]
    best = np.argsort(-of_shown, axis=1, kind="stable")[:, :BEST_CLASSES]
    edges_each, others = _edges(graph, shown.nodes)
    where, height = map_places(shown)
    content = {
        "ids": [str(one) for one in np.asarray(graph.node_ids)[shown.nodes].tolist()],
        "classes": list(graph.class_names),
        "best": packed(best),
        "probabilities": packed(np.rint(PROBABILITY_STEPS * np.take_along_axis(of_shown, best, axis=1))),
        "given": packed(shown.given + 1),  # 0: none
        "places": packed(np.rint(PLACE_STEPS / MAP_WIDTH * where)),
        "degrees": packed(_degrees(graph)[shown.nodes]),
        "edgesEach": packed(edges_each),
        "others": packed(others),
        "suggested": shown.suggested.tolist(),
        "steps": {"probability": PROBABILITY_STEPS, "place": PLACE_STEPS},
        "map": {"width": MAP_WIDTH, "height": height},
        "sure": SURE,
        "unsure": UNSURE,
    }
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A name may hold what would end the element, or what JavaScript once took for the end of a line.
    return Markup(text.translate({ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}))


def packed(numbers: np.ndarray) -> dict[str, Any]:
    """
    >>> packed(np.array([1, 2, 255]))
    {'type': 'Uint8', 'data': 'AQL/'}
    """
    largest = numbers.max(initial=0)
    bits = next(bits for bits in (8, 16, 32) if largest < 2**bits)
    return {"type": f"Uint{bits}", "data": base64.b64encode(numbers.astype(f"<u{bits // 8}").tobytes()).decode()}


def _degrees(graph: Graph) -> Int[np.ndarray, "nodes"]:
    """With how many others each node is linked."""
    return np.diff(graph.adjacency.indptr) - (graph.adjacency.diagonal() != 0)


def _edges(graph: Graph, nodes: Int[np.ndarray, "shown"]) -> tuple[np.ndarray, np.ndarray]:
    """The edges among these nodes, each at its first end: how many each node has, and the places of their other ends,
    node after node."""
    among = sp.csr_array(graph.adjacency[nodes][:, nodes])
    if among.nnz > 2 * MOST_EDGES:
        among = _heaviest(among, max(1, MOST_EDGES // len(nodes)))
    upper = sp.csr_array(sp.triu(among, 1))
    return np.diff(upper.indptr), upper.indices


def _heaviest(adjacency: sp.csr_array, each: int) -> sp.csr_array:
    """Those edges that are among the so many heaviest of one of their ends."""
    edges = adjacency.tocoo()
    order = np.lexsort((edges.col, -edges.data, edges.row))
    rank = np.arange(len(order)) - adjacency.indptr[edges.row[order]]
    kept = order[rank < each]
    chosen = sp.csr_array((edges.data[kept], (edges.row[kept], edges.col[kept])), shape=adjacency.shape)
    return sp.csr_array(chosen.maximum(chosen.T))
