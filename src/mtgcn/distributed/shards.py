"""Shards: a folder with one `.npz` file for each part of a graph and a manifest with their checksums. Each rank holds
the graph of some of these parts.

    SHARDS/
      manifest.json     sizes of the graph, preprocessing, order of the nodes, checksums of all files
      part-00000.npz    consecutive nodes of that order: their ids, features and rows of the adjacency

A node has a position in the order of all parts, and a number, its row in the node table.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import torch
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt

from mtgcn.distributed.communicator import RankCommunicator, Ranks
from mtgcn.errors import InputError
from mtgcn.estimator.persistence import checksum
from mtgcn.graph import Graph
from mtgcn.graph_checks import compressed_matrix
from mtgcn.io.preprocessing import Preprocessor
from mtgcn.labels import UNLABELED
from mtgcn.shapes import Int
from mtgcn.storage.files import check_folder, current_path, has_other_files, parsed_json, read_plain
from mtgcn.task import Nodes, Task, run_seed

MANIFEST = "manifest.json"
PARTS = "part-*.npz"
KIND, FORMAT = "mtgcn shards", 1
MAX_CARD_BYTES = 1 << 30


class PartEntry(BaseModel):
    """The manifest entry of a part."""

    model_config = ConfigDict(strict=True)
    file: str
    sha256: str
    nodes: NonNegativeInt


class Manifest(BaseModel):
    """The content of `manifest.json`."""

    model_config = ConfigDict(strict=True)
    folder: Path = Field(default=Path(), exclude=True)
    name: str
    num_nodes: NonNegativeInt = Field(alias="nodes")
    num_edges: NonNegativeInt = Field(alias="edges")
    entries: NonNegativeInt  # number of entries of the adjacency
    num_features: NonNegativeInt = Field(alias="features")
    sparse: bool  # whether the features are sparse
    order: str
    preprocessing: dict[str, Any]
    parts: list[PartEntry]
    sha256: str  # checksum of all other content, which includes the checksums of the files

    @property
    def preprocessor(self) -> Preprocessor:
        return Preprocessor.of(self.preprocessing)


@dataclass(frozen=True, eq=False)
class Part:
    """A part: consecutive nodes. Columns of the adjacency are positions in the order of all nodes. The diagonal is
    stored, including zeros, so that adding self-loops does not change any index."""

    numbers: Int[np.ndarray, "nodes"]  # rows in the node table
    ids: pa.Array  # ids as text
    adjacency: sp.csr_array
    features: Any  # a sparse or dense matrix


def part_name(part: int) -> str:
    return f"part-{part:05d}.npz"


def write_part(path: Path, part: Part) -> dict[str, Any]:
    """Write a part; returns its entry in the manifest."""
    ids = pa.concat_arrays([part.ids.cast(pa.large_string())])
    _, ends, text = ids.buffers()
    arrays = {
        "numbers": part.numbers,
        "ids.ends": np.frombuffer(ends, np.int64)[: len(ids) + 1],
        "ids.text": np.frombuffer(text, np.uint8) if text is not None else np.zeros(0, np.uint8),
        **_sparse_arrays("adjacency", part.adjacency),
    }
    if isinstance(part.features, np.ndarray):
        arrays["features"] = part.features
    else:
        arrays |= _sparse_arrays("features", part.features)
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    return {"file": path.name, "nodes": len(ids), "entries": part.adjacency.nnz, "sha256": _file_sum(path)}


def read_part(manifest: Manifest, part: int) -> Part:
    """Read a part and check it against the manifest."""
    entry = manifest.parts[part]
    path = current_path(manifest.folder, entry.file)
    try:
        if _file_sum(path) != entry.sha256:
            raise _damaged(manifest.folder, f"{entry.file} was changed after it was written")
        with np.load(path, allow_pickle=False) as arrays:
            ids = pa.LargeStringArray.from_buffers(
                entry.nodes, pa.py_buffer(arrays["ids.ends"]), pa.py_buffer(arrays["ids.text"])
            )
            ids.validate(full=True)
            shape = entry.nodes, manifest.num_features
            features = _sparse_from("features", arrays, shape) if manifest.sparse else arrays["features"]
            adjacency = _sparse_from("adjacency", arrays, (entry.nodes, manifest.num_nodes))
            return Part(arrays["numbers"], ids, adjacency, features)
    except InputError:
        raise
    except FileNotFoundError:
        raise _damaged(manifest.folder, f"{entry.file} is missing") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}; check path and permissions") from error
    except (KeyError, ValueError) as error:
        raise _damaged(manifest.folder, f"{entry.file} does not fit the manifest ({error})") from error


def _sparse_arrays(name: str, matrix: sp.csr_array) -> dict[str, np.ndarray]:
    return {f"{name}.{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}


def _sparse_from(name: str, arrays: Mapping[str, np.ndarray], shape: tuple[int, int]) -> sp.csr_array:
    data, indices, indptr = (arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    return compressed_matrix(data, indices, indptr, shape)


def manifest_text(content: dict[str, Any]) -> str:
    """The text of the manifest, with a checksum of itself."""
    whole = {"kind": KIND, "format": FORMAT, **content}
    return json.dumps({**whole, "sha256": checksum(whole)}, indent=1)


def read_manifest(folder: Path) -> Manifest:
    """Read and check the manifest of a folder of shards; the parts are not read."""
    path = current_path(folder, MANIFEST)
    content: Any = None
    try:
        content = parsed_json(read_plain(path, MAX_CARD_BYTES))
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; check path and permissions") from error
    except ValueError as error:
        raise _damaged(folder, f"{MANIFEST} is not JSON, {error}") from error
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise InputError(f"{folder} contains no shards; give a folder written by `shard`")
    if content.get("format") != FORMAT:
        raise InputError(f"{folder} has format {content.get('format')}, expected {FORMAT}; shard again")
    if content.get("sha256") != checksum(content):
        raise _damaged(folder, f"{MANIFEST} was changed after it was written")
    return Manifest.model_validate({**content, "folder": folder})


def check_replaceable(folder: Path, what: str, card: str, kind: str, others: str) -> None:
    """Raise if a folder cannot be written, or if it has files that are not earlier shards or results: a `card` of that
    `kind`; where it is damaged or missing, only files that match `others`."""
    check_folder(folder, holds=f"the {what}")
    if not folder.is_dir() or not has_other_files(folder):
        return
    try:
        content = parsed_json(read_plain(current_path(folder, card), MAX_CARD_BYTES))
        is_replaceable = isinstance(content, dict) and content.get("kind") == kind
    except (OSError, ValueError):
        is_replaceable = all(path.name == card or path.match(others) for path in folder.iterdir())
    if not is_replaceable:
        raise InputError(f"{folder} is not empty and contains no {what}; give another folder")


def _file_sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _damaged(folder: Path, why: str) -> InputError:
    return InputError(f"the shards in {folder} are damaged: {why}; restore them from a copy, or shard again")


class LocalGraph(Graph):
    """The nodes of one rank. Sizes are those of the whole graph; tables have the rows of this rank's nodes.

    Columns of the adjacency are this rank's nodes, then its boundary. The diagonal is stored, including zeros.
    """

    communicator: RankCommunicator  # type: ignore[misc]
    ranks: Ranks
    manifest: Manifest
    numbers: Int[np.ndarray, "here"]  # rows in the node table
    ids: pa.Array

    def __init__(self, communicator: RankCommunicator, manifest: Manifest, **arrays: Any) -> None:
        # Checks are skipped, since the parts were checked when they were read.
        labels = np.full(communicator.here, UNLABELED)
        vars(self).update(arrays, labels=labels, class_names=(), name=manifest.name)
        vars(self).update(communicator=communicator, ranks=communicator.ranks, manifest=manifest)

    @property
    def num_nodes(self) -> int:
        return self.manifest.num_nodes

    @property
    def mean_degree(self) -> float:
        return self.manifest.entries / self.manifest.num_nodes

    def task(self, labels: Int[np.ndarray, "here"], class_names: tuple[str, ...], seed: int) -> Task:
        """The task with these labels of this rank's nodes; labelled nodes are in the order of the node table."""
        vars(self)["class_names"] = class_names
        index = np.flatnonzero(labels != UNLABELED)
        index = index[np.argsort(self.numbers[index])]
        labelled = Nodes(torch.from_numpy(index)[None], torch.from_numpy(labels[index].astype(np.int64))[None])
        device = self.ranks.device
        return Task(self, labelled.to(device), seeds=(run_seed(seed, 0),), device=device, seed=seed)


