"""Labels as tables give them, in whatever order, until all are known and can be numbered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mtgcn.errors import InputError
from mtgcn.io.columns import Choices, label_columns
from mtgcn.io.faults import FaultKind, Faults
from mtgcn.io.ids import NodeIndex, checked_ids
from mtgcn.io.labels import UNKNOWN, check_classes, classes_of
from mtgcn.io.notes import say
from mtgcn.io.paths import shown
from mtgcn.io.preprocessing.missing import is_missing
from mtgcn.io.table import MISSING, Batch, Coded, Table
from mtgcn.io.unknown_nodes import UnknownIds, header_found_out


class LabelBook:
    """What was said of the nodes of an index, and by which table."""

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        self._texts = NodeIndex()  # different labels are numbered as ids are
        self._tables: list[Table] = []
        self._given: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []  # node, text, place, table
        self._must_hold_labels = False

    def add(self, table: Table, batch: Batch, nodes: np.ndarray, labels: Coded) -> None:
        """What some rows of a table say of the nodes that they are about."""
        if table not in self._tables:
            self._tables.append(table)
        labelled = np.flatnonzero((labels.codes != MISSING) & (nodes != MISSING))
        texts = self._texts.add(Coded(labels.codes[labelled], labels.values))
        self._given.append(
            (nodes[labelled], texts, batch.places[labelled], np.full(len(labelled), len(self._tables) - 1))
        )

    def read(self, table: Table, choices: Choices, home: str) -> None:
        """What every row of a label table says. `home` is where its nodes should be."""
        if choices.header is None:
            table = header_found_out(table, self._index, [label_columns(table, choices).node_id])
        columns = label_columns(table, choices)
        self._must_hold_labels = not choices.few_labels
        faults = Faults(str(table.path))
        unknown = UnknownIds(table, home, choices, "labels")
        for batch in table.batches([columns.node_id, columns.label], []):
            ids = checked_ids(table, batch, batch.texts[0], columns.node_id, faults)
            if ids is None:
                continue
            [nodes] = unknown.resolved(self._index, batch, [ids])
            self.add(table, batch, nodes, batch.texts[1])
        faults.raise_first_kind()
        unknown.told()
        if table not in self._tables and self._must_hold_labels:
            raise InputError(f"{table.path} holds a header and no label; label some nodes")

    def settled(self, beside: Sequence[str] = (), *, few_labels: bool = False) -> tuple[np.ndarray, tuple[str, ...]]:
        """The class of each node, -1 where nobody gave one, and the classes' names. Unless few will do, or the labels
        come beside others, of classes that there are, they must be of two classes at least."""
        labels = np.full(len(self._index), UNKNOWN)
        if not self._given:
            return labels, ()
        node, text, place, source = (np.concatenate(parts) for parts in zip(*self._given, strict=True))
        texts = self._texts.texts()
        code_of_text, names = classes_of(texts, beside)
        paths = " and ".join(str(table.path) for table in self._tables)
        self._tell_missing_words(paths, text, texts)
        if not names:
            if self._must_hold_labels:
                raise InputError(f"{paths}: every label is empty; label some nodes")
            return labels, ()
        if not beside and not few_labels:
            check_classes(names, paths)
        code = code_of_text[text]
        labelled = np.flatnonzero(code != UNKNOWN)
        order = labelled[np.argsort(node[labelled], kind="stable")]
        node, code, place, source = node[order], code[order], place[order], source[order]
        self._refuse_clashes(paths, node, [names[some] for some in code], place, source)
        labels[node] = code
        return labels, names

    def _tell_missing_words(self, paths: str, text: np.ndarray, texts: list[str]) -> None:
        """A word such as none may be meant as a class: whoever means it so should hear that it is none."""
        words = [number for number, word in enumerate(texts) if is_missing(word) and word.casefold() != "nan"]
        count = int(np.isin(text, words).sum())
        if count:
            named = ", ".join(shown(texts[word]) for word in words[:3])
            say(f"{paths}: {count} labels are words for a missing value ({named}) and count as none given")

    def _refuse_clashes(
        self, paths: str, node: np.ndarray, label: list[str], place: np.ndarray, source: np.ndarray
    ) -> None:
        """Complain of nodes with two labels. All are sorted by node."""
        names = np.array(label)
        clashes = np.flatnonzero((node[1:] == node[:-1]) & (names[1:] != names[:-1]))
        if not len(clashes):
            return
        ids = self._index.ids()

        def says(row: int) -> str:
            return f"{self._tables[source[row]].at(int(place[row]))} says {shown(label[row])}"

        faults = Faults(paths)
        first = int(clashes[0])
        faults.add(
            FaultKind("labels contradict another of the same node", "keep one label for each node"),
            f"two labels for node {shown(ids[node[first]])}: {says(first)}, {says(first + 1)}; keep one",
            [f"node {shown(ids[node[row]])}: {shown(label[row])} and {shown(label[row + 1])}" for row in clashes[:3]],
            len(clashes),
        )
        faults.raise_first_kind()
