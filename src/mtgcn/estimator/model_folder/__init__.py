"""A fitted model as a folder: numbers in safetensors files, everything else in a JSON card.

    model/
      card.json              method, settings, classes, versions, how training went; sizes and checksums of the others
      weights.safetensors    the peers' parameters; missing for methods that have none
      answers.safetensors    what was found out about every node of the training graph, by which votes, since when
      graph.safetensors      that graph: edges, features, the labels given, node ids

Nothing in it is executed when it is read. The checksums find damage and careless editing; they are no signature, since
whoever can write the folder can write them too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mtgcn.errors import InputError, reason
from mtgcn.estimator.checks import check_magnitudes
from mtgcn.estimator.model_folder.arrays import (
    answers_of,
    checked_parameters,
    graph_arrays,
    graph_from,
    set_answers,
)
from mtgcn.estimator.model_folder.card import card_of, checksum, is_model, method_from, read_card
from mtgcn.estimator.model_folder.files import (
    ANSWERS,
    CARD,
    GRAPH,
    WEIGHTS,
    Arrays,
    damaged,
    read_arrays,
    replacing,
    write_arrays,
    write_bytes,
)
from mtgcn.estimator.preparing import columns_in
from mtgcn.storage.files import check_folder
from mtgcn.storage.folders import has_other_files

if TYPE_CHECKING:
    from mtgcn.estimator.graph_model import GraphModel

Model = TypeVar("Model", bound="GraphModel")
TRIES = 3  # of files that do not fit a card which stays the same

__all__ = ["check_destination", "is_model", "load_as", "load_model", "read_card", "save_model"]


def save_model(model: GraphModel, folder: str | Path, training: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Write a fitted model; a model that stood there before is replaced only once the new one is whole.

    `training` is whatever else the card should tell about how the model came about. Returns the card.
    """
    folder = Path(folder)
    check_destination(folder)
    contents = {ANSWERS: answers_of(model), GRAPH: graph_arrays(model.graph_)}
    if model.parameters_ is not None:
        contents[WEIGHTS] = {name: np.ascontiguousarray(array) for name, array in model.parameters_.items()}
    card = card_of(model, training or {})
    with replacing(folder) as partial:
        card["files"] = {name: write_arrays(partial / name, arrays) for name, arrays in sorted(contents.items())}
        card["sha256"] = checksum(card)
        write_bytes(partial / CARD, json.dumps(card, indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace"))
    return card


def load_model(folder: str | Path) -> GraphModel:
    """The model that `save_model` wrote, after checking that it is whole, unchanged and of the format read here."""
    from mtgcn.estimator.graph_model import GraphModel

    return load_as(GraphModel, folder)


def load_as(kind: type[Model], folder: str | Path) -> Model:
    """The same as a `GraphModel` with more manners: a `MutualTeachingClassifier`."""
    folder = Path(folder)
    card, contents = _read(folder)
    try:
        method = method_from(card["method"], folder)
        model = kind(**card["estimator"])
        model.method_ = method
        model.classes_ = np.array(card["classes"], dtype=card["classes_type"])
        if list(map(str, model.classes_)) != card["class_names"]:
            raise ValueError("classes are called otherwise than they are")
        model.graph_ = graph_from(contents[GRAPH], card)
        check_magnitudes(model.graph_)
        model.has_node_ids_ = card["graph"]["has_node_ids"]
        model.n_features_in_ = columns_in(model.graph_)
        if "feature_names" in card:
            model.feature_names_in_ = np.array(card["feature_names"], dtype=object)
        model.n_iter_ = card["training"]["epochs"]
        # Cards before 0.5.0 lack the seed; there the one given is the one used, and where none was given it is lost.
        model.seed_ = card["training"].get("seed", card["estimator"]["random_state"])
        model.parameters_ = checked_parameters(contents.get(WEIGHTS))
        model.training_ = card["training"]
        set_answers(model, contents[ANSWERS], card)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise _unfit(folder, error) from error
    return model


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Arrays]]:
    """The card and the arrays that go with it; where they do not fit, another process may just be replacing them."""
    card, tries = read_card(folder), 0
    while True:
        try:
            return card, {name: read_arrays(folder, name, entry) for name, entry in card["files"].items()}
        except InputError:
            card_before, card = card, read_card(folder)
            tries = tries + 1 if card == card_before else 0
            if tries == TRIES:
                raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _unfit(folder, error) from error


def _unfit(folder: Path, error: Exception) -> InputError:
    return damaged(folder, f"its parts do not fit together ({type(error).__name__}: {reason(error)})")


def check_destination(folder: str | Path) -> None:
    """Refuse a place where a model could not be written, or where something else stands: before time is spent."""
    folder = Path(os.path.abspath(folder))
    check_folder(folder, holds="the model")
    try:
        strange = folder.is_dir() and has_other_files(folder) and not is_model(folder)
    except OSError as error:
        raise InputError(f"cannot look into {folder}: {error.strerror}; give another folder") from error
    if strange:
        raise InputError(f"{folder} holds files and is no model folder; give another folder, nothing was touched")
