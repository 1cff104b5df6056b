"""Graphs of the repository `EdisonLeeeee/GraphData`: `.npz` archives, and Chameleon.

An archive holds `adj_matrix` and `node_attr` (pickled scipy matrices), `node_label`, and optionally `metadata`. Its
adjacency may be directed and have self-loops, and its classes may start at 1 or have gaps; here edges are undirected
with weight 1 and no self-loops, and classes are 0, 1, ….

Chameleon (Rozemberczki, Allen and Sarkar, 2021): pages of Wikipedia about chameleons, and links between them.
`edges.csv` has two page numbers a line, `features.json` the words of each page, `target.csv` its monthly traffic. The
class of a page is the quintile of its traffic.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy

from mtgcn.datasets.dataset import Dataset, undirected
from mtgcn.datasets.restricted_pickle import GRAPH_ARCHIVE, unpickled
from mtgcn.errors import InputError
from mtgcn.graph import Graph

MEMBER_BYTES = 64 << 20  # limit of an unpacked array; the largest has 16 MB
CHAMELEON_FILES = ("chameleon/edges.csv", "chameleon/features.json", "chameleon/target.csv")
_QUINTILES = (0.2, 0.4, 0.6, 0.8)


def read_archive(name: str, filename: str, files: Mapping[str, bytes]) -> Dataset:
    """The dataset in the node order of the archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(files[filename])) as archive:
            adjacency = _matrix(archive, "adj_matrix", filename)
            features = _matrix(archive, "node_attr", filename)
            numbers, labels = np.unique(_plain_array(archive, "node_label"), return_inverse=True)
            class_names = _class_names(archive, numbers, filename)
    except InputError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise InputError(f"{filename} is not {GRAPH_ARCHIVE.title}: {error}; delete it to fetch it again") from error
    listed = adjacency.tocoo()
    graph = Graph(
        adjacency=undirected(listed.row, listed.col, adjacency.shape[0], self_loops=False),
        features=features,
        labels=labels,
        class_names=class_names,
        name=name,
    )
    return Dataset(graph, edges_listed=_edges_listed(adjacency), public_split=None)


def _edges_listed(adjacency: sp.csr_array) -> int:
    """The entries of the matrix; if it is symmetric, the undirected edges."""
    if (adjacency != adjacency.T).nnz:
        return adjacency.nnz
    return (adjacency.nnz + int(np.count_nonzero(adjacency.diagonal()))) // 2


def _matrix(archive: zipfile.ZipFile, member: str, filename: str) -> sp.csr_array:
    pickled = _unpickled(archive, member, filename)
    if not isinstance(pickled, sp.csr_matrix):
        raise ValueError(f"{member} is of type {type(pickled).__name__}, not a sparse matrix")
    pickled.check_format(full_check=True)
    matrix = sp.csr_array(pickled)
    matrix.sum_duplicates()
    return matrix


def _class_names(archive: zipfile.ZipFile, numbers: np.ndarray, filename: str) -> tuple[str, ...]:
    """Class names of the archive, otherwise numbers."""
    metadata = _unpickled(archive, "metadata", filename) if "metadata.npy" in archive.namelist() else {}
    names = metadata.get("class_names", ())
    return tuple(str(names[number] if numbers.max() < len(names) else number) for number in numbers)


def _unpickled(archive: zipfile.ZipFile, member: str, filename: str) -> Any:
    """The object in an object array, with restricted unpickling."""
    content = io.BytesIO(_unpacked(archive, member))
    if npy.read_magic(content) != (1, 0):
        raise ValueError(f"{member} is not of version 1.0 of numpy's format")
    npy.read_array_header_1_0(content)
    return unpickled(content.read(), f"{member} of {filename}", GRAPH_ARCHIVE).item()


def _plain_array(archive: zipfile.ZipFile, member: str) -> np.ndarray:
    return npy.read_array(io.BytesIO(_unpacked(archive, member)), allow_pickle=False)


def _unpacked(archive: zipfile.ZipFile, member: str) -> bytes:
    entry = archive.getinfo(f"{member}.npy")
    if entry.file_size > MEMBER_BYTES:
        raise ValueError(f"{member} unpacks to {entry.file_size} bytes, more than {MEMBER_BYTES}")
    return archive.read(entry)


def read_chameleon(files: Mapping[str, bytes]) -> Dataset:
    """Chameleon with pages in the order of their numbers."""
    ends, targets = (_whole_numbers(files[f"chameleon/{table}.csv"]) for table in ("edges", "target"))
    pages = len(targets)
    traffic = np.empty(pages)
    traffic[targets[:, 0]] = targets[:, 1]
    graph = Graph(
        adjacency=undirected(ends[:, 0], ends[:, 1], pages, self_loops=False),
        features=_word_table(json.loads(files["chameleon/features.json"]), pages),
        labels=np.searchsorted(np.quantile(traffic, _QUINTILES), traffic),
        name="chameleon",
    )
    return Dataset(graph, edges_listed=len(ends), public_split=None)


def _whole_numbers(table: bytes) -> np.ndarray:
    return np.loadtxt(io.BytesIO(table), dtype=np.int64, delimiter=",", skiprows=1, ndmin=2)


def _word_table(words_of: Mapping[str, list[int]], pages: int) -> sp.csr_array:
    """One column per word, 1 for the words of a page."""
    page = np.repeat([int(number) for number in words_of], [len(words) for words in words_of.values()])
    word = np.concatenate([np.array(words, dtype=np.int64) for words in words_of.values()])
    table = sp.coo_array((np.ones(len(word), np.float32), (page, word)), shape=(pages, word.max() + 1)).tocsr()
    table.data[:] = 1
    return table
