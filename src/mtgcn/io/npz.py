"""Arrays in an `.npz` file. Nothing is unpickled, and indices are checked before anything follows them."""

from __future__ import annotations

import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError
from mtgcn.io.arrays import GraphArrays, checked_count, compressed_matrix
from mtgcn.io.attributed import node_ids
from mtgcn.io.labels import encoded_labels
from mtgcn.io.paths import reason, shown
from mtgcn.memory import check_fits

SPARSE_PARTS = ("data", "indices", "indptr", "shape")
FEATURE_NAMES = ("features", "x")
LABEL_NAMES = ("labels", "y")
COPIES = 3  # that checking and converting arrays takes at most at the same time


def read_npz(path: Path) -> GraphArrays:
    """Edges from `edge_index`, `adjacency`, `adj_data` … or scipy's own `save_npz`; `features`, `labels`, `node_ids`
    and `class_names` if they are there."""
    arrays = _arrays(path)
    sources, targets, weights, nodes = _edges(path, arrays)
    features = _named(arrays, FEATURE_NAMES)
    if features is None and "attr_data" in arrays:
        features = _sparse(path, arrays, "attr_")
    labels, class_names = _labels(path, arrays)
    if nodes is None:
        sized = [part.shape[0] for part in (features, labels, arrays.get("node_ids")) if part is not None and part.ndim]
        nodes = sized[0] if sized else int(max(sources.max(initial=-1), targets.max(initial=-1))) + 1
    nodes = checked_count(nodes, str(path))
    ids = arrays.get("node_ids")
    if ids is not None and (ids.ndim != 1 or ids.dtype.kind not in "iuUS"):
        raise InputError(f"{path}: node_ids are {_described(ids)}; give one whole number or text per node")
    return GraphArrays(
        node_ids=np.arange(nodes) if ids is None else node_ids(_texts(path, "node_ids", ids), str(path)),
        sources=sources,
        targets=targets,
        weights=weights,
        features=None if features is None else _numeric(path, "features", features),
        labels=labels if class_names else None,
        class_names=class_names,
        directed=True,  # a matrix or an edge index lists both directions of an edge
    )


def _arrays(path: Path) -> dict[str, np.ndarray]:
    problems = (
        OSError,
        ValueError,
        KeyError,
        EOFError,
        SyntaxError,
        RuntimeError,
        MemoryError,
        OverflowError,
        TypeError,
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy's advice about old headers is not the reader's to follow
            with path.open("rb") as raw:  # numpy leaves a file open that it cannot make sense of
                file = np.load(raw, allow_pickle=False)
                if not isinstance(file, np.lib.npyio.NpzFile):
                    raise InputError(f"{path} holds one array and no names; write it with numpy.savez(…, edge_index=…)")
                _check_members(path, file.zip)
                arrays = {name: file[name] for name in file.files}
    except (*problems, zipfile.BadZipFile, zlib.error) as problem:
        if isinstance(problem, InputError):
            raise
        raise InputError(
            f"{path} cannot be read as .npz ({reason(problem)}); write it again, without objects"
        ) from None
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise InputError(f"{path}: {shown(name)} is no array; write the file with numpy.savez")
    return arrays


def _check_members(path: Path, archive: zipfile.ZipFile | None) -> None:
    """Look at the list of what is packed before anything is unpacked: a few bytes can grow without end."""
    members = archive.infolist() if archive else []
    names = [member.filename for member in members]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{path} holds {shown(twice)} twice; write it again, each array once")
    unpacked = sum(member.file_size for member in members)
    check_fits(COPIES * unpacked, f"{path}, unpacked,", "give a smaller graph, or features as a sparse matrix")


def _edges(path: Path, arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, int | None]:
    """Sources, targets, weights and, where a matrix tells it, how many nodes there are."""
    if "edge_index" in arrays:
        edges = arrays["edge_index"]
        if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
            raise InputError(f"{path}: edge_index is {_described(edges)}; give whole numbers, two rows")
        weights = arrays.get("edge_weight")
        if weights is not None:
            weights = _numeric(path, "edge_weight", weights)
            if weights.shape != edges.shape[1:]:
                raise InputError(
                    f"{path}: edge_weight of shape {weights.shape} for {edges.shape[1]} edges; give one each"
                )
        if edges.dtype.kind == "u" and edges.max(initial=0) > np.iinfo(np.int64).max:
            raise InputError(f"{path}: edge_index names node {edges.max()}; number nodes from 0 on")
        sources, targets = edges.astype(np.int64)
        return sources, targets, weights, None
    if "adjacency" in arrays:
        given = _numeric(path, "adjacency", arrays["adjacency"])
        if given.ndim != 2:
            raise InputError(f"{path}: adjacency of shape {given.shape}; give a square matrix, one row per node")
        matrix = sp.coo_array(given)
    elif "adj_data" in arrays:
        matrix = _sparse(path, arrays, "adj_").tocoo()
    elif "format" in arrays:
        matrix = _sparse(path, arrays, "").tocoo()
    else:
        named = ", ".join(sorted(arrays)[:8]) or "nothing"
        raise InputError(f"{path} holds {named}; give edge_index, adjacency or what scipy.sparse.save_npz writes")
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"{path}: adjacency of shape {matrix.shape}; give a square matrix, one row per node")
    matrix.sum_duplicates()
    return matrix.row.astype(np.int64), matrix.col.astype(np.int64), matrix.data, matrix.shape[0]


