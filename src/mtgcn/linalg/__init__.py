"""Matrices of graphs, operators and solvers. Functions take and return arrays."""