def read_local_graph(manifest: Manifest, ranks: Ranks) -> LocalGraph:
    """Read the parts of this rank. All ranks must call this."""
    count, rank = len(manifest.parts), ranks.rank
    if ranks.count > count:
        raise InputError(
            f"{ranks.count} ranks for {count} parts; start at most {count} ranks, or shard again with more --parts"
        )
    firsts = np.arange(ranks.count + 1) * count // ranks.count  # consecutive parts share most edges
    starts = np.cumsum([0, *(part.nodes for part in manifest.parts)])[firsts]
    mine = range(firsts[rank], firsts[rank + 1])
    part = ranks.together(lambda: _read_parts(manifest, mine))
    boundary, columns = _renumbered(part.adjacency.indices, starts[rank], starts[rank + 1])
    communicator = RankCommunicator(ranks, starts, part.numbers, boundary)
    shape = (communicator.here, communicator.here + communicator.boundary_size)
    adjacency = sp.csr_array((part.adjacency.data, columns, part.adjacency.indptr), shape=shape)
    return LocalGraph(communicator, manifest, **vars(part) | {"adjacency": adjacency})


def _read_parts(manifest: Manifest, numbers: range) -> Part:
    """Read consecutive parts as one. A dense table is filled part by part, since it may take half of the memory."""
    parts: list[Part] = []
    shape = sum(manifest.parts[number].nodes for number in numbers), manifest.num_features
    features: Any = None if manifest.sparse else np.empty(shape, dtype=np.float32)
    node = 0
    for number in numbers:
        part = read_part(manifest, number)
        if features is not None:
            features[node : node + len(part.ids)] = part.features
            node += len(part.ids)
            part = replace(part, features=None)
        parts.append(part)
    return Part(
        np.concatenate([part.numbers for part in parts]),
        pa.concat_arrays([part.ids for part in parts]),
        sp.csr_array(sp.vstack([part.adjacency for part in parts], format="csr")),
        sp.csr_array(sp.vstack([part.features for part in parts], format="csr")) if features is None else features,
    )


def _renumbered(columns: Int[np.ndarray, "entries"], first: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    """The sorted boundary, and the columns renumbered in place: this rank's nodes from 0 on, then the boundary."""
    outside = (columns < first) | (columns >= end)
    boundary = np.unique(columns[outside]).astype(np.int64)
    places = end - first + np.searchsorted(boundary, columns[outside])
    columns -= first
    columns[outside] = places
    return boundary, columns.astype(np.int32, copy=False)
