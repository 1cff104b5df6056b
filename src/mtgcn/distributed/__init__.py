"""A graph too large for one machine: cut into parts on disk, and fitted by several processes, each with a few of them.

`python -m mtgcn.distributed shard` cuts a person's files piece by piece; `torchrun … -m mtgcn.distributed fit` trains
on the whole graph, exactly as one process would, without any process ever holding it all. Nothing is imported here.
"""
