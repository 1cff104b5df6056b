"""A node as a person knows it: the columns of their table, or what it has of features, or its picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from mtgcn.errors import InputError, shown
from mtgcn.graph_sources import LABEL_NAMES
from mtgcn.io.columns import ID_NAMES, open_table, title_of
from mtgcn.io.options import readable_file
from mtgcn.io.table import MISSING, Coded
from mtgcn.studio.source import Loaded

if TYPE_CHECKING:
    from mtgcn.studio.project import Project

MOST_COLUMNS = 100  # of a table that is read as text, to be shown; of wider ones features are shown
LONGEST_VALUE = 300  # letters
NAME_OF_FEATURE = "feature {}"


@dataclass(frozen=True)
class Picture:
    """The features of a node as grey values, row after row, 0 to 1."""

    rows: int
    columns: int
    pixels: Sequence[float]


@dataclass(frozen=True)
class NodeDetails:
    """A node as a person knows it."""

    node: str
    attributes: Sequence[tuple[str, str]]  # name and value; of features the largest, and none that is 0
    attributes_left_out: int
    picture: Picture | None


@dataclass(frozen=True, eq=False)
class _Columns:
    """A node table as text; its rows are the first nodes of the graph."""

    names: Sequence[str]
    cells: Sequence[Sequence[Coded]]  # of each batch, by column
    first_rows: Sequence[int]  # of each batch

    def of_row(self, row: int) -> list[tuple[str, str]]:
        batch = int(np.searchsorted(self.first_rows, row, side="right")) - 1
        within = row - self.first_rows[batch]
        found = []
        for name, cells in zip(self.names, self.cells[batch], strict=True):
            if within >= len(cells.codes):
                return []  # a node that only the edges know
            value = "" if cells.codes[within] == MISSING else cells.text(within)
            found.append((name, value if len(value) <= LONGEST_VALUE else value[: LONGEST_VALUE - 1] + "…"))
        return found


_tables: WeakKeyDictionary[Loaded, _Columns] = WeakKeyDictionary()


def node_details(project: Project, node: str, most: int = 40) -> NodeDetails:
    """At most so many attributes of a node; its picture where its features are one."""
    loaded = project.loaded
    if node not in loaded.place:
        raise InputError(f"no node is called {shown(node)}; choose one of the graph {project.source.title}")
    place, picture = loaded.place[node], project.source.picture
    if picture is not None:
        rows, columns = picture
        pixels = np.clip(np.asarray(_features(loaded, place)), 0, 1).tolist()
        return NodeDetails(node, (), 0, Picture(rows, columns, pixels))
    table = _table(project, loaded)
    attributes = _largest(loaded, place) if table is None else table.of_row(place)
    return NodeDetails(node, attributes[:most], max(0, len(attributes) - most), None)


def _table(project: Project, loaded: Loaded) -> _Columns | None:
    """The node table as text, read once; None where there is none, or it is too wide."""
    if loaded in _tables:
        return _tables[loaded]
    files = project.source.graph_files(project.files, project.state.load) if not project.source.dataset else None
    if files is None or files.nodes is None:
        return None
    table = open_table(readable_file(files.nodes), [ID_NAMES + LABEL_NAMES], files)
    if len(table.columns) > MOST_COLUMNS:
        return None
    columns = list(range(len(table.columns)))
    cells, first_rows, row = [], [], 0
    for batch in table.batches(columns, []):
        cells.append(batch.texts)
        first_rows.append(row)
        row += len(batch)
    _tables[loaded] = _Columns([title_of(table, column) for column in columns], cells, first_rows)
    return _tables[loaded]


def _largest(loaded: Loaded, place: int) -> list[tuple[str, str]]:
    """The features that are not 0, the largest first."""
    values, names = _features(loaded, place), loaded.graph.feature_names
    given = np.flatnonzero(values)
    order = given[np.argsort(-np.abs(values[given]), kind="stable")].tolist()
    titles = [names[one] if names else NAME_OF_FEATURE.format(one + 1) for one in order]
    return [(title, f"{values[one]:.6g}") for title, one in zip(titles, order, strict=True)]


def _features(loaded: Loaded, place: int) -> np.ndarray:
    features = loaded.graph.features
    if features is None:
        return np.zeros(0)
    if isinstance(features, np.ndarray):
        return features[place]
    return np.asarray(features[[place]].toarray())[0]
