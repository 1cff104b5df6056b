"""The given labels, told to the ranks whose nodes they are of. They are few, so rank 0 reads them for all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from mtgcn.distributed.id_index import LargeIndex
from mtgcn.distributed.local_graph import LocalGraph
from mtgcn.errors import InputError
from mtgcn.graph import LABEL_NAMES
from mtgcn.io.columns import ID_NAMES, label_columns, open_table
from mtgcn.io.options import TableOptions, readable_file
from mtgcn.io.read import read_labels
from mtgcn.io.table import MISSING
from mtgcn.labels import UNLABELED
from mtgcn.shapes import Int


def shared_labels(
    path: Path, local: LocalGraph, choices: TableOptions
) -> tuple[Int[np.ndarray, "here"], tuple[str, ...]]:
    """The class of each of this rank's nodes, -1 where none is given, and the names of the classes."""
    ranks = local.ranks
    index = ranks.together(lambda: LargeIndex(local.ids, str(local.manifest.folder)))
    listed = ranks.from_first(ranks.together(lambda: _listed_ids(path, choices) if ranks.rank == 0 else None))
    mine = index.places(pa.array(listed, pa.string()))
    known = np.any(ranks.everyones(mine != MISSING), axis=0)
    names_known = np.array([name for name, is_known in zip(listed, known, strict=True) if is_known], dtype=str)
    read = ranks.together(lambda: read_labels(path, names_known, choices) if ranks.rank == 0 else None)
    codes, class_names = ranks.from_first(read)
    labels = np.full(local.num_nodes, UNLABELED)
    places = mine[known]
    labels[places[places != MISSING]] = codes[places != MISSING]
    if not class_names:
        raise InputError(f"{path}: no node is labelled; label some")
    if int(ranks.counts(int(np.count_nonzero(labels != UNLABELED))).sum()) == local.manifest.num_nodes:
        raise InputError(f"{path}: all {local.manifest.num_nodes} nodes are labelled, so there is nothing to predict")
    return labels, class_names


def _listed_ids(path: Path, choices: TableOptions) -> list[str]:
    """The ids that a label table names, each once; perhaps its header among them, which is nobody's id."""
    table = open_table(readable_file(path), [ID_NAMES + LABEL_NAMES], choices)
    columns = label_columns(table, choices)
    found: dict[str, None] = {}
    for batch in table.batches([columns.node_id], []):
        found |= dict.fromkeys(map(str, batch.texts[0].values.to_pylist()))
    return list(found)