def _sparse(path: Path, arrays: dict[str, np.ndarray], prefix: str) -> sp.csr_array:
    """A matrix in its three arrays, whose indices may point anywhere until they are checked."""
    layout = "csr" if prefix else "".join(map(str, _texts(path, "format", arrays["format"].reshape(-1)[:1])))
    if layout not in ("csr", "csc"):
        raise InputError(f"{path}: a sparse matrix in the form {shown(layout)}; save it as csr")
    missing = [prefix + part for part in SPARSE_PARTS if prefix + part not in arrays]
    if missing:
        raise InputError(f"{path} lacks {', '.join(missing)}; a sparse matrix needs {', '.join(SPARSE_PARTS)}")
    data, indices, indptr, shape = (arrays[prefix + part] for part in SPARSE_PARTS)
    if shape.dtype.kind not in "iu" or shape.shape != (2,):
        raise InputError(f"{path}: {prefix}shape is {_described(shape)}; give two whole numbers, as scipy writes them")
    try:
        numbers = _numeric(path, f"{prefix}data", data)
        return compressed_matrix(numbers, indices, indptr, tuple(shape.tolist()), by_column=layout == "csc")
    except ValueError as problem:
        if isinstance(problem, InputError):
            raise
        raise InputError(
            f"{path}: {prefix or 'its '}arrays are no sparse matrix ({reason(problem)}); save it again"
        ) from None


def _labels(path: Path, arrays: dict[str, np.ndarray]) -> tuple[np.ndarray | None, tuple[str, ...]]:
    given = _named(arrays, LABEL_NAMES)
    if given is None:
        return None, ()
    if given.dtype.kind not in "biufUS" or given.ndim > 2:
        raise InputError(f"{path}: labels are {_described(given)}; give one number or text per node")
    codes, names = encoded_labels(given)
    if "class_names" not in arrays:
        return codes, names
    told = tuple(map(str, _texts(path, "class_names", np.atleast_1d(arrays["class_names"]).ravel())))
    # A name of more digits than there are classes have would be none of their numbers, and may be endless.
    if not all(name.isascii() and name.isdecimal() and len(name) < 19 and int(name) < len(told) for name in names):
        raise InputError(
            f"{path}: class_names names {len(told)} classes and labels are {', '.join(names[:8])}; number them"
        )
    number = np.array([int(name) for name in names] + [-1], dtype=np.int64)
    return number[codes], told


def _named(arrays: dict[str, np.ndarray], names: tuple[str, ...]) -> np.ndarray | None:
    return next((arrays[name] for name in names if name in arrays), None)


def _texts(path: Path, name: str, values: np.ndarray) -> list[Any]:
    """The values as a list, bytes as the text that they are."""
    if values.dtype.kind != "S":
        return values.tolist()
    try:
        return [value.decode() for value in values.tolist()]
    except UnicodeDecodeError:
        raise InputError(f"{path}: {name} are bytes that are no UTF-8; write them as text") from None


def _numeric(path: Path, name: str, values: Any) -> Any:
    if values.dtype.kind not in "biuf":
        raise InputError(f"{path}: {name} is {_described(values)}; give numbers")
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _described(array: np.ndarray) -> str:
    return f"of type {array.dtype} and shape {array.shape}"
