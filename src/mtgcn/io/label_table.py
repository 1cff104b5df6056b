"""Labels from node and label tables, collected and encoded once all are read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mtgcn.errors import InputError, note, shown
from mtgcn.io.columns import label_columns
from mtgcn.io.ids import NodeIndex, UnknownIds, checked_ids, with_found_header
from mtgcn.io.options import TableOptions
from mtgcn.io.table import MISSING, Batch, Coded, FaultKind, Faults, Table
from mtgcn.labels import UNLABELED, check_classes, classes_of, integer_text, is_missing


class Labels:
    """The labels of the nodes of an index, with the table and line of each."""

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        self._texts = NodeIndex()  # distinct labels are numbered like ids
        self._tables: list[Table] = []
        self._given: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []  # node, text, place, table
        self._must_hold_labels = False

    def add(self, table: Table, batch: Batch, nodes: np.ndarray, labels: Coded) -> None:
        """Add the labels of some rows."""
        if table not in self._tables:
            self._tables.append(table)
        labelled = np.flatnonzero((labels.codes != MISSING) & (nodes != MISSING))
        texts = self._texts.add(Coded(labels.codes[labelled], labels.values))
        self._given.append(
            (nodes[labelled], texts, batch.places[labelled], np.full(len(labelled), len(self._tables) - 1))
        )

    def read(self, table: Table, options: TableOptions, home: str) -> None:
        """Read a label table; `home` is the source of the nodes, for messages."""
        if options.header is None:
            table = with_found_header(table, self._index, [label_columns(table, options).node_id])
        columns = label_columns(table, options)
        self._must_hold_labels = not options.few_labels
        faults = Faults(str(table.path))
        unknown = UnknownIds(table, home, options, "labels")
        for batch in table.batches([columns.node_id, columns.label], []):
            ids = checked_ids(table, batch, batch.texts[0], columns.node_id, faults)
            if ids is None:
                continue
            [nodes] = unknown.resolved(self._index, batch, [ids])
            self.add(table, batch, nodes, batch.texts[1])
        faults.raise_first_kind()
        unknown.finish()
        if table not in self._tables and self._must_hold_labels:
            raise InputError(f"{table.path} holds a header and no label; label some nodes")

    def encoded(self, beside: Sequence[str] = (), *, few_labels: bool = False) -> tuple[np.ndarray, tuple[str, ...]]:
        """The class code of each node and the class names. At least two classes are required, unless `few_labels` or
        other labels have the classes `beside`."""
        labels = np.full(len(self._index), UNLABELED)
        if not self._given:
            return labels, ()
        node, text, place, source = (np.concatenate(parts) for parts in zip(*self._given, strict=True))
        texts = self._texts.texts()
        text = self._without_gap_floats(text, source, texts)
        used, text = np.unique(text, return_inverse=True)
        texts = [texts[one] for one in used.tolist()]
        code_of_text, names = classes_of(texts, beside)
        paths = " and ".join(str(table.path) for table in self._tables)
        self._note_missing_words(paths, text, texts, code_of_text)
        if not names:
            if self._must_hold_labels:
                raise InputError(f"{paths}: every label is empty; label some nodes")
            return labels, ()
        if not beside and not few_labels:
            check_classes(names, paths)
        code = code_of_text[text]
        labelled = np.flatnonzero(code != UNLABELED)
        order = labelled[np.argsort(node[labelled], kind="stable")]
        node, code, place, source = node[order], code[order], place[order], source[order]
        self._reject_conflicts(paths, node, [names[some] for some in code], place, source)
        labels[node] = code
        return labels, names

    def _without_gap_floats(self, text: np.ndarray, source: np.ndarray, texts: list[str]) -> np.ndarray:
        """The text of each row, as integers for tables with labels such as 1.0 only: pandas writes them for integers
        with gaps. New texts are appended to `texts`."""
        for number in range(len(self._tables)):
            rows = np.flatnonzero(source == number)
            used = [one for one in np.unique(text[rows]).tolist() if not is_missing(texts[one])]
            if all(integer_text(texts[one]) != texts[one] for one in used):
                place = np.arange(len(texts))
                place[used] = len(texts) + np.arange(len(used))
                texts += [integer_text(texts[one]) for one in used]
                text[rows] = place[text[rows]]
        return text

    def _note_missing_words(self, paths: str, text: np.ndarray, texts: list[str], codes: np.ndarray) -> None:
        """A word such as none, or -1, may be meant as a class."""
        words = [number for number, word in enumerate(texts) if codes[number] == UNLABELED and word.casefold() != "nan"]
        count = int(np.isin(text, words).sum())
        if count:
            named = ", ".join(shown(texts[word]) for word in words[:3])
            note(f"{paths}: {count} labels are words for a missing value ({named}) and count as unlabelled")

    def _reject_conflicts(
        self, paths: str, node: np.ndarray, label: list[str], place: np.ndarray, source: np.ndarray
    ) -> None:
        """Reject nodes with two labels. All arrays are sorted by node."""
        names = np.array(label)
        conflicts = np.flatnonzero((node[1:] == node[:-1]) & (names[1:] != names[:-1]))
        if not len(conflicts):
            return
        ids = self._index.ids()

        def given(row: int) -> str:
            return f"{self._tables[source[row]].at(int(place[row]))} has {shown(label[row])}"

        faults = Faults(paths)
        first = int(conflicts[0])
        faults.add(
            FaultKind("labels contradict another of the same node", "keep one label for each node"),
            f"two labels for node {shown(ids[node[first]])}: {given(first)}, {given(first + 1)}; keep one",
            [f"node {shown(ids[node[row]])}: {shown(label[row])} and {shown(label[row + 1])}" for row in conflicts[:3]],
            len(conflicts),
        )
        faults.raise_first_kind()
