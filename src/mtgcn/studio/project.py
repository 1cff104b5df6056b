"""A project of the studio: a graph, the labels given so far, and the model, in one folder.

    project/
      labels.csv      id,label: for `mtgcn fit --labels`; may be edited by hand
      project.json    the source of the graph, the classes, the skipped nodes, the last changes
      files/          copies of the loaded files
      model/          the last fitted model, for `mtgcn predict`

Every change is a read-modify-write under a lock and is on disk when the method returns. Windows and processes that
share a project never overwrite each other's labels, edits by hand are respected, and a kill loses no label.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mtgcn.errors import InputError, shown, unknown_name
from mtgcn.graph import Graph
from mtgcn.io.options import TableOptions
from mtgcn.storage.files import PARTIAL
from mtgcn.studio.source import FILES, LoadedGraph, copy_files, copy_model, read_source
from mtgcn.studio.storage import (
    MAX_CHANGES,
    Change,
    ProjectFolder,
    Source,
    State,
    checked_class,
    label_table,
    read_label_file,
)

LABELS, STATE, MODEL, UPLOADS = "labels.csv", "project.json", "model", "uploads"


class Project(ProjectFolder):
    """Labels of the nodes of one graph. Node ids and class names are strings.

    A new folder becomes an empty project. An object is safe to use from many threads, and many processes may open the
    same folder.
    """

    def __init__(self, folder: str | Path) -> None:
        super().__init__(folder)
        self._state: tuple[bytes | None, State] = (None, State())
        self._loaded: tuple[int, LoadedGraph] | None = None
        self._labels: tuple[object, dict[str, str]] = (None, {})  # load and file content, labels
        with self._changing():
            for partial in self.folder.glob(PARTIAL):  # left half-written by a killed process
                partial.unlink(missing_ok=True)

    @property
    def labels_path(self) -> Path:
        return self.path(LABELS)

    @property
    def model_folder(self) -> Path:
        return self.path(MODEL)

    @property
    def state(self) -> State:
        """The state on disk."""
        content, known = self.read(STATE), self._state
        if content != known[0]:
            self._state = known = content, State.from_json(content)
        return known[1]

    @property
    def source(self) -> Source:
        source = self.state.source
        if source is None:
            raise InputError(f"no graph is loaded in {self.folder}; load files or a dataset first")
        return source

    @property
    def loaded(self) -> LoadedGraph:
        """The graph of the last load, by this process or another; cached."""
        source, load = self.source, self.state.load
        known = self._loaded
        if known is None or known[0] != load:
            self._loaded = known = load, read_source(source, self, load)
        return known[1]

    def node_index(self, node: str) -> int:
        """The index of a node in the graph."""
        index = self.loaded.index.get(node)
        if index is None:
            raise InputError(f"unknown node {shown(node)}; choose one of the graph {self.source.title}")
        return index

    def labels(self) -> dict[str, str]:
        """The label of each labelled node, as in `labels.csv` now."""
        state, content = self.state, (self.read(LABELS) or b"").strip()
        if state.source is None or not content:
            return {}
        known = self._labels
        if known[0] != (state.load, content):
            self._labels = known = (state.load, content), read_label_file(self.labels_path, self.loaded.ids)
        return dict(known[1])

    @property
    def skipped(self) -> tuple[str, ...]:
        """Skipped nodes without a label, in the order in which they were skipped."""
        labels = self.labels()
        return tuple(node for node in self.state.skipped if node not in labels)

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes in the order of their number keys."""
        return tuple(dict.fromkeys([*self.state.classes, *sorted(set(self.labels().values()))]))

    def labelled_graph(self) -> Graph:
        """The graph with its labels; classes in the order of `mtgcn fit`."""
        return self.loaded.labelled(self.labels())

    # Loading

    def load_dataset(self, name: str) -> None:
        """Load a built-in dataset. Its labels stay hidden; its classes are offered."""
        source = Source(dataset=name)
        if self.state.source != source:
            self._load(lambda load: source)

    def load_files(self, files: TableOptions) -> None:
        """Load copies of files. Their labels go to `labels.csv`.

        Labels of the previous graph move to `labels-before-N.csv`. A `labels.csv` that exists before the first load is
        kept.
        """
        self._load(lambda load: copy_files(files, self, load))

    def load_model(self, model: Path) -> None:
        """Load graph and labels of a copy of a model that `mtgcn fit` saved."""
        self._load(lambda load: copy_model(model, self, load))

    def _load(self, copy: Callable[[int], Source]) -> None:
        with self._changing():
            load = self.state.load + 1
            copies = self.path(FILES, str(load))
            shutil.rmtree(copies, ignore_errors=True)  # of an interrupted load
            try:
                source = copy(load)
                loaded = read_source(source, self, load)
            except BaseException:
                shutil.rmtree(copies, ignore_errors=True)
                raise
            existing = None
            if self.state.source is None and (self.read(LABELS) or b"").strip():
                with suppress(InputError):  # labels of another graph
                    existing = read_label_file(self.labels_path, loaded.ids)
            aside = self._unused_name("labels-before") if existing is None else ""
            if existing is not None:
                self._write_labels({**loaded.labels, **existing}, loaded)
            # After this write the load counts as done; the next opening of the project finishes it.
            self._write_state(State(load=load, source=source, classes=loaded.graph.class_names, unsettled=aside))
            self._loaded = load, loaded
            self._settle()
            for left in (self.path(UPLOADS), self.path(FILES, str(load - 1))):
                shutil.rmtree(left, ignore_errors=True)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the project exclusively, with an interrupted load finished."""
        with self.locked():
            self._settle()
            yield

    def _settle(self) -> None:
        """Finish an interrupted load: set the labels of the previous graph aside."""
        if self.state.unsettled:
            aside = self.path(self.state.unsettled)
            if self.labels_path.exists() and not aside.exists():
                self.labels_path.rename(aside)
            self.write(label_table(self.loaded.labels), LABELS)
            self._update_state(unsettled="")

    # Labelling. `window` names the browser window, whose changes are undone separately.

    def label(self, node: str, name: str | None, *, window: str = "") -> None:
        """Set the label of a node; None removes it."""
        with self._changing():
            if name is not None:
                self._check_class(name)
            self.node_index(node)
            before = self.labels().get(node)
            title = f"removed the label of {node}" if name is None else f"labelled {node} as {name}"
            if before != name:
                self._apply(Change(title=title, window=window, labels={node: (before, name)}))

    def skip(self, node: str, *, window: str = "") -> None:
        """Skip a node: the queue offers it again when no other is left."""
        with self._changing():
            self.node_index(node)
            self._apply(Change(title=f"skipped {node}", window=window, skipped=node))

    def add_class(self, name: str, *, window: str = "") -> str:
        """Add a class; returns its normalised name."""
        with self._changing():
            before = self.classes
            name = checked_class(name, before)
            self._apply(Change(title=f"added class {name}", window=window, classes=(before, (*before, name))))
            return name

    def rename_class(self, before: str, after: str, *, window: str = "") -> str:
        """Rename a class in all its labels; returns the normalised name."""
        with self._changing():
            self._check_class(before)
            after = checked_class(after, [name for name in self.classes if name != before])
            if after != before:
                self._replace_class(before, after, f"renamed class {before} to {after}", window)
            return after

    def merge_classes(self, name: str, into: str, *, window: str = "") -> None:
        """Move the labels of a class to another one and remove the class."""
        with self._changing():
            self._check_class(name)
            self._check_class(into)
            if name == into:
                raise InputError(f"class {shown(name)} cannot be merged with itself; name two classes")
            self._replace_class(name, into, f"merged class {name} into {into}", window)

    def undo(self, *, window: str = "") -> Change | None:
        """Undo the last change of a window; None without one. Values changed again since then stay."""
        with self._changing():
            history = list(self.state.history)
            for position in reversed(range(len(history))):
                if history[position].window == window:
                    change = history.pop(position)
                    if self._revert(change, history):
                        return change
            return None

    def forget_renames(self, renamed: Sequence[tuple[str, str]]) -> None:
        """Drop renames that the fitted model knows."""
        with self._changing():
            self._update_state(renamed=tuple(pair for pair in self.state.renamed if pair not in renamed))

    def _check_class(self, name: str) -> None:
        if name not in self.classes:
            raise unknown_name("class", name, self.classes)

    def _replace_class(self, name: str, by: str, title: str, window: str) -> None:
        merged = (name,) if by in self.classes else ()
        classes = tuple(by if other == name else other for other in self.classes if other not in merged)
        labels = {node: (name, by) for node, label in self.labels().items() if label == name}
        self._apply(
            Change(title=title, window=window, labels=labels, classes=(self.classes, classes), renamed=(name, by))
        )

    def _apply(self, change: Change) -> None:
        """Write labels first: a kill after that costs the undo of this change, a kill before it costs nothing."""
        self._update_labels({node: after for node, (_, after) in change.labels.items()})
        state = self.state
        updates: dict[str, Any] = {"history": (*state.history, change)[-MAX_CHANGES:]}
        if change.skipped is not None:
            updates["skipped"] = (*(node for node in state.skipped if node != change.skipped), change.skipped)
        if change.classes is not None:
            updates["classes"] = change.classes[1]
        if change.renamed is not None:
            updates["renamed"] = (*state.renamed, change.renamed)
        self._update_state(**updates)

    def _revert(self, change: Change, history: Sequence[Change]) -> bool:
        """Undo a change and keep this history; False if nothing of the change was left."""
        state, labels = self.state, self.labels()
        restored = {node: before for node, (before, after) in change.labels.items() if labels.get(node) == after}
        self._update_labels(restored)
        updates: dict[str, Any] = {"skipped": tuple(node for node in state.skipped if node != change.skipped)}
        if change.classes is not None:
            before, after = change.classes
            kept = [name for name in state.classes if name in before or name not in after]
            updates["classes"] = tuple(dict.fromkeys([*before, *kept]))
            updates["renamed"] = tuple(pair for pair in state.renamed if pair != change.renamed)
        self._update_state(history=tuple(history), **updates)
        return bool(restored) or state.model_copy(update=updates) != state

    def _update_labels(self, changes: Mapping[str, str | None]) -> None:
        now = self.labels()
        labels = {node: name for node, name in {**now, **changes}.items() if name is not None}
        if labels != now:
            self._write_labels(labels, self.loaded)

    def _write_labels(self, labels: Mapping[str, str], loaded: LoadedGraph) -> None:
        """Write `labels.csv` in node order. A file with more than ids and labels is kept under another name first."""
        content = self.read(LABELS) or b""
        if content.strip():
            plain = label_table(read_label_file(self.labels_path, loaded.ids))
            if sorted(content.splitlines()) != sorted(plain.splitlines()):
                self.write(content, self._unused_name("labels-by-hand"))
        self.write(label_table({node: labels[node] for node in sorted(labels, key=loaded.index.__getitem__)}), LABELS)

    def _unused_name(self, stem: str) -> str:
        names = (f"{stem}-{number}.csv" for number in itertools.count(1))
        return next(name for name in names if not self.path(name).exists())

    def _update_state(self, **changes: Any) -> None:
        state = self.state.model_copy(update=changes)
        if state != self.state:
            self._write_state(state)

    def _write_state(self, state: State) -> None:
        self.write(state.model_dump_json(indent=1).encode(), STATE)
