"""A graph cut into parts: a folder with one `.npz` file for each of them and a manifest, checked when they are read.

    SHARDS/
      manifest.json     sizes of the whole, how columns were prepared, how nodes were ordered; sums of all files
      part-00000.npz    some nodes, next to each other in that order: their ids, features and rows of the adjacency

A node is known by its place in the order of all parts, and by its number, the row it had in the node table.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from pydantic import BaseModel, ConfigDict, NonNegativeInt

from mtgcn.errors import InputError, reason
from mtgcn.graph_checks import compressed_matrix
from mtgcn.io.preprocessing.preprocessor import Preprocessor
from mtgcn.shapes import Int
from mtgcn.storage.files import parsed_json, read_plain
from mtgcn.storage.folders import current_path

MANIFEST = "manifest.json"
PARTS = "part-*.npz"
KIND, FORMAT = "mtgcn shards", 1
LARGEST_MANIFEST = 1 << 30


class PartEntry(BaseModel):
    """The entry of a part in the manifest."""

    model_config = ConfigDict(strict=True)
    file: str
    sha256: str
    nodes: NonNegativeInt
    entries: NonNegativeInt
    bytes: NonNegativeInt


class ManifestContent(BaseModel):
    """The content of `manifest.json`, other keys aside."""

    model_config = ConfigDict(strict=True)
    name: str
    nodes: NonNegativeInt
    edges: NonNegativeInt
    entries: NonNegativeInt
    features: NonNegativeInt
    sparse: bool
    order: str
    feature_names: list[str]
    parts: list[PartEntry]


class DamagedShards(InputError):
    """Shards that are no longer what was written."""


class OtherFormat(InputError):
    """Shards that another version wrote."""


@dataclass(frozen=True)
class Manifest:
    """What is to be known of a graph before any part of it is read."""

    folder: Path
    card: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.card["name"])

    @property
    def num_nodes(self) -> int:
        return int(self.card["nodes"])

    @property
    def num_features(self) -> int:
        return int(self.card["features"])

    @property
    def mean_degree(self) -> float:
        """Neighbours of a node, on average, as `Graph` counts them."""
        return int(self.card["entries"]) / self.num_nodes

    @property
    def parts(self) -> Sequence[Mapping[str, Any]]:
        parts: Sequence[Mapping[str, Any]] = self.card["parts"]
        return parts

    @property
    def preprocessing(self) -> Preprocessor:
        return Preprocessor.of(self.card["preprocessing"])

    @property
    def sum(self) -> str:
        """Of all that the manifest says, and so of all files."""
        return str(self.card["sha256"])


@dataclass(frozen=True, eq=False)
class Part:
    """Some nodes, in order. Columns of the adjacency are places in the order of all nodes; the diagonal is stored, also
    where it is 0, so that adding self-loops changes no index."""

    numbers: Int[np.ndarray, "nodes"]  # the rows they had in the node table
    ids: pa.Array  # text
    adjacency: sp.csr_array
    features: sp.csr_array | np.ndarray


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
    stored = int(part.adjacency.nnz)
    return {"file": path.name, "nodes": len(part.numbers), "entries": stored, **_sums(path)}


def read_part(manifest: Manifest, part: int) -> Part:
    """A part, if it is what the manifest says it is."""
    entry = manifest.parts[part]
    name, nodes = str(entry["file"]), int(entry["nodes"])
    path = current_path(manifest.folder, name)
    try:
        if path.stat().st_size != entry["bytes"]:
            raise _damaged(manifest.folder, f"{name} has {path.stat().st_size} bytes, not {entry['bytes']}")
        if _sums(path)["sha256"] != entry["sha256"]:
            raise _damaged(manifest.folder, f"{name} was changed after it was written")
        with np.load(path, allow_pickle=False) as arrays:
            content = {key: arrays[key] for key in arrays.files}
        return _part_of(content, nodes, manifest)
    except FileNotFoundError:
        raise _damaged(manifest.folder, f"{name} is missing") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}; check path and permissions") from error
    except (KeyError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise _damaged(manifest.folder, f"{name} does not fit the manifest ({error})") from error


def _part_of(arrays: Mapping[str, np.ndarray], nodes: int, manifest: Manifest) -> Part:
    ends = np.ascontiguousarray(arrays["ids.ends"], dtype=np.int64)
    text = np.ascontiguousarray(arrays["ids.text"], dtype=np.uint8)
    if (
        arrays["numbers"].shape != (nodes,)
        or len(ends) != nodes + 1
        or ends[-1] > len(text)
        or (np.diff(ends) < 0).any()
    ):
        raise ValueError("ids and numbers of another length")
    ids = pa.LargeStringArray.from_buffers(nodes, pa.py_buffer(ends), pa.py_buffer(text))
    ids.validate(full=True)
    if manifest.card["sparse"]:
        features: Any = _sparse_from("features", arrays, (nodes, manifest.num_features))
    else:
        features = arrays["features"]
        if features.shape != (nodes, manifest.num_features) or features.dtype != np.float32:
            raise ValueError(f"features of shape {features.shape}")
    return Part(arrays["numbers"], ids, _sparse_from("adjacency", arrays, (nodes, manifest.num_nodes)), features)


def _sparse_arrays(name: str, matrix: sp.csr_array) -> dict[str, np.ndarray]:
    return {f"{name}.{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}


def _sparse_from(name: str, arrays: Mapping[str, np.ndarray], shape: tuple[int, int]) -> sp.csr_array:
    data, indices, indptr = (arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    return compressed_matrix(data, indices, indptr, shape)


def manifest_text(card: dict[str, Any]) -> str:
    """The manifest as it is written, with its own sum."""
    whole = {"kind": KIND, "format": FORMAT, **card}
    return json.dumps({**whole, "sha256": _sum_of(whole)}, indent=1)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder of shards, checked; no part is opened."""
    try:
        card = parsed_json(read_plain(current_path(folder, MANIFEST), LARGEST_MANIFEST))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{folder} holds no shards; give a folder that `shard` has written") from None
    except OSError as error:
        raise InputError(f"cannot read {folder / MANIFEST}: {error.strerror}; check path and permissions") from error
    except ValueError as error:
        raise _damaged(folder, f"{MANIFEST} is not JSON, {error}") from error
    if not isinstance(card, dict) or card.get("kind") != KIND:
        raise InputError(f"{folder} holds no shards; give a folder that `shard` has written")
    if card.get("format") != FORMAT:
        raise OtherFormat(f"{folder} has shards of format {card.get('format')}, and {FORMAT} is read; shard again")
    if card.get("sha256") != _sum_of(card):
        raise _damaged(folder, f"{MANIFEST} was changed after it was written")
    try:
        ManifestContent.model_validate(card)
        if sum(part["nodes"] for part in card["parts"]) != card["nodes"]:
            raise ValueError("parts do not add up to the whole")
    except ValueError as error:
        raise _damaged(folder, f"{MANIFEST} is not what mtgcn writes ({reason(error)})") from error
    return Manifest(folder, card)


def is_shards(folder: Path) -> bool:
    """Whether a folder has a manifest of shards, of any format, perhaps a damaged one."""
    try:
        read_manifest(folder)
    except (DamagedShards, OtherFormat):
        return True
    except InputError:
        return False
    return True


def _sum_of(card: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in card.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _sums(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _damaged(folder: Path, why: str) -> DamagedShards:
    return DamagedShards(f"the shards in {folder} are damaged: {why}; restore them from a copy, or shard again")
