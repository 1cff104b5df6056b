"""Graphs too large for one machine: they are split into parts on disk, and fitted by several processes.

`python -m mtgcn.distributed shard` splits the files piece by piece. `torchrun … -m mtgcn.distributed fit` fits a method
of the library on all parts; the predictions equal those of a single process. Nothing is imported here.
"""
