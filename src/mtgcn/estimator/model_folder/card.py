"""The card of a model folder: what the model is, in JSON that a person can read."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mtgcn.errors import LONGEST_NAME, LONGEST_TEXT, InputError, shown
from mtgcn.estimator.model_folder.files import CARD, damaged
from mtgcn.io.json_form import Anything, Number, Text, Truth, Whole, check_form
from mtgcn.splits import LARGEST_SEED
from mtgcn.storage.files import parsed_json, read_plain
from mtgcn.storage.folders import read_current

if TYPE_CHECKING:
    from mtgcn.estimator.graph_model import GraphModel
    from mtgcn.methods import Method

KIND = "mtgcn model"
# Raised whenever what is written could no longer be read by an older mtgcn, or the other way round. 2: settings of
# methods and the counts of the graph have the field's names. 3: how features were made of columns. 4: encoders
# of mt-plus without what only training needs.
FORMAT = 4
# What the rest of the program reckons with. Sums tell that a card is as it was written, not who wrote it.
NAME, SHARE = Text(LONGEST_NAME), Number(0, 1)
CARD_FORM = {
    "method": {"name": Text(), "settings": Anything()},
    "estimator": {
        "random_state": (Whole(most=LARGEST_SEED), None),
        "neighbors": Whole(),
        "metric": Text(),
        "scale": Truth(),
        "device": Text(),
        "method": (Text(), None),
        "settings": (Anything(), None),
    },
    "classes": [(NAME, Number(), Truth())],
    "classes_type": Text(20),
    "class_names": [NAME],
    "graph": {
        "name": Text(),
        "nodes": Whole(1),
        "features": Whole(),
        "has_node_ids": Truth(),
        "feature_names": [Text(LONGEST_TEXT)],
    },
    "preprocessing": (Anything(), None),
    "training": {"epochs": Whole(), "labels_given": Anything(of=Whole())},
    "files": Anything(of={"bytes": Whole(), "sha256": Text()}),
}
TRAINING_FORM = {  # what `mtgcn fit` adds, and a model saved from Python lacks
    "seed": (Whole(most=LARGEST_SEED), None),
    "notes": [Text()],
    "why_no_expected_accuracy": (Text(), None),
    "expected_accuracy": ({"accuracy": SHARE, "ci95": [SHARE], "labels": Whole(), "folds": Whole()}, None),
}
CLASSES_TYPE = re.compile(r"object|[<>|=]?(b1|[iuf][1248]|U[0-9]{1,4})")
LARGEST_CARD = 64 * 2**20  # bytes; a real one is a few thousand, and it is read before anything is checked


def read_card(folder: str | Path) -> dict[str, Any]:
    """A model's card, checked; the other files are not opened."""
    folder = Path(folder)
    card = _unchecked_card(folder)
    if card is None:
        raise InputError(f"{folder} is no model folder, it has no card.json of one; give one that mtgcn fit wrote")
    if type(card.get("format")) is not int or card["format"] < 1:  # True is an int as well
        raise damaged(folder, f"its format is {shown(card.get('format'))}")
    if card["format"] > FORMAT:
        raise InputError(
            f"model folder {folder} has format {card['format']}, written by mtgcn {_writer(card)}, and this version "
            f"reads up to {FORMAT}; update mtgcn, or fit the model again"
        )
    if card["format"] < FORMAT:
        raise InputError(
            f"model folder {folder} has format {card['format']}, written by mtgcn {_writer(card)}, which reads it, and "
            f"this version reads {FORMAT} alone; fit the model again with the same files"
        )
    if card.get("sha256") != checksum(card):
        raise damaged(folder, "card.json was changed after it was written")
    _check_content(card, folder)
    return card


def _check_content(card: dict[str, Any], folder: Path) -> None:
    try:
        check_form(card, CARD_FORM, "card.json")
        told = {key: form for key, form in TRAINING_FORM.items() if key in card["training"]}
        check_form(card["training"], told, "training")
        if "feature_names" in card:
            check_form(card["feature_names"], [Text(LONGEST_TEXT)], "feature_names")
        if "peer_names" in card:
            check_form(card["peer_names"], [NAME], "peer_names")
        if len((card["training"].get("expected_accuracy") or {"ci95": (0, 0)})["ci95"]) != 2:
            raise ValueError("an interval has two ends")
        if not CLASSES_TYPE.fullmatch(card["classes_type"]):
            raise ValueError(f"classes_type is {shown(card['classes_type'])}")
    except ValueError as error:
        raise damaged(folder, f"card.json is not what mtgcn writes ({error})") from error


def card_of(model: GraphModel, training: Mapping[str, Any]) -> dict[str, Any]:
    """The card of a fitted model, all but the files it comes with and its own checksum."""
    from mtgcn.environment import versions

    graph = model.graph_
    names = getattr(model, "feature_names_in_", None)  # there only where the features came with names
    return {
        "kind": KIND,
        "format": FORMAT,
        "method": _method_card(model),
        "estimator": _estimator_card(model),
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
            "feature_names": list(graph.feature_names),
        },
        "preprocessing": None if graph.preprocessing is None else graph.preprocessing.plain(),
        "training": {
            "epochs": int(model.n_iter_),
            "seed": model.seed_,
            "labels_given": dict(zip(graph.class_names, graph.label_counts.tolist(), strict=True)),
            **training,
        },
        "versions": versions(),
    }


def _method_card(model: GraphModel) -> dict[str, Any]:
    from mtgcn.methods import METHODS

    settings = {field.name: getattr(model.method_, field.name) for field in fields(model.method_) if field.init}
    for name, kind in METHODS.items():
        if type(model.method_) is kind:
            return {"name": name, "settings": _plain(settings)}
    raise InputError(
        f"method {type(model.method_).__name__} is not registered, so a model folder could not name it; "
        "call mtgcn.methods.register with a name and its class first"
    )


def _estimator_card(model: GraphModel) -> dict[str, Any]:
    """The estimator's own parameters."""
    parameters = {name: getattr(model, name) for name in sorted(signature(type(model)).parameters)}
    del parameters["verbose"]  # whoever reads the model decides what they want to watch
    if not isinstance(model.method, str | None):  # a method object, which the card names and describes
        card = _method_card(model)
        parameters |= {"method": card["name"], "settings": card["settings"]}
    if not isinstance(model.device, str):  # a device of torch; which of several GPUs is no part of a model
        parameters["device"] = model.device.type
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


def method_from(card: Mapping[str, Any], folder: Path) -> Method:
    """The method that a card names, with the settings it gives."""
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
    try:
        card = parsed_json(read_current(folder, CARD, lambda path: read_plain(path, LARGEST_CARD)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(
            f"cannot read {CARD} of model folder {folder}: {error.strerror}; check path and permissions"
        ) from error
    except ValueError as error:
        raise damaged(folder, f"card.json is not JSON, {error}") from error
    return card if isinstance(card, dict) and card.get("kind") == KIND else None


def is_model(folder: Path) -> bool:
    """Whether a folder has the card of a model, of any format."""
    try:
        return _unchecked_card(folder) is not None
    except InputError:
        return False


def checksum(card: Mapping[str, Any]) -> str:
    """Of all that the card says, but for the checksum itself."""
    rest = {key: value for key, value in card.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _writer(card: Mapping[str, Any]) -> str:
    versions = card.get("versions")
    return str(versions.get("mtgcn"))[:20] if isinstance(versions, dict) else "of unknown version"
