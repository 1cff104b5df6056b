"""Saving and loading models as folders of safetensors and JSON files.

    model/
      card.json              method, parameters, classes, versions, training; sizes and checksums of the other files
      weights.safetensors    parameters of the peers; absent for methods without parameters
      answers.safetensors    predictions for the nodes of the fit, peer weights, training history
      graph.safetensors      edges, features, labels and node ids of the fitted graph
      cells.parquet          the node table as written, for display; absent for graphs from other sources

Loading executes no code. Checksums detect damage; they are not a signature.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from mtgcn.environment import versions
from mtgcn.errors import InputError, check_names, reason, shown
from mtgcn.estimator.graph_model import GraphModel
from mtgcn.estimator.inputs import MAX_MAGNITUDE, check_magnitudes, num_columns
from mtgcn.estimator.predictions import GIVEN, NOT_PSEUDO_LABELED
from mtgcn.graph import Graph
from mtgcn.graph_checks import compressed_matrix
from mtgcn.io.preprocessing import Preprocessor
from mtgcn.methods import METHODS, create, name_of
from mtgcn.storage.files import (
    LOCK_TIMEOUT,
    HeldElsewhere,
    check_folder,
    check_no_links,
    current_path,
    exclusive_lock,
    has_other_files,
    parsed_json,
    read_current,
    read_plain,
    updating,
)
from mtgcn.task import PeerReport
from mtgcn.uncertainty.held_out import ExpectedAccuracy

Arrays = dict[str, np.ndarray]

KIND = "mtgcn model"
FORMAT = 6  # incremented whenever the content of a model folder changes incompatibly
CARD, WEIGHTS, ANSWERS, GRAPH = "card.json", "weights.safetensors", "answers.safetensors", "graph.safetensors"
CELLS = "cells.parquet"
FILES = (CARD, WEIGHTS, ANSWERS, GRAPH, CELLS)
CHANGE_LOCK = ".mtgcn-change.lock"
MAX_CARD_BYTES = 64 * 2**20  # a card has a few thousand bytes
MAX_READS = 3  # attempts to read files that do not match an unchanged card
ROUNDING = 1e-3
PEER_REPORT_ARRAYS = ("weights", "held_out_accuracy", "agreement", "teaching")


def save_model(model: GraphModel, folder: str | Path, training: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Write a fitted model and return its card. A model in that folder is replaced atomically; other files stay.

    `training` is added to the section `training` of the card.
    """
    folder = Path(folder)
    check_destination(folder)
    contents, card = contents_of(model), card_of(model, training or {})
    try:
        with updating(folder, FILES) as partial:
            card["files"] = {}
            for name, content in contents.items():
                _write_part(partial / name, content)
                card["files"][name] = file_entry(partial / name)
            card["sha256"] = checksum(card)
            text = json.dumps(card, indent=1, ensure_ascii=False)
            (partial / CARD).write_bytes(text.encode("utf-8", "backslashreplace"))
            for path in partial.iterdir():
                with path.open("rb") as file:
                    os.fsync(file.fileno())
    except HeldElsewhere:
        raise InputError(
            f"another process is still writing model folder {folder}; try again, or give another folder"
        ) from None
    except OSError as error:
        raise InputError(
            f"cannot write model folder {folder}: {error.strerror or error}; make room or give another folder; "
            "nothing was changed"
        ) from error
    return card


