"""Files of a small graph, and its shards."""

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn.distributed.sharding import shard_files
from mtgcn.graph import Graph
from mtgcn.io.options import TableOptions


@pytest.fixture(scope="session")
def write_graph():
    """Writes an edge list, a node table and labels of a graph, ids as text in random order; returns the folder."""

    def write(folder, graph, labels_per_class=3):
        random = np.random.default_rng(1)
        names = [f"n{number}" for number in random.permutation(graph.num_nodes)]
        entries = sp.triu(graph.adjacency).tocoo()
        rows = zip(entries.row, entries.col, entries.data, strict=True)
        edges = [f"{names[a]},{names[b]},{100 * weight}\n" for a, b, weight in rows]
        (folder / "edges.csv").write_text("source,target,weight\n" + "".join(edges))
        features = graph.features.toarray() if sp.issparse(graph.features) else graph.features
        header = ",".join(f"x{column}" for column in range(features.shape[1]))
        nodes = [f"{name},{','.join(map(str, row))}\n" for name, row in zip(names, features.tolist(), strict=True)]
        (folder / "nodes.csv").write_text(f"id,{header}\n" + "".join(nodes))
        given = [f"{names[node]},c{one}\n" for one in range(3) for node in (3 * np.arange(labels_per_class) + one)]
        (folder / "labels.csv").write_text("id,label\n" + "".join(given))
        return folder

    return write


@pytest.fixture(scope="session")
def files(tmp_path_factory, make_graph, write_graph):
    """A folder with the files of a graph of 60 nodes and their shards, in 5 parts; read-only."""
    folder = write_graph(tmp_path_factory.mktemp("files"), make_graph(60, 3, 12, seed=1, sparse=False, weighted=True))
    shard_files(folder / "edges.csv", folder / "nodes.csv", folder / "shards", 5, TableOptions(may_add_nodes=False))
    return folder


@pytest.fixture(scope="session")
def sparse_files(tmp_path_factory, make_graph, write_graph):
    """The same of a table of many words, which is kept sparse."""
    graph = make_graph(60, 3, 100)
    words = (graph.features.toarray() > 0.97).astype(np.float32)
    words[:, 0] = np.arange(60) % 2
    folder = write_graph(tmp_path_factory.mktemp("sparse"), Graph(graph.adjacency, words))
    shard_files(folder / "edges.csv", folder / "nodes.csv", folder / "shards", 4, TableOptions(may_add_nodes=False))
    return folder
