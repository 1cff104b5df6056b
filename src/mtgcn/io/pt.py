"""A graph that PyTorch Geometric saved with `torch.save`, read without running anything that the file names.

A `.pt` file is a pickle, which may run any code. torch's reader for weights builds tensors and plain containers alone;
to it we add stand-ins for the few classes a `Data` consists of, which hold what they are given and do nothing. So PyG
need not be installed either.
"""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mtgcn.errors import InputError
from mtgcn.io.arrays import GraphArrays, as_array, checked_count
from mtgcn.io.labels import encoded_labels
from mtgcn.io.paths import reason
from mtgcn.memory import check_fits

COPIES = 3  # that checking and converting tensors takes at most at the same time
# What a pickled Data names besides tensors: itself, where it keeps them, and how they are asked for.
CLASSES = (
    "torch_geometric.data.data.Data",
    "torch_geometric.data.data.DataEdgeAttr",
    "torch_geometric.data.data.DataTensorAttr",
    "torch_geometric.data.storage.BaseStorage",
    "torch_geometric.data.storage.EdgeStorage",
    "torch_geometric.data.storage.GlobalStorage",
    "torch_geometric.data.storage.NodeStorage",
)


def read_pt(path: Path) -> GraphArrays:
    """The graph in a `.pt` file: a `Data`, a dictionary with its `edge_index`, or a dataset that PyG processed and that
    holds a single graph."""
    parts = _parts(_loaded(path))
    if parts is None or parts.get("edge_index") is None:
        raise _not_read(path, "holds no edge_index of a single graph")
    try:
        edges = np.asarray(as_array(parts["edge_index"]))
        features, weights = _numbers(path, parts, "x"), _numbers(path, parts, "edge_weight")
        given = parts.get("y")
        labels, names = (None, ()) if given is None else encoded_labels(np.asarray(as_array(given)))
    except (TypeError, AttributeError, RuntimeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise _not_read(path, f"has parts that are no arrays ({reason(error)})") from error
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        raise InputError(f"{path}: edge_index is of shape {edges.shape}; give two rows of node numbers")
    return GraphArrays(
        node_ids=np.arange(_count(path, parts, edges, features, labels)),
        sources=edges[0],
        targets=edges[1],
        weights=None if weights is None else np.asarray(weights),
        features=features,
        feature_names=(),
        labels=labels,
        class_names=names,
        directed=True,  # PyTorch Geometric lists both directions of an edge
    )


def _loaded(path: Path) -> Any:
    import torch

    known = {_full_name(one) for one in torch.serialization.get_safe_globals()}  # PyG's own, where it is imported
    stand_ins = [(_stand_in(name), name) for name in CLASSES if name not in known]
    try:
        unpacked = _unpacked_bytes(path)
        check_fits(COPIES * unpacked, f"{path}, unpacked,", "give a smaller graph, or features as a sparse tensor")
        with torch.serialization.safe_globals(stand_ins):  # type: ignore[arg-type]
            return torch.load(path, map_location="cpu", weights_only=True)
    except (MemoryError, InputError):
        raise
    except Exception as error:  # torch answers a malformed file with whatever its reader stumbled over
        named = str(error).partition("GLOBAL ")[2].partition(" ")[0]
        if isinstance(error, pickle.UnpicklingError) and named:
            raise _not_read(path, f"names {named}") from None
        raise InputError(
            f"{path} is no whole file that torch.save wrote ({reason(error)}); was it cut off? write it again"
        ) from None


def _unpacked_bytes(path: Path) -> int:
    """How much a file holds: more than its size if it is packed, which `torch.save` never does."""
    if not zipfile.is_zipfile(path):  # of the older kind, which packs nothing
        return path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        return sum(member.file_size for member in archive.infolist())


def _stand_in(name: str) -> type:
    return type(name.rpartition(".")[2], (), {"__doc__": f"In place of {name}: holds what it is given."})


def _full_name(allowed: Any) -> str:
    return allowed[1] if isinstance(allowed, tuple) else f"{allowed.__module__}.{allowed.__qualname__}"


def _parts(content: Any) -> Mapping[str, Any] | None:
    """The arrays of a graph by their names; None where there is none, or more than one."""
    if isinstance(content, tuple | list):  # a processed dataset: the graphs as one, and where each begins
        slices = content[1] if len(content) > 1 else None
        several = isinstance(slices, Mapping) and any(np.size(as_array(starts)) != 2 for starts in slices.values())
        return None if several or not content else _parts(content[0])
    if isinstance(content, Mapping):
        return content
    kept = vars(vars(content).get("_store", content)).get("_mapping") if hasattr(content, "__dict__") else None
    return kept if isinstance(kept, Mapping) else None


def _count(path: Path, parts: Mapping[str, Any], edges: np.ndarray, features: Any, labels: Any) -> int:
    told = parts.get("num_nodes")
    if isinstance(told, int) and not isinstance(told, bool):
        return checked_count(told, str(path))
    rows = [part.shape[0] for part in (features, labels) if part is not None and part.ndim]
    nodes = rows[0] if rows else int(edges.max(initial=-1)) + 1
    if any(number != nodes for number in rows):
        raise InputError(f"{path}: x has {rows[0]} rows and y has {rows[1]}; give one of each per node")
    return checked_count(nodes, str(path))


def _numbers(path: Path, parts: Mapping[str, Any], name: str) -> Any:
    """An array of numbers under that name, sparse or not; None where there is none."""
    array = as_array(parts.get(name))
    if array is not None and array.dtype.kind not in "biuf":
        raise _not_read(path, f"has {name} of type {array.dtype}, which are no numbers")
    return array


def _not_read(path: Path, why: str) -> InputError:
    target = path.with_suffix(".npz").name
    return InputError(
        f"{path} {why}; only what builds a PyG Data is read, since a .pt file may run any code. If you trust it, "
        f'convert it in Python: data = torch.load("{path.name}", weights_only=False); '
        f'numpy.savez("{target}", edge_index=data.edge_index, x=data.x, y=data.y) and give --graph {target}'
    )