def load_model(folder: str | Path, kind: type[GraphModel] = GraphModel) -> GraphModel:
    """Read a model that `save_model` wrote, as an instance of `GraphModel` or of `MutualTeachingClassifier`."""
    folder = Path(folder)
    card, reads = read_card(folder), 1
    while True:  # read again on a mismatch, since another process may be replacing the files
        try:
            contents = {name: _read_part(folder, name, entry) for name, entry in card["files"].items()}
            break
        except InputError:
            previous, card = card, read_card(folder)
            reads = reads + 1 if card == previous else 1
            if reads > MAX_READS:
                raise

    def as_tuple(value: Any) -> Any:  # JSON turns the tuples of settings into lists
        if isinstance(value, dict):
            return {key: as_tuple(part) for key, part in value.items()}
        return tuple(map(as_tuple, value)) if isinstance(value, list) else value

    settings = as_tuple(card["method"]["settings"])
    try:
        method = create(card["method"]["name"], **settings)
    except InputError as error:
        raise InputError(f"model folder {folder} needs what this mtgcn lacks: {error}") from error
    try:
        model = kind(**as_tuple(card["estimator"]))
        model.method_ = method
        model.classes_ = np.array(card["classes"], dtype=card["classes_type"])
        if list(map(str, model.classes_)) != card["class_names"]:
            raise ValueError("class_names do not match classes")
        model.graph_ = _graph_from(contents[GRAPH], card, contents.get(CELLS))
        check_magnitudes(model.graph_)
        model.has_node_ids_ = card["graph"]["has_node_ids"]
        model.n_features_in_ = num_columns(model.graph_)
        if "feature_names" in card:
            model.feature_names_in_ = np.array(card["feature_names"], dtype=object)
        model.training_ = card["training"]
        stored = card["training"].get("expected_accuracy")
        model.expected_accuracy_ = stored and ExpectedAccuracy.from_card(stored)
        model.n_iter_, model.seed_ = card["training"]["epochs"], card["training"]["seed"]
        model.parameters_ = contents.get(WEIGHTS)
        for name, array in (model.parameters_ or {}).items():  # the method checks shapes when it uses the parameters
            _checked(f"weights {shown(name)}", array, array.shape, kinds="biuf")
        _set_predictions(model, contents[ANSWERS], card)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise damaged(folder, f"its parts do not fit together ({type(error).__name__}: {reason(error)})") from error
    return model


@contextmanager
def changing_model(folder: Path) -> Iterator[None]:
    """Lock a model folder from loading to saving, so that no change by another process is lost. Others can read it."""
    read_card(folder)  # the lock would create a folder that does not exist
    try:
        with exclusive_lock(folder / CHANGE_LOCK, f"changing model folder {folder}"):
            yield
    except HeldElsewhere:
        raise InputError(
            f"another process has been changing model folder {folder} for {LOCK_TIMEOUT:.0f} s; nothing was changed; "
            "try again"
        ) from None


def check_destination(folder: str | Path) -> None:
    """Raise if a model cannot be written to a folder, or if the folder has files but no model."""
    folder = Path(os.path.abspath(folder))
    check_folder(folder, holds="the model")
    check_no_links(folder)
    try:
        is_foreign = folder.is_dir() and has_other_files(folder) and not is_model(folder)
    except OSError as error:
        raise InputError(f"cannot look into {folder}: {error.strerror}; give another folder") from error
    if is_foreign:
        raise InputError(f"{folder} has files and is not a model folder; give another folder, nothing was changed")


# ---------------------------------------------------------------------------------------------------------------- card


def read_card(folder: str | Path) -> dict[str, Any]:
    """The validated card of a model folder; the other files are not opened."""
    folder = Path(folder)
    card = _raw_card(folder)
    if card is None:
        raise InputError(f"{folder} is not a model folder (no card.json of a model); give one that mtgcn fit wrote")
    if card.get("format") != FORMAT or type(card["format"]) is not int:
        written_by = card.get("versions")
        writer = str(written_by.get("mtgcn"))[:20] if isinstance(written_by, dict) else ""
        use = f"use mtgcn {writer}, which wrote it, or " if writer and writer != versions()["mtgcn"] else ""
        raise InputError(
            f"model folder {folder} has format {shown(card.get('format'))}, and mtgcn {versions()['mtgcn']} reads "
            f"format {FORMAT}; {use}fit the model again"
        )
    if card.get("sha256") != checksum(card):
        raise damaged(folder, "card.json was changed after it was written")
    from mtgcn.estimator.model_card import invalid_part

    invalid = invalid_part(card)  # the checksum detects damage, not intent
    if invalid is not None:
        raise damaged(folder, f"card.json is invalid ({invalid})")
    return card


