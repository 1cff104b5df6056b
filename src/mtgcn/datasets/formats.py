"""The file formats of the datasets, each read into a `Dataset`.

Planetoid's files (Yang, Cohen and Salakhutdinov, 2016) contain the citation graphs Cora, Citeseer and PubMed. The text
files `cora.content` (paper, words, class) and `cora.cites` (cited, citing) contain the same Cora in another node order;
`cora_order.txt` lists the paper at each of Planetoid's positions, found by matching words, classes and edges, so that
results do not depend on the source.

Archives of the repository `EdisonLeeeee/GraphData` contain `adj_matrix` and `node_attr` (pickled scipy matrices),
`node_label`, and optionally `metadata`. Their adjacency may be directed and have self-loops, and their classes may
start at 1 or have gaps; here edges are undirected with weight 1 and no self-loops, and classes are 0, 1, ….

The graphs of MUSAE (Rozemberczki, Allen and Sarkar, 2021) have a table of edges with two node numbers per line, the
feature numbers of each node as JSON, and a table of targets. The class of a page of Chameleon is the quintile of its
monthly traffic; the class of a Facebook page is its type, and that of a Twitch user whether the content is for adults.

Minesweeper (Platonov et al., 2023) is an archive of plain arrays: `node_features`, `node_labels` and `edges`. The
airports of the USA (Ribeiro, Saverese and Figueiredo, 2017) are an edge list and a table of labels, without features.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

import numpy as np
import scipy.sparse as sp

from mtgcn.graph import Graph
from mtgcn.io.archives import npz_arrays, unpickled
from mtgcn.labels import UNLABELED
from mtgcn.splits import Split

# `x` and `y` repeat the training nodes, the first rows of `allx` and `ally`; `tx` and `ty` are the test nodes.
_PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
CORA_TEXT_FILES = ("cora.content", "cora.cites")
CORA_CLASSES = (  # class names in the order of Planetoid's class numbers
    *("Theory", "Reinforcement_Learning", "Genetic_Algorithms", "Neural_Networks"),
    *("Probabilistic_Methods", "Case_Based", "Rule_Learning"),
)
_PUBLIC_TRAIN, _PUBLIC_TEST = 140, 1000  # the first and the last nodes in Planetoid's order
AIRPORT_FILES = ("usa-airports.edgelist", "labels-usa-airports.txt")
_QUINTILES = (0.2, 0.4, 0.6, 0.8)
ARCHIVED = ("adj_matrix", "node_attr", "node_label", "metadata")
CELLS = ("node_features", "node_labels", "edges")
Files = Mapping[str, bytes]  # file contents by name


@dataclass(frozen=True, eq=False)
class Dataset:
    graph: Graph
    edges_listed: int  # edges in the source, including duplicates and self-edges
    public_split: Split | None = None


def undirected(sources: np.ndarray, targets: np.ndarray, nodes: int, *, self_loops: bool = True) -> sp.csr_array:
    """The symmetric adjacency with weight 1 for every listed edge. `self_loops=False` removes self-loops."""
    if not self_loops:
        sources, targets = (ends[sources != targets] for ends in (sources, targets))
    listed = sp.coo_array((np.ones(len(sources), np.float32), (sources, targets)), shape=(nodes, nodes)).tocsr()
    adjacency = listed + listed.T
    adjacency.data[:] = 1
    return adjacency


def planetoid_files(name: str) -> tuple[str, ...]:
    return tuple(f"ind.{name}.{part}" for part in _PARTS)


def read_planetoid(name: str, files: Files, class_names: tuple[str, ...] = ()) -> Dataset:
    """Read a dataset in Planetoid's node order. Nodes without a label row are unlabelled."""
    *pickles, index = planetoid_files(name)
    _, y, tx, ty, allx, ally, neighbours = (unpickled(files[part]) for part in pickles)
    test = np.array(files[index].split(), dtype=np.int64)
    nodes = len(neighbours)
    # Node of each row. The rows of `tx` follow `test.index`, which is not sorted and has gaps in Citeseer.
    described = np.concatenate([np.arange(allx.shape[0]), test])
    rows = np.arange(len(described))
    placement = sp.coo_array((np.ones(len(rows), np.float32), (described, rows)), shape=(nodes, len(rows))).tocsr()
    one_hot = np.vstack([ally, ty])
    labels = np.full(nodes, UNLABELED)
    labels[described] = np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), UNLABELED)
    sources = np.repeat(list(neighbours), [len(targets) for targets in neighbours.values()])
    targets = np.concatenate([np.array(listed, dtype=np.int64) for listed in neighbours.values()])
    graph = Graph(
        adjacency=undirected(sources, targets, nodes),
        features=sp.csr_array(placement @ sp.csr_array(sp.vstack([allx, tx]))),
        labels=labels,
        class_names=class_names,
        name=name,
    )
    # Each edge occurs in the lists of both its ends.
    return Dataset(graph, edges_listed=len(sources) // 2, public_split=_planetoid_split(len(y), test))


def _planetoid_split(train: int, test: np.ndarray) -> Split:
    """The split with the first nodes for training and the next 500 for validation."""
    return Split(train=np.arange(train), validation=np.arange(train, train + 500), test=np.sort(test))


def read_cora_text(files: Files) -> Dataset:
    """Read Cora from its text files, in Planetoid's node order."""
    papers = resources.files("mtgcn.datasets").joinpath("cora_order.txt").read_text(encoding="ascii").split()
    position = {paper: node for node, paper in enumerate(papers)}
    nodes = len(position)
    labels = np.empty(nodes, dtype=np.int64)
    features: list[np.ndarray] = [np.empty(0)] * nodes
    for line in files["cora.content"].splitlines():
        paper, rest = line.split(b"\t", maxsplit=1)
        words, class_name = rest.rsplit(b"\t", maxsplit=1)
        node = position[paper.decode("ascii")]
        labels[node] = CORA_CLASSES.index(class_name.decode("ascii"))
        # Every word is a digit and a tab, so every second byte is a digit.
        features[node] = np.frombuffer(words, dtype=np.uint8)[::2] == ord("1")
    ends = np.array([position[paper] for paper in files["cora.cites"].decode("ascii").split()]).reshape(-1, 2)
    graph = Graph(
        adjacency=undirected(ends[:, 0], ends[:, 1], nodes),
        features=sp.csr_array(np.stack(features).astype(np.float32)),
        labels=labels,
        class_names=CORA_CLASSES,
        name="cora",
    )
    return Dataset(graph, len(ends), _planetoid_split(_PUBLIC_TRAIN, np.arange(nodes - _PUBLIC_TEST, nodes)))


def read_archive(name: str, filename: str, files: Files) -> Dataset:
    """Read a dataset in the node order of the archive."""
    arrays = npz_arrays(io.BytesIO(files[filename]), filename, ARCHIVED)
    adjacency, features = arrays["adj_matrix"], arrays["node_attr"]
    for matrix in (adjacency, features):
        matrix.sum_duplicates()
    numbers, labels = np.unique(arrays["node_label"], return_inverse=True)
    names = arrays.get("metadata", {}).get("class_names", ())
    class_names = tuple(str(names[number] if numbers.max() < len(names) else number) for number in numbers)
    edges = adjacency.tocoo()
    links = undirected(edges.row, edges.col, adjacency.shape[0], self_loops=False)
    listed = adjacency.nnz  # entries of the matrix, or undirected edges if it is symmetric
    if not (adjacency != adjacency.T).nnz:
        listed = (listed + int(np.count_nonzero(adjacency.diagonal()))) // 2
    return Dataset(Graph(links, features, labels, class_names=class_names, name=name), listed)


def read_musae(
    name: str,
    filenames: tuple[str, ...],
    files: Files,
    *,
    node: str = "id",
    target: str = "target",
    quintiles: bool = False,
) -> Dataset:
    """Read a dataset in the order of the numbers in column `node`. `filenames` are the files of edges, features and
    targets. Classes are the values of column `target`, or their `quintiles`."""
    edges, features, targets = (files[filename] for filename in filenames)
    ends = np.loadtxt(io.BytesIO(edges), np.int64, delimiter=",", skiprows=1, ndmin=2)
    rows = sorted(csv.DictReader(io.StringIO(targets.decode("utf-8"))), key=lambda row: int(row[node]))
    values = np.array([row[target] for row in rows])
    class_names, labels = np.unique(values, return_inverse=True)
    if quintiles:
        numbers = values.astype(np.float64)
        class_names, labels = np.empty(0), np.searchsorted(np.quantile(numbers, _QUINTILES), numbers)
    columns: Mapping[str, list[int]] = json.loads(features)
    row = np.repeat([int(number) for number in columns], [len(own) for own in columns.values()])
    column = np.concatenate([np.array(own, dtype=np.int64) for own in columns.values()])
    shape = len(rows), column.max() + 1
    table = sp.coo_array((np.ones(len(column), np.float32), (row, column)), shape=shape).tocsr()
    table.data[:] = 1  # some features are listed twice
    adjacency = undirected(ends[:, 0], ends[:, 1], len(rows), self_loops=False)
    return Dataset(Graph(adjacency, table, labels, class_names=tuple(class_names.tolist()), name=name), len(ends))


def read_minesweeper(files: Files) -> Dataset:
    """Read the cells of the grid in the order of the archive."""
    arrays = npz_arrays(io.BytesIO(files["minesweeper.npz"]), "minesweeper.npz", CELLS)
    features, labels, ends = (arrays[member] for member in CELLS)
    adjacency = undirected(ends[:, 0], ends[:, 1], len(labels), self_loops=False)
    return Dataset(Graph(adjacency, features, labels, name="minesweeper"), len(ends))


def read_airports(files: Files) -> Dataset:
    """Read the airports of the USA in the order of their ids."""
    edges, labels = (io.BytesIO(files[filename]) for filename in AIRPORT_FILES)
    ends, table = np.loadtxt(edges, np.int64, ndmin=2), np.loadtxt(labels, np.int64, skiprows=1, ndmin=2)
    node_ids, rows = np.unique(table[:, 0], return_index=True)
    ends = np.searchsorted(node_ids, ends)
    adjacency = undirected(ends[:, 0], ends[:, 1], len(rows), self_loops=False)
    return Dataset(Graph(adjacency, None, table[rows, 1], node_ids, name="airports-usa"), len(ends))
