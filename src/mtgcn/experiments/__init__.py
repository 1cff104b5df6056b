"""Fits methods on many splits of a graph, scores them on held-out nodes, and summarises the scores."""
