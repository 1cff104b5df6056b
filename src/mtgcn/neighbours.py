"""The documented address of `neighbour_graph` and `nearest`, which live in `mtgcn.linalg.neighbours`."""

from mtgcn.linalg.neighbours import METRICS, nearest, neighbour_graph

__all__ = ["METRICS", "nearest", "neighbour_graph"]
