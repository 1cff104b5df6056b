"""More labels for a model that is fitted: which of them are new, which correct earlier ones, which say nothing new."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mtgcn.errors import InputError, unknown_name
from mtgcn.estimator.inputs import no_label
from mtgcn.estimator.row_lookup import NOWHERE, place_of_ids
from mtgcn.graph import UNKNOWN
from mtgcn.labels import classes_of
from mtgcn.shapes import Int

if TYPE_CHECKING:
    from mtgcn.estimator.graph_model import GraphModel
    from mtgcn.graph import Graph

MOST_NAMED = 3


@dataclass(frozen=True)
class Correction:
    """A node whose label was another one before."""

    node: Any
    before: str
    after: str


@dataclass(frozen=True)
class LabelChanges:
    """What some labels change in those that were given before."""

    added: Mapping[str, int]  # labels of nodes that had none, by class
    corrected: Sequence[Correction]
    repeated: int  # those that say what was known
    new_classes: Sequence[str]

    @property
    def any(self) -> bool:
        return bool(self.corrected) or sum(self.added.values()) > 0


def with_more_labels(
    model: GraphModel, labels: Mapping[Any, Any], new_classes: Iterable[Any] = ()
) -> tuple[Graph, np.ndarray, LabelChanges]:
    """The graph of a fit with these labels, by node id, beside those it has; its classes; and what that changes."""
    graph = model.graph_
    labels = {node: name for node, name in labels.items() if not no_label(name)}
    ids = np.array(list(labels), dtype=object)
    places = place_of_ids(graph.node_ids, ids.astype(str)) if len(ids) else np.zeros(0, dtype=np.int64)
    unknown = ids[places == NOWHERE]
    if len(unknown):
        raise InputError(
            f"{len(unknown)} of {len(ids)} labels are of nodes that the model does not have, for instance "
            f"{', '.join(repr(node) for node in unknown[:MOST_NAMED])}; leave them out, or fit on a graph that has them"
        )
    names = [str(name) for name in labels.values()]
    known, extra = list(graph.class_names), [str(name) for name in new_classes]
    for name in names:
        if name not in known and name not in extra:
            hint = str(unknown_name("class", name, known))
            end = "" if hint.endswith("?") else "."
            say_so = f"--new-classes {name}, or new_classes=[{name!r}]"
            raise InputError(f"{hint}{end} If it is a new class, say so: {say_so}")
    appearing = [name for name in extra if name in names and name not in known]
    classes, order = _classes_with(model, appearing)
    before = np.where(graph.labels == UNKNOWN, UNKNOWN, order[graph.labels])
    after = before.copy()
    place_of_class = {name: number for number, name in enumerate(map(str, classes))}
    after[places] = [place_of_class[name] for name in names]
    # With the same classes, what was made of the graph for one fit serves the next.
    more = replace(graph, labels=after, class_names=tuple(map(str, classes))) if appearing else graph.with_labels(after)
    return more, classes, _changes(more, before, places, appearing)


def _classes_with(model: GraphModel, new: Sequence[str]) -> tuple[np.ndarray, Int[np.ndarray, "known_classes"]]:
    """The classes with some new ones, in the order in which a fit would have them; and where the known ones are now."""
    names = model.graph_.class_names
    if not new:
        return model.classes_, np.arange(len(names))
    if model.classes_.dtype.kind not in "UO":
        raise InputError(
            f"{new[0]!r} would be a new class, and the classes of this model are numbers of type "
            f"{model.classes_.dtype}; fit anew with a y that has it"
        )
    codes, ordered = classes_of([*names, *new])
    if len(ordered) < len(names) + len(new):  # 1 and 1.0, which are names here, and two
        ordered = tuple(sorted([*names, *new]))
        codes = np.array([ordered.index(name) for name in (*names, *new)])
    return np.array(ordered, dtype=object if model.classes_.dtype == object else None), codes[: len(names)]


def _changes(
    graph: Graph, before: Int[np.ndarray, "nodes"], places: Int[np.ndarray, "labels"], new_classes: Sequence[str]
) -> LabelChanges:
    had, has = before[places], graph.labels[places]
    counts = np.bincount(has[had == UNKNOWN], minlength=graph.num_classes)
    corrected = np.flatnonzero((had != UNKNOWN) & (had != has))
    return LabelChanges(
        added={name: int(count) for name, count in zip(graph.class_names, counts, strict=True) if count},
        corrected=[
            Correction(
                np.asarray(graph.node_ids[places[one]]).item(),
                graph.class_names[had[one]],
                graph.class_names[has[one]],
            )
            for one in corrected
        ],
        repeated=int((had == has).sum()),
        new_classes=list(new_classes),
    )
