"""A fitted model as a folder: numbers in safetensors files, everything else in a JSON card.

    model/
      card.json              method, settings, classes, versions, how training went; sizes and checksums of the others
      weights.safetensors    the peers' parameters; missing for methods that have none
      answers.safetensors    what was believed of every node of the training graph, by whom and since when
      graph.safetensors      that graph: edges, features, the labels given, node ids

Nothing in it is executed when it is read. The checksums find damage and careless editing; they are no signature, since
whoever can write the folder can write them too.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError
from mtgcn.graph import Graph

if TYPE_CHECKING:
    from mtgcn.estimator.classifier import MutualTeachingClassifier
    from mtgcn.methods import Method

KIND = "mtgcn model"
FORMAT = 1  # raised whenever an older mtgcn could no longer read what is written here
CARD, WEIGHTS, ANSWERS, GRAPH = "card.json", "weights.safetensors", "answers.safetensors", "graph.safetensors"
FILES = (CARD, WEIGHTS, ANSWERS, GRAPH)
LARGEST_CARD = 64 * 2**20  # bytes; a real one is a few thousand, and it is read before anything is checked

Arrays = dict[str, np.ndarray]


def save_model(
    model: MutualTeachingClassifier, folder: str | Path, training: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Write a fitted model; a model that stood there before is replaced only once the new one is whole.

    `training` is whatever else the card should tell about how the model came about. Returns the card.
    """
    folder = Path(folder)
    check_destination(folder)
    contents = {ANSWERS: _answers_of(model), GRAPH: _graph_arrays(model.graph_)}
    if model.parameters_ is not None:
        contents[WEIGHTS] = {name: np.ascontiguousarray(array) for name, array in model.parameters_.items()}
    card = _card_of(model, training or {})
    with _replacing(folder) as partial:
        card["files"] = {name: _write_arrays(partial / name, arrays) for name, arrays in sorted(contents.items())}
        card["sha256"] = _card_checksum(card)
        _write_bytes(partial / CARD, json.dumps(card, indent=1, ensure_ascii=False).encode())
    return card


def load_model(folder: str | Path) -> MutualTeachingClassifier:
    """The model that `save_model` wrote, after checking that it is whole, unchanged and not from a newer version."""
    from mtgcn.estimator.classifier import MutualTeachingClassifier

    folder = Path(folder)
    card = read_card(folder)
    try:
        contents = {name: _read_arrays(folder / name, entry) for name, entry in card["files"].items()}
        method = _method_from(card["method"], folder)
        model = MutualTeachingClassifier(**card["estimator"])
        model.method_ = method
        model.classes_ = np.array(card["classes"], dtype=card["classes_type"])
        model.graph_ = _graph_from(contents[GRAPH], card)
        model.n_features_in_ = model.graph_.num_features
        if "feature_names" in card:
            model.feature_names_in_ = np.array(card["feature_names"], dtype=object)
        model.n_iter_ = card["training"]["epochs"]
        model.parameters_ = contents.get(WEIGHTS)
        _set_answers(model, contents[ANSWERS])
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise _damaged(folder, f"its parts do not fit together ({type(error).__name__}: {error})") from error
    return model


def read_card(folder: str | Path) -> dict[str, Any]:
    """A model's card, checked; the other files are not opened."""
    folder = Path(folder)
    card = _unchecked_card(folder)
    if card is None:
        raise InputError(f"{folder} is no model folder, it has no card.json of one; give one that mtgcn fit wrote")
    if type(card.get("format")) is not int or card["format"] < 1:  # True is an int as well
        raise _damaged(folder, f"its format is {card.get('format')!r}")
    if card["format"] > FORMAT:
        raise InputError(
            f"model folder {folder} has format {card['format']}, written by mtgcn {_writer(card)}, and this version "
            f"reads up to {FORMAT}; update mtgcn, or fit the model again"
        )
    if card.get("sha256") != _card_checksum(card):
        raise _damaged(folder, "card.json was changed after it was written")
    return card


