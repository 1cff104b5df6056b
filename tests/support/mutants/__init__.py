"""Small faults put into the source one at a time, to see whether a test notices: `make mutants`.

A fault is a *mutant*; one that some test fails on is *killed*. The share that is killed says how much the tests hold.
"""
