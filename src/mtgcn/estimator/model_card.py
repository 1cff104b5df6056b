"""The card of a model folder, `card.json`: method, parameters, classes, training, and checksums of the other files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mtgcn.errors import LONGEST_NAME, LONGEST_TEXT, InputError, shown
from mtgcn.splits import LARGEST_SEED
from mtgcn.storage.files import parsed_json, read_plain
from mtgcn.storage.folders import read_current

if TYPE_CHECKING:
    from mtgcn.estimator.graph_model import GraphModel
    from mtgcn.methods import Method

KIND = "mtgcn model"
FORMAT = 5  # raised whenever the content of a model folder changes incompatibly
CARD, WEIGHTS, ANSWERS, GRAPH = "card.json", "weights.safetensors", "answers.safetensors", "graph.safetensors"
MAX_CARD_BYTES = 64 * 2**20  # a card has a few thousand bytes

Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED)]
Text = Annotated[str, Field(max_length=10_000)]
Name = Annotated[str, Field(max_length=LONGEST_NAME)]
FeatureName = Annotated[str, Field(max_length=LONGEST_TEXT)]
Number = Annotated[float, Field(ge=-1e15, le=1e15, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]


class _Record(BaseModel):
    model_config = ConfigDict(strict=True)


class FileEntry(_Record):
    bytes: Count
    sha256: Text


class MethodCard(_Record):
    name: Text
    settings: dict[Text, Any]


class EstimatorCard(_Record):
    """The parameters of `GraphModel`."""

    model_config = ConfigDict(strict=True, extra="forbid")

    method: Text | None
    backbone: Text | None
    neighbors: Count
    metric: Text
    mutual_neighbors: bool
    scale: bool
    settings: dict[Text, Any] | None
    device: Text
    random_state: Seed | None


class GraphCard(_Record):
    name: Text
    nodes: Annotated[Count, Field(ge=1)]
    features: Count
    has_node_ids: bool
    feature_names: list[FeatureName]


class AccuracyCard(_Record):
    accuracy: Share
    ci95: Annotated[list[Share], Field(min_length=2, max_length=2)]
    labels: Count
    folds: Count


class TrainingCard(_Record):
    """`mtgcn fit` and others add what they know about the fit."""

    epochs: Count
    seed: Seed
    labels_given: dict[Text, Count]
    notes: list[Text] = []
    why_no_expected_accuracy: Text | None = None
    expected_accuracy: AccuracyCard | None = None


class ModelCard(_Record):
    method: MethodCard
    estimator: EstimatorCard
    classes: list[Name | bool | Number]
    classes_type: Annotated[str, Field(pattern=r"^(object|[<>|=]?(b1|[iuf][1248]|U[0-9]{1,4}))$")]
    class_names: list[Name]
    feature_names: list[FeatureName] = []
    peer_names: list[Name] = []
    graph: GraphCard
    preprocessing: dict[Text, Any] | None
    training: TrainingCard
    files: dict[Literal["weights.safetensors", "answers.safetensors", "graph.safetensors"], FileEntry]


def read_card(folder: str | Path) -> dict[str, Any]:
    """The validated card of a model folder; the other files are not opened."""
    folder = Path(folder)
    card = _raw_card(folder)
    if card is None:
        raise InputError(f"{folder} is no model folder, it has no card.json of one; give one that mtgcn fit wrote")
    if card.get("format") != FORMAT or type(card["format"]) is not int:
        versions = card.get("versions")
        writer = str(versions.get("mtgcn"))[:20] if isinstance(versions, dict) else "of unknown version"
        raise InputError(
            f"model folder {folder} has format {shown(card.get('format'))}, written by mtgcn {writer}, and this "
            f"version reads format {FORMAT}; use that version, or fit the model again"
        )
    if card.get("sha256") != checksum(card):
        raise damaged(folder, "card.json was changed after it was written")
    try:
        ModelCard.model_validate(card)  # the checksum detects damage, not intent
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise damaged(folder, f"card.json is invalid ({where}: {first['msg']}, not {shown(first['input'])})") from error
    return card


def is_model(folder: Path) -> bool:
    """Whether a folder has the card of a model, of any format."""
    try:
        return _raw_card(folder) is not None
    except InputError:
        return False


def _raw_card(folder: Path) -> dict[str, Any] | None:
    """The JSON of a card; None where there is none."""
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
    """The error for a folder whose content is not what was written."""
    return InputError(f"model folder {folder} is damaged: {why}; restore it from a copy, or fit the model again")


def checksum(card: Mapping[str, Any]) -> str:
    """SHA-256 of the card without its checksum."""
    rest = {key: value for key, value in card.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


# ------------------------------------------------------------------------------------------------------------ writing


def card_of(model: GraphModel, training: Mapping[str, Any]) -> dict[str, Any]:
    """The card of a fitted model, without the entries of files and its checksum."""
    from mtgcn.environment import versions

    graph, method = model.graph_, _method_card(model)
    names = getattr(model, "feature_names_in_", None)  # only if the features have names
    return {
        "kind": KIND,
        "format": FORMAT,
        "method": method,
        "estimator": _estimator_card(model, method),
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


def _estimator_card(model: GraphModel, method: Mapping[str, Any]) -> dict[str, Any]:
    parameters = {name: getattr(model, name) for name in sorted(signature(type(model)).parameters)}
    del parameters["verbose"]
    if not isinstance(model.method, str | None):  # a method object
        parameters |= {"method": method["name"], "settings": method["settings"]}
    if not isinstance(model.device, str):  # the index of a GPU is no part of a model
        parameters["device"] = model.device.type
    if not isinstance(model.random_state, int | np.integer):
        parameters["random_state"] = None  # a generator, whose state has changed
    return _plain(parameters)


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
            f"{error} is code, which a model folder never holds; use what has a name (backbone='gat'), or pickle"
        ) from error


def method_from(card: Mapping[str, Any], folder: Path) -> Method:
    """The method of a card."""
    from mtgcn.methods import create

    def as_tuple(value: Any) -> Any:  # JSON turns the tuples of settings into lists
        return tuple(map(as_tuple, value)) if isinstance(value, list) else value

    try:
        return create(card["name"], **{key: as_tuple(value) for key, value in card["settings"].items()})
    except InputError as error:
        raise InputError(f"model folder {folder} needs what this mtgcn lacks: {error}") from error
