"""Fit methods on many splits of a graph, score them on what they were not given, and summarise the scores."""
