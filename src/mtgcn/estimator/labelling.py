"""More labels for a fitted model: which are new, which correct earlier ones, and which repeat them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mtgcn.errors import InputError, unknown_name
from mtgcn.estimator.inference import MISSING, positions_of_ids
from mtgcn.estimator.inputs import has_no_label
from mtgcn.labels import UNLABELED, classes_of
from mtgcn.shapes import Int

if TYPE_CHECKING:
    from mtgcn.estimator.graph_model import GraphModel
    from mtgcn.graph import Graph

MAX_NAMED = 3


@dataclass(frozen=True)
class Correction:
    """A node whose label changes."""

    node: Any
    before: str
    after: str


@dataclass(frozen=True)
class LabelChanges:
    """The difference between the labels of a fit and new ones."""

    added: Mapping[str, int]  # new labels by class
    corrected: Sequence[Correction]
    repeated: int
    new_classes: Sequence[str]

    @property
    def any(self) -> bool:
        return bool(self.corrected) or sum(self.added.values()) > 0


def with_more_labels(
    model: GraphModel, labels: Mapping[Any, Any], new_classes: Iterable[Any] = ()
) -> tuple[Graph, np.ndarray, LabelChanges]:
    """The graph of a fit with more labels, given by node id; its classes; and the changes."""
    graph = model.graph_
    labels = {node: name for node, name in labels.items() if not has_no_label(name)}
    ids = np.array(list(labels), dtype=object)
    positions = positions_of_ids(graph.node_ids, ids.astype(str)) if len(ids) else np.zeros(0, dtype=np.int64)
    unknown = ids[positions == MISSING]
    if len(unknown):
        raise InputError(
            f"{len(unknown)} of {len(ids)} labels are of nodes that the model does not have, for instance "
            f"{', '.join(repr(node) for node in unknown[:MAX_NAMED])}; leave them out, or fit on a graph that has them"
        )
    names = [str(name) for name in labels.values()]
    known, extra = list(graph.class_names), [str(name) for name in new_classes]
    for name in names:
        if name not in known and name not in extra:
            hint = str(unknown_name("class", name, known))
            end = "" if hint.endswith("?") else "."
            raise InputError(f"{hint}{end} For a new class give --new-classes {name}, or new_classes=[{name!r}]")
    added = [name for name in extra if name in names and name not in known]
    classes, order = _classes_with(model, added)
    before = np.where(graph.labels == UNLABELED, UNLABELED, order[graph.labels])
    after = before.copy()
    code_of = {name: number for number, name in enumerate(map(str, classes))}
    after[positions] = [code_of[name] for name in names]
    # With the same classes, values cached for the graph stay valid.
    more = replace(graph, labels=after, class_names=tuple(map(str, classes))) if added else graph.with_labels(after)
    return more, classes, _changes(more, before, positions, added)


def _classes_with(model: GraphModel, new: Sequence[str]) -> tuple[np.ndarray, Int[np.ndarray, "known_classes"]]:
    """The classes with new ones, in the order of a fit, and the new codes of the known ones."""
    names = model.graph_.class_names
    if not new:
        return model.classes_, np.arange(len(names))
    if model.classes_.dtype.kind not in "UO":
        raise InputError(
            f"{new[0]!r} would be a new class, and the classes of this model are numbers of type "
            f"{model.classes_.dtype}; fit again with a y that has it"
        )
    codes, ordered = classes_of([*names, *new])
    if len(ordered) < len(names) + len(new):  # 1 and 1.0 are different names here
        ordered = tuple(sorted([*names, *new]))
        codes = np.array([ordered.index(name) for name in (*names, *new)])
    return np.array(ordered, dtype=object if model.classes_.dtype == object else None), codes[: len(names)]


def _changes(
    graph: Graph, before: Int[np.ndarray, "nodes"], positions: Int[np.ndarray, "labels"], new_classes: Sequence[str]
) -> LabelChanges:
    old, new = before[positions], graph.labels[positions]
    counts = np.bincount(new[old == UNLABELED], minlength=graph.num_classes)
    return LabelChanges(
        added={name: int(count) for name, count in zip(graph.class_names, counts, strict=True) if count},
        corrected=[
            Correction(
                np.asarray(graph.node_ids[positions[one]]).item(),
                graph.class_names[old[one]],
                graph.class_names[new[one]],
            )
            for one in np.flatnonzero((old != UNLABELED) & (old != new))
        ],
        repeated=int((old == new).sum()),
        new_classes=list(new_classes),
    )
