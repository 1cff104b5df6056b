"""A model folder, as `mtgcn fit` writes it, of a fit on shards: for graphs that one machine can hold after all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from mtgcn.distributed.answers import LocalAnswer
from mtgcn.distributed.local_graph import LocalGraph
from mtgcn.distributed.shards import Manifest, read_part
from mtgcn.environment import device_title
from mtgcn.estimator.graph_model import GraphModel
from mtgcn.estimator.persistence import save_model
from mtgcn.graph import Graph
from mtgcn.io.ids import NodeIndex
from mtgcn.io.table import Coded
from mtgcn.shapes import Int
from mtgcn.task import Prediction


@dataclass(frozen=True)
class Told:
    """What a model's card tells of its fit."""

    method: str
    settings: Mapping[str, Any]  # those that were typed
    seed: int
    seconds: float


def write_model(
    folder: Path,
    local: LocalGraph,
    answer: LocalAnswer,
    labels: Int[np.ndarray, "here"],
    class_names: tuple[str, ...],
    told: Told,
) -> None:
    """Write the model. All ranks come here; rank 0 then holds the whole graph."""
    ranks = local.ranks
    mine = (local.numbers.cpu().numpy(), answer.probabilities, answer.peers, answer.pseudo_labelled_at, labels)
    everyones = ranks.everyones(mine)

    def write() -> None:
        numbers, probabilities, peers, taught, given = zip(*everyones, strict=True)
        order = np.argsort(np.concatenate(numbers))
        prediction = Prediction(
            np.concatenate(probabilities)[order][None],
            answer.history,
            peers=np.concatenate(peers, axis=1)[:, order][None],
            pseudo_labelled_at=np.concatenate(taught)[order][None],
            parameters=answer.parameters,
            peer_report=answer.peer_report,
        )
        graph = whole_graph(local.manifest, np.concatenate(given)[order], class_names)
        model = GraphModel(told.method, settings=dict(told.settings) or None, random_state=told.seed)
        model.take_over(graph, prediction, told.seed)
        training = {"seconds": told.seconds, "device": device_title(ranks.device), "notes": []}
        save_model(model, folder, training=training)

    ranks.together(lambda: write() if ranks.rank == 0 else None)


def whole_graph(manifest: Manifest, labels: Int[np.ndarray, "nodes"], class_names: tuple[str, ...]) -> Graph:
    """The graph that was cut, with these labels, its nodes in the order of their table."""
    parts = [read_part(manifest, part) for part in range(len(manifest.parts))]
    order = np.argsort(np.concatenate([part.numbers for part in parts]))
    ids = pa.concat_arrays([part.ids for part in parts]).cast(pa.string()).take(pa.array(order))
    index = NodeIndex()
    index.add(Coded(np.arange(len(ids)), ids))
    tables: list[Any] = [part.features for part in parts]
    features = sp.csr_array(sp.vstack(tables)) if manifest.card["sparse"] else np.concatenate(tables)
    adjacency = sp.csr_array(sp.vstack([part.adjacency for part in parts]))[order][:, order]
    preprocessing = manifest.preprocessing
    return Graph(
        adjacency,
        features[order],
        labels,
        index.ids(),
        class_names,
        manifest.name,
        preprocessing.names,
        preprocessing,
    )
