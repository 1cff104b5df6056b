"""Graphs too large for one machine: split into parts on disk, and fitted by several processes with some parts each.

`python -m mtgcn.distributed shard` splits the files a piece at a time. `torchrun … -m mtgcn.distributed fit` runs the
methods of the library on all parts, with the predictions of a single process. Nothing is imported here.
"""