def check_destination(folder: str | Path) -> None:
    """Refuse a place where a model could not be written, or where something else stands: before time is spent."""
    folder = Path(os.path.abspath(folder))
    if folder.is_dir():
        if any(folder.iterdir()) and not _is_model(folder):
            raise InputError(f"{folder} holds files and is no model folder; give another folder, nothing was touched")
    elif folder.exists():
        raise InputError(f"{folder} is a file; give a folder for the model")
    nearest = next(parent for parent in folder.parents if parent.exists())
    if not nearest.is_dir():
        raise InputError(f"cannot make folder {folder}: {nearest} is a file; give another folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise InputError(f"cannot write to {nearest}: permission denied; give another folder")


# ---- the card


def _card_of(model: MutualTeachingClassifier, training: Mapping[str, Any]) -> dict[str, Any]:
    from mtgcn.environment import versions

    graph = model.graph_
    names = getattr(model, "feature_names_in_", None)  # there only where the features came with names
    counts = np.bincount(graph.labels[graph.known], minlength=graph.num_classes)
    return {
        "kind": KIND,
        "format": FORMAT,
        "method": _method_card(model),
        "estimator": _estimator_card(model),
        "classes": model.classes_.tolist(),
        "classes_type": model.classes_.dtype.str if model.classes_.dtype != object else "object",
        "class_names": list(graph.class_names),
        **({} if names is None else {"feature_names": list(names)}),
        "graph": {
            "name": graph.name,
            "nodes": graph.num_nodes,
            "edges": graph.num_edges,
            "features": graph.num_features,
            "feature_names": list(graph.feature_names),
        },
        "training": {
            "epochs": int(model.n_iter_),
            "labels_given": dict(zip(graph.class_names, counts.tolist(), strict=True)),
            **training,
        },
        "versions": versions(),
    }


def _method_card(model: MutualTeachingClassifier) -> dict[str, Any]:
    from mtgcn.methods import METHODS

    settings = {field.name: getattr(model.method_, field.name) for field in fields(model.method_) if field.init}
    for name, kind in METHODS.items():
        if type(model.method_) is kind:
            return {"name": name, "settings": _plain(settings)}
    raise InputError(
        f"method {type(model.method_).__name__} is not registered, so a model folder could not name it; "
        "call mtgcn.methods.register with a name and its class first"
    )


def _estimator_card(model: MutualTeachingClassifier) -> dict[str, Any]:
    """The estimator's own parameters."""
    parameters = model.get_params(deep=False)
    if not isinstance(model.method, str | None):  # a method object, which the card names and describes
        card = _method_card(model)
        parameters |= {"method": card["name"], "settings": card["settings"]}
    if not isinstance(model.random_state, int | np.integer):
        parameters["random_state"] = None  # a generator has moved on since; what it drew is in the weights
    return _plain(parameters)


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same values as JSON gives them back."""
    try:
        return json.loads(json.dumps(values, default=_plain_number))
    except TypeError as error:
        raise InputError(
            f"{error} is code, which a model folder never holds; use what has a name (backbone='gat'), or pickle"
        ) from error


def _plain_number(value: object) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(type(value).__name__)


def _method_from(card: Mapping[str, Any], folder: Path) -> Method:
    from mtgcn.methods import create

    # A frozen dataclass of settings holds tuples, which JSON knows as lists.
    settings = {key: _as_tuple(value) for key, value in card["settings"].items()}
    try:
        return create(card["name"], **settings)
    except InputError as error:
        raise InputError(f"model folder {folder} needs what this mtgcn lacks: {error}") from error


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


def _unchecked_card(folder: Path) -> dict[str, Any] | None:
    """What the card of a model folder says; None where there is none."""
    path = folder / CARD
    try:
        if path.stat().st_size > LARGEST_CARD:
            return None
        card = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(f"cannot read model folder {folder}: {error.strerror}; check path and permissions") from error
    except (ValueError, RecursionError) as error:
        raise _damaged(folder, f"card.json is not JSON, {error}") from error
    return card if isinstance(card, dict) and card.get("kind") == KIND else None


def _is_model(folder: Path) -> bool:
    try:
        return _unchecked_card(folder) is not None
    except InputError:
        return False


def _card_checksum(card: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in card.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _writer(card: Mapping[str, Any]) -> str:
    versions = card.get("versions")
    return str(versions.get("mtgcn")) if isinstance(versions, dict) else "of unknown version"


def _damaged(folder: Path, why: str) -> InputError:
    return InputError(f"model folder {folder} is damaged: {why}; restore it from a copy, or fit the model again")


# ---- arrays


def _answers_of(model: MutualTeachingClassifier) -> Arrays:
    answers = {
        "label_distributions": model.label_distributions_,
        "labeled_iter": model.labeled_iter_,
        **{f"history.{name}": values for name, values in model.history_.items()},
    }
    if model.peer_distributions_ is not None:
        answers["peer_distributions"] = model.peer_distributions_
    return {name: np.ascontiguousarray(array) for name, array in answers.items()}


def _set_answers(model: MutualTeachingClassifier, answers: Arrays) -> None:
    nodes, classes = model.graph_.num_nodes, len(model.classes_)
    model.label_distributions_ = _of_shape(answers["label_distributions"], (nodes, classes))
    model.labeled_iter_ = _of_shape(answers["labeled_iter"], (nodes,))
    peers = answers.get("peer_distributions")
    model.peer_distributions_ = None if peers is None else _of_shape(peers, (len(peers), nodes, classes))
    model.transduction_ = model.classes_[model.label_distributions_.argmax(axis=1)]
    model.history_ = {
        name.removeprefix("history."): values for name, values in answers.items() if name.startswith("history.")
    }


def _of_shape(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if array.shape != shape:
        raise ValueError(f"an answer of shape {array.shape} where {shape} is due")
    return array


def _graph_arrays(graph: Graph) -> Arrays:
    arrays = {**_sparse_arrays("adjacency", graph.adjacency), **_id_arrays(graph.node_ids), "labels": graph.labels}
    if sp.issparse(graph.features):
        arrays |= _sparse_arrays("features", graph.features)
    elif graph.features is not None:
        arrays["features"] = graph.features
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _graph_from(arrays: Arrays, card: Mapping[str, Any]) -> Graph:
    nodes, width = card["graph"]["nodes"], card["graph"]["features"]
    if "features.data" in arrays:
        features: sp.csr_array | np.ndarray | None = _sparse_from("features", arrays, (nodes, width))
    else:
        features = arrays.get("features")
    return Graph(
        adjacency=_sparse_from("adjacency", arrays, (nodes, nodes)),
        features=features,
        labels=arrays["labels"],
        node_ids=_ids_from(arrays),
        class_names=tuple(card["class_names"]),
        name=card["graph"]["name"],
        feature_names=tuple(card["graph"]["feature_names"]),
    )


def _sparse_arrays(name: str, matrix: sp.csr_array) -> Arrays:
    return {f"{name}.{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}


def _sparse_from(name: str, arrays: Arrays, shape: tuple[int, int]) -> sp.csr_array:
    matrix = sp.csr_array(tuple(arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr")), shape=shape)
    matrix.check_format(full_check=True)  # an index out of range would be read as memory that is not ours
    return matrix


def _id_arrays(ids: np.ndarray) -> Arrays:
    """Numbers as they are; text as UTF-8, and where the text of each id ends."""
    if ids.dtype.kind in "iuf":
        return {"ids": ids}
    strange = next((name for name in ids.tolist() if not isinstance(name, str)), None)
    if strange is not None:
        raise InputError(f"node id {strange!r} is neither text nor a number like all others; rename it")
    encoded = [name.encode("utf-8", "surrogatepass") for name in ids.tolist()]
    ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
    return {"ids.text": np.frombuffer(b"".join(encoded), dtype=np.uint8), "ids.ends": ends}


def _ids_from(arrays: Arrays) -> np.ndarray:
    if "ids" in arrays:
        return arrays["ids"]
    content, ends = arrays["ids.text"].tobytes(), arrays["ids.ends"].tolist()
    starts = [0, *ends[:-1]]
    return np.array(
        [content[start:end].decode("utf-8", "surrogatepass") for start, end in zip(starts, ends, strict=True)]
    )


# ---- files


@contextmanager
def _replacing(folder: Path) -> Iterator[Path]:
    """A folder to fill, which takes the place of `folder` once that is done; otherwise nothing has happened."""
    folder = folder.resolve()
    beside = next(parent for parent in folder.parents if parent.exists())
    mark = f".{folder.name}.{secrets.token_hex(4)}"
    partial, aside = beside / f"{mark}.partial", folder.parent / f"{mark}.replaced"
    try:
        partial.mkdir()
        yield partial
        folder.parent.mkdir(parents=True, exist_ok=True)
        if folder.exists():
            os.rename(folder, aside)
        try:
            os.rename(partial, folder)
        except OSError:
            if aside.exists():
                os.rename(aside, folder)
            raise
        _keep_what_is_not_ours(aside, folder)
    except OSError as error:
        raise InputError(
            f"cannot write model folder {folder}: {error.strerror or error}; make room or give another folder, "
            "nothing was changed"
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _keep_what_is_not_ours(old: Path, new: Path) -> None:
    """A person's own files in the folder of the old model move to that of the new; the old model goes."""
    if not old.exists():
        return
    for path in old.iterdir():
        if path.name not in FILES:
            os.rename(path, new / path.name)
    shutil.rmtree(old)


def _write_arrays(path: Path, arrays: Arrays) -> dict[str, Any]:
    """Writes a safetensors file; returns its entry in the card."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    path.touch()
    usual_mode = path.stat().st_mode  # safetensors would let only the owner read the file
    try:
        save_file(arrays, path)
    except SafetensorError as error:  # a full disk, for instance
        raise OSError(str(error)) from error
    path.chmod(usual_mode)
    _force_to_disk(path)
    return {"bytes": path.stat().st_size, "sha256": _file_checksum(path)}


def _write_bytes(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    _force_to_disk(path)


def _force_to_disk(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _file_checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_arrays(path: Path, entry: Mapping[str, Any]) -> Arrays:
    """The arrays of a safetensors file that is what the card says it is."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    folder = path.parent
    if path.name not in FILES:
        raise _damaged(folder, f"its card names a file {path.name!r}")
    try:
        size = path.stat().st_size
        if size != entry["bytes"]:
            raise _damaged(folder, f"{path.name} has {size} bytes, not {entry['bytes']}")
        if _file_checksum(path) != entry["sha256"]:
            raise _damaged(folder, f"{path.name} was changed after it was written")
        return load_file(path)
    except FileNotFoundError:
        raise _damaged(folder, f"{path.name} is missing") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; check path and permissions") from error
    except SafetensorError as error:
        raise _damaged(folder, f"{path.name} is no safetensors file, {error}") from error
