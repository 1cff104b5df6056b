"""Matrices of graphs, operators and solvers: arrays in, arrays out."""
