"""The citation graphs Cora, Citeseer and PubMed: Planetoid's files (Yang, Cohen and Salakhutdinov, 2016), and Cora as
text.

`cora.content` (paper, words, class) and `cora.cites` (cited, citing) hold the content of Planetoid's files with papers
in another order. `cora_order.txt` lists the paper at each of Planetoid's positions, found by matching words, classes
and edges, so that results do not depend on the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources

import numpy as np
import scipy.sparse as sp

from mtgcn.datasets.dataset import Dataset, planetoid_split, undirected
from mtgcn.datasets.restricted_pickle import PLANETOID, unpickled
from mtgcn.graph import Graph
from mtgcn.labels import UNLABELED

# `x` and `y` repeat the training nodes, which open `allx` and `ally`; `tx` and `ty` are the test nodes.
_PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
CORA_TEXT_FILES = ("cora.content", "cora.cites")
CORA_CLASSES = (  # in the order of Planetoid's class numbers
    "Theory",
    "Reinforcement_Learning",
    "Genetic_Algorithms",
    "Neural_Networks",
    "Probabilistic_Methods",
    "Case_Based",
    "Rule_Learning",
)
_PUBLIC_TRAIN, _PUBLIC_TEST = 140, 1000  # the nodes that open and that close Planetoid's order


def filenames(name: str) -> tuple[str, ...]:
    return tuple(f"ind.{name}.{part}" for part in _PARTS)


def read(name: str, files: Mapping[str, bytes], class_names: tuple[str, ...] = ()) -> Dataset:
    """The dataset in Planetoid's node order; nodes without a label row are unlabelled."""

    def content(part: str) -> bytes:
        return files[f"ind.{name}.{part}"]

    pickled = {
        part: unpickled(content(part), f"ind.{name}.{part}", PLANETOID) for part in _PARTS if part != "test.index"
    }
    test = np.array(content("test.index").split(), dtype=np.int64)
    neighbours: Mapping[int, list[int]] = pickled["graph"]
    nodes = len(neighbours)

    # The node of each row: `tx` follows `test.index`, which is not sorted and, in Citeseer, has gaps.
    described = np.concatenate([np.arange(pickled["allx"].shape[0]), test])
    sources = np.repeat(list(neighbours), [len(targets) for targets in neighbours.values()])
    targets = np.concatenate([np.array(listed, dtype=np.int64) for listed in neighbours.values()])
    graph = Graph(
        adjacency=undirected(sources, targets, nodes),
        features=_placed(sp.vstack([pickled["allx"], pickled["tx"]]), described, nodes),
        labels=_classes(np.vstack([pickled["ally"], pickled["ty"]]), described, nodes),
        class_names=class_names,
        name=name,
    )
    # Each edge is in the lists of both ends.
    return Dataset(graph, edges_listed=len(sources) // 2, public_split=planetoid_split(len(pickled["y"]), test))


def _placed(rows: sp.spmatrix, described: np.ndarray, nodes: int) -> sp.csr_array:
    """The rows placed at their nodes, zeros elsewhere."""
    placement = sp.coo_array(
        (np.ones(len(described), np.float32), (described, np.arange(len(described)))), shape=(nodes, len(described))
    )
    return sp.csr_array(placement.tocsr() @ sp.csr_array(rows))


def _classes(one_hot: np.ndarray, described: np.ndarray, nodes: int) -> np.ndarray:
    labels = np.full(nodes, UNLABELED, dtype=np.int64)
    labels[described] = np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), UNLABELED)
    return labels


def read_cora_text(files: Mapping[str, bytes]) -> Dataset:
    """The dataset in Planetoid's node order."""
    position = {paper: node for node, paper in enumerate(planetoid_order())}
    nodes = len(position)

    labels = np.empty(nodes, dtype=np.int64)
    features: list[np.ndarray] = [np.empty(0)] * nodes
    for line in files["cora.content"].splitlines():
        paper, rest = line.split(b"\t", maxsplit=1)
        words, class_name = rest.rsplit(b"\t", maxsplit=1)
        node = position[paper.decode("ascii")]
        labels[node] = CORA_CLASSES.index(class_name.decode("ascii"))
        # One digit and one tab per word: every second byte is a digit.
        features[node] = np.frombuffer(words, dtype=np.uint8)[::2] == ord("1")

    papers = files["cora.cites"].decode("ascii").split()
    ends = np.array([position[paper] for paper in papers]).reshape(-1, 2)
    graph = Graph(
        adjacency=undirected(ends[:, 0], ends[:, 1], nodes),
        features=sp.csr_array(np.stack(features).astype(np.float32)),
        labels=labels,
        class_names=CORA_CLASSES,
        name="cora",
    )
    test = np.arange(nodes - _PUBLIC_TEST, nodes)
    return Dataset(graph, edges_listed=len(ends), public_split=planetoid_split(_PUBLIC_TRAIN, test))


def planetoid_order() -> list[str]:
    """The paper at each of Planetoid's positions."""
    return resources.files("mtgcn.datasets").joinpath("cora_order.txt").read_text(encoding="ascii").split()
