"""The schema of `card.json`. Only reading a card imports this module, since pydantic is slow to import."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from mtgcn.errors import LONGEST_NAME, LONGEST_TEXT, shown
from mtgcn.experiments.scoring import ExpectedScore
from mtgcn.splits import LARGEST_SEED
from mtgcn.uncertainty.held_out import ExpectedAccuracy

Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED)]
Text = Annotated[str, Field(max_length=10_000)]
Name = Annotated[str, Field(max_length=LONGEST_NAME)]
FeatureName = Annotated[str, Field(max_length=LONGEST_TEXT)]
Number = Annotated[float, Field(ge=-1e15, le=1e15, allow_inf_nan=False)]


class FileEntry(TypedDict):
    bytes: Count
    sha256: Text


class MethodCard(TypedDict):
    name: Text
    settings: dict[Text, Any]


class GraphCard(TypedDict):
    name: Text
    nodes: Annotated[Count, Field(ge=1)]
    features: Count
    has_node_ids: bool
    numbered: bool
    feature_names: list[FeatureName]


class TrainingCard(TypedDict):
    """Facts about the fit, which `mtgcn fit` and others add."""

    epochs: Count
    seed: Seed
    labels_given: dict[Text, Count]
    notes: NotRequired[list[Text]]
    why_no_expected_accuracy: NotRequired[Text | None]
    expected_accuracy: NotRequired[ExpectedAccuracy | None]
    expected_score: NotRequired[ExpectedScore | None]


class ModelCard(TypedDict):
    method: MethodCard
    estimator: dict[Text, Any]  # the parameters of `GraphModel`, which checks them
    classes: list[Name | bool | Number]
    classes_type: Annotated[str, Field(pattern=r"^(object|[<>|=]?(b1|[iuf][1248]|U[0-9]{1,4}))$")]
    class_names: list[Name]
    feature_names: NotRequired[list[FeatureName]]
    peer_names: NotRequired[list[Name]]
    graph: GraphCard
    preprocessing: dict[Text, Any] | None
    training: TrainingCard
    files: dict[Literal["weights.safetensors", "answers.safetensors", "graph.safetensors", "cells.parquet"], FileEntry]


def invalid_part(card: dict[str, Any]) -> str | None:
    """The first invalid part of a card, and why; None if the card is valid."""
    try:
        TypeAdapter(ModelCard).validate_json(json.dumps(card), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}, not {shown(first['input'])}"
    return None
