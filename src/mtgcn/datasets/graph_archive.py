"""A graph as one `.npz`: `adj_matrix` and `node_attr` (pickled scipy matrices), `node_label`, perhaps `metadata`.

So the repository `EdisonLeeeee/GraphData` keeps graphs. The adjacency may be directed and hold self-loops, classes may
be numbered from 1 or with gaps: here edges have no direction, weight 1 and two ends, and classes are 0, 1, ….
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy

from mtgcn.datasets.dataset import Dataset, without_self_loops
from mtgcn.datasets.restricted_pickle import GRAPH_ARCHIVE, unpickled
from mtgcn.errors import InputError
from mtgcn.graph import Graph

MEMBER_BYTES = 64 << 20  # unpacked; the largest that is needed, the features of Amazon Photo, has 16 MB


def read(name: str, filename: str, files: Mapping[str, bytes]) -> Dataset:
    """The dataset in the archive's node order. Features are as they are in it."""
    try:
        with zipfile.ZipFile(io.BytesIO(files[filename])) as archive:
            adjacency = _matrix(archive, "adj_matrix", filename)
            features = _matrix(archive, "node_attr", filename)
            numbers, labels = np.unique(_plain_array(archive, "node_label"), return_inverse=True)
            class_names = _class_names(archive, numbers, filename)
    except InputError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise InputError(
            f"{filename} is not {GRAPH_ARCHIVE.title}: {error}; delete it, and it is fetched anew"
        ) from error
    listed = adjacency.tocoo()
    graph = Graph(
        adjacency=without_self_loops(listed.row, listed.col, adjacency.shape[0]),
        features=features,
        labels=labels,
        class_names=class_names,
        name=name,
    )
    return Dataset(graph, edges_listed=_edges_listed(adjacency), public_split=None)


def _edges_listed(adjacency: sp.csr_array) -> int:
    """Entries of the matrix; where every edge stands in both directions, as one."""
    if (adjacency != adjacency.T).nnz:
        return adjacency.nnz
    return (adjacency.nnz + int(np.count_nonzero(adjacency.diagonal()))) // 2


def _matrix(archive: zipfile.ZipFile, member: str, filename: str) -> sp.csr_array:
    pickled = _unpickled(archive, member, filename)
    if not isinstance(pickled, sp.csr_matrix):
        raise ValueError(f"{member} is of type {type(pickled).__name__}, not a sparse matrix")
    pickled.check_format(full_check=True)  # indices out of bounds would be read out of bounds
    matrix = sp.csr_array(pickled)
    matrix.sum_duplicates()
    return matrix


def _class_names(archive: zipfile.ZipFile, numbers: np.ndarray, filename: str) -> tuple[str, ...]:
    """The names that the archive gives its classes, else their numbers."""
    metadata = _unpickled(archive, "metadata", filename) if "metadata.npy" in archive.namelist() else {}
    names = metadata.get("class_names", ())
    return tuple(str(names[number] if numbers.max() < len(names) else number) for number in numbers)


def _unpickled(archive: zipfile.ZipFile, member: str, filename: str) -> Any:
    """The one object in an array of objects, which numpy itself would unpickle without asking what it is."""
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