def is_model(folder: Path) -> bool:
    """Whether a folder has the card of a model, of any format."""
    try:
        return _raw_card(folder) is not None
    except InputError:
        return False


def _raw_card(folder: Path) -> dict[str, Any] | None:
    """The JSON of a card; None if it is missing."""
    check_no_links(folder)
    try:
        card = parsed_json(read_current(folder, CARD, lambda path: read_plain(path, MAX_CARD_BYTES)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(
            f"cannot read {CARD} of model folder {folder}: {error.strerror}; check path and permissions"
        ) from error
    except ValueError as error:
        raise damaged(folder, f"card.json is not JSON, {error}") from error
    return card if isinstance(card, dict) and card.get("kind") == KIND else None


def damaged(folder: Path, why: str) -> InputError:
    """The error for a folder whose content was changed."""
    return InputError(f"model folder {folder} is damaged: {why}; restore it from a copy, or fit the model again")


def checksum(card: Mapping[str, Any]) -> str:
    """SHA-256 of the card without its checksum."""
    rest = {key: value for key, value in card.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def card_of(model: GraphModel, training: Mapping[str, Any]) -> dict[str, Any]:
    """The card of a fitted model, without the entries of files and its checksum."""
    graph, name = model.graph_, name_of(model.method_)
    if type(model.method_) not in METHODS.values():
        raise InputError(
            f"method {name} is not registered and cannot be saved; call "
            "mtgcn.methods.register with a name and its class first"
        )
    values = {field.name: getattr(model.method_, field.name) for field in fields(model.method_) if field.init}
    method = {"name": name, "settings": _plain(values)}
    parameters = {name: getattr(model, name) for name in sorted(signature(type(model)).parameters) if name != "verbose"}
    if not isinstance(model.method, str | None):  # a method object
        parameters |= {"method": name, "settings": method["settings"]}
    if not isinstance(model.device, str):  # the index of a GPU does not belong to a model
        parameters["device"] = model.device.type
    if not isinstance(model.random_state, int | np.integer):
        parameters["random_state"] = None  # a generator, whose state has changed
    names = getattr(model, "feature_names_in_", None)  # only if the features have names
    return {
        "kind": KIND,
        "format": FORMAT,
        "method": method,
        "estimator": _plain(parameters),
        "classes": model.classes_.tolist(),
        "classes_type": model.classes_.dtype.str if model.classes_.dtype != object else "object",
        "class_names": list(graph.class_names),
        **({} if names is None else {"feature_names": list(names)}),
        **({} if model.peer_report_ is None else {"peer_names": list(model.peer_report_.names)}),
        "graph": {
            "name": graph.name,
            "nodes": graph.num_nodes,
            "edges": graph.num_edges,
            "features": graph.num_features,
            "has_node_ids": model.has_node_ids_,
            "numbered": graph.numbered,
            "feature_names": list(graph.feature_names),
        },
        "preprocessing": None if graph.preprocessing is None else graph.preprocessing.plain(),
        "training": {
            "epochs": int(model.n_iter_),
            "seed": model.seed_,
            "labels_given": dict(zip(graph.class_names, graph.label_counts.tolist(), strict=True)),
            **({"expected_accuracy": asdict(model.expected_accuracy_)} if model.expected_accuracy_ else {}),
            **training,
        },
        "versions": versions(),
    }


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same values after a round trip through JSON."""

    def item(value: object) -> Any:
        if isinstance(value, np.generic):
            return value.item()
        raise TypeError(type(value).__name__)

    try:
        return json.loads(json.dumps(values, default=item))
    except TypeError as error:
        raise InputError(
            f"{error} is code, which a model folder never contains; use a name (backbone='gat'), or pickle"
        ) from error


# -------------------------------------------------------------------------------------------------------------- files


def _read_part(folder: Path, name: str, entry: Mapping[str, Any]) -> Any:
    """The arrays of a safetensors file, or the cells, after comparing size and checksum with the card."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    path = current_path(folder, name)
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # reading a pipe would block
            raise damaged(folder, f"{name} is not a plain file")
        if found.st_size != entry["bytes"]:
            raise damaged(folder, f"{name} has {found.st_size} bytes, not {entry['bytes']}")
        if file_entry(path)["sha256"] != entry["sha256"]:
            raise damaged(folder, f"{name} was changed after it was written")
        return _read_cells(folder, path) if name == CELLS else load_file(path)
    except FileNotFoundError:
        raise damaged(folder, f"{name} is missing") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; check path and permissions") from error
    except SafetensorError as error:
        raise damaged(folder, f"{name} is not a safetensors file, {error}") from error


def _read_cells(folder: Path, path: Path) -> Any:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile  # read_table imports pandas

    try:
        with path.open("rb") as content, ParquetFile(content) as file:
            cells = file.read()
        return cells.cast(pa.schema([(name, pa.string()) for name in cells.column_names]))
    except (pa.ArrowException, ValueError) as error:
        raise damaged(folder, f"{path.name} is not a table of text ({reason(error)})") from error


def _write_part(path: Path, content: Any) -> None:
    """Write arrays as a safetensors file, or the cells as a Parquet file."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    if path.name == CELLS:
        from pyarrow.parquet import write_table

        with path.open("wb") as file:  # Arrow does not open names that are not Unicode
            write_table(content, file)
        return
    path.touch()
    default_mode = path.stat().st_mode  # safetensors would create a file that only its owner can read
    try:
        save_file({name: np.ascontiguousarray(array) for name, array in content.items()}, path)
    except SafetensorError as error:  # for instance a full disk
        raise OSError(str(error)) from error
    path.chmod(default_mode)


def file_entry(path: Path) -> dict[str, Any]:
    """Size and checksum of a file."""
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


# ------------------------------------------------------------------------------------------------------------- arrays


def contents_of(model: GraphModel) -> dict[str, Any]:
    """The arrays of a fitted model by file, and its cells. Text ids of nodes are stored as UTF-8, with the
    end of each."""
    graph, ids = model.graph_, model.graph_.node_ids
    answers = {
        "label_distributions": model.label_distributions_,
        "labeled_iter": model.labeled_iter_,
        **{f"history.{name}": values for name, values in model.history_.items()},
    }
    optional = {"class_factors": model.class_factors_, "peer_distributions": model.peer_distributions_}
    answers |= {name: array for name, array in optional.items() if array is not None}
    if model.peer_report_ is not None:
        answers |= {f"peer_report.{part}": getattr(model.peer_report_, part) for part in PEER_REPORT_ARRAYS}
    arrays = {"labels": graph.labels}
    if graph.preprocessing is not None:
        arrays |= graph.preprocessing.arrays()
    for name, matrix in (("adjacency", graph.adjacency), ("features", graph.features)):
        if sp.issparse(matrix):
            arrays |= {f"{name}.{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}
        elif matrix is not None:
            arrays[name] = matrix
    if ids.dtype.kind in "iuf":
        arrays["ids"] = ids
    else:
        other = next((name for name in ids.tolist() if not isinstance(name, str)), None)
        if other is not None:
            raise InputError(f"node id {other!r} is neither text nor a number like all others; rename it")
        encoded = [name.encode() for name in ids.tolist()]
        arrays["ids.text"] = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        arrays["ids.ends"] = np.cumsum([len(name) for name in encoded], dtype=np.int64)
    contents = {ANSWERS: answers, GRAPH: arrays, WEIGHTS: model.parameters_, CELLS: graph.cells}
    return {name: content for name, content in contents.items() if content is not None}


def _graph_from(arrays: Arrays, card: Mapping[str, Any], cells: Any) -> Graph:
    nodes, width = card["graph"]["nodes"], card["graph"]["features"]

    def sparse(name: str, columns: int) -> sp.csr_array:
        data, indices, indptr = (arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
        return compressed_matrix(data, indices, indptr, (nodes, columns))

    ids = arrays.get("ids")
    if ids is None:
        content, ends = arrays["ids.text"].tobytes(), arrays["ids.ends"].tolist()
        names = [content[start:end].decode() for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        check_names(names, "node id")
        ids = np.array(names)
    return Graph(
        adjacency=sparse("adjacency", nodes),
        features=sparse("features", width) if "features.data" in arrays else arrays.get("features"),
        labels=arrays["labels"],
        node_ids=ids,
        class_names=tuple(card["class_names"]),
        name=card["graph"]["name"],
        feature_names=tuple(card["graph"]["feature_names"]),
        preprocessing=None if card["preprocessing"] is None else Preprocessor.of(card["preprocessing"], arrays),
        class_type=card["classes_type"],
        numbered=card["graph"]["numbered"],
        cells=cells,
    )


def _set_predictions(model: GraphModel, arrays: Arrays, card: Mapping[str, Any]) -> None:
    """Set the attributes in `answers.safetensors`; graph and classes are set already."""
    nodes, classes = model.graph_.num_nodes, len(model.classes_)
    model.label_distributions_ = _probabilities(arrays["label_distributions"], (nodes, classes)).astype(np.float64)
    model.transduction_ = model.classes_[model.label_distributions_.argmax(axis=1)]
    model.labeled_iter_ = _checked("labeled_iter", arrays["labeled_iter"], (nodes,), kinds="iu", low=NOT_PSEUDO_LABELED)
    if not np.array_equal(np.flatnonzero(model.labeled_iter_ == GIVEN), model.graph_.known):
        raise ValueError("labeled_iter contradicts the labels")
    factors = arrays.get("class_factors")
    model.class_factors_ = None if factors is None else _checked("class_factors", factors, (classes,), low=0)
    peers = arrays.get("peer_distributions")
    model.peer_distributions_ = None if peers is None else _probabilities(peers, (len(peers), nodes, classes))
    model.peer_report_ = None
    if "peer_names" in card:
        names = tuple(card["peer_names"])
        shapes = ((1, len(names)), (1, len(names)), (1, len(names)), (1,))
        parts = [  # a held-out accuracy that was not measured is NaN
            _checked(part, arrays[f"peer_report.{part}"], shape, low=0, high=1 + ROUNDING, allow_nan=True)
            for part, shape in zip(PEER_REPORT_ARRAYS, shapes, strict=True)
        ]
        model.peer_report_ = PeerReport(names, *parts)
    model.history_ = {
        name.removeprefix("history."): _checked(name, values, (len(values), values.shape[1]), allow_nan=True)
        for name, values in arrays.items()
        if name.startswith("history.")
    }


def _probabilities(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if not np.allclose(_checked("probabilities", array, shape, low=0).sum(axis=-1), 1, atol=ROUNDING):
        raise ValueError("probabilities do not sum to 1")
    return array


def _checked(
    name: str,
    array: np.ndarray,
    shape: tuple[int, ...],
    *,
    kinds: str = "f",
    low: float = -MAX_MAGNITUDE,
    high: float = MAX_MAGNITUDE,
    allow_nan: bool = False,
) -> np.ndarray:
    """Return the array; raise unless it has this shape, one of these dtypes, and numbers in this range."""
    if array.shape != shape or array.dtype.kind not in kinds:
        raise ValueError(f"{name} of type {array.dtype} and shape {array.shape}, not {shape}")
    outside = ~((array >= np.float64(low)) & (array <= np.float64(high)))  # half precision cannot represent the bounds
    if (outside & ~np.isnan(array) if allow_nan else outside).any():
        raise ValueError(f"{name} out of the range from {low:g} to {high:g}, or NaN")
    return array
