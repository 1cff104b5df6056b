"""A project of the studio: a graph, the labels given so far, and the model, in one folder.

    project/
      labels.csv      id,label: for `mtgcn fit --labels`; may be edited by hand
      project.json    the source of the graph, the classes, the skipped nodes
      history.json    the last changes, for undo
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
from mtgcn.studio.storage import (
    FILES,
    Change,
    LoadedGraph,
    ProjectFolder,
    Source,
    State,
    checked_class,
    copy_files,
    copy_model,
    history_json,
    label_table,
    read_history,
    read_label_file,
    read_source,
)

LABELS, STATE, HISTORY, MODEL, UPLOADS = "labels.csv", "project.json", "history.json", "model", "uploads"


class Project:
    """Labels of the nodes of one graph. Node ids and class names are strings.

    An object is safe to use from many threads, and many processes may open the same folder.
    """

    def __init__(self, folder: ProjectFolder) -> None:
        self.files = folder
        self._state: tuple[bytes | None, State] = (None, State())
        self._loaded: tuple[int, LoadedGraph] | None = None
        self._labels: tuple[int, bytes, dict[str, str]] | None = None  # load, file content, labels

    @staticmethod
    def open(folder: str | Path) -> Project:
        """Open the project in a folder; a new folder becomes an empty project."""
        project = Project(ProjectFolder(folder))
        with project._changing():
            for partial in project.folder.glob(PARTIAL):  # left half-written by a killed process
                partial.unlink(missing_ok=True)
        return project

    @property
    def folder(self) -> Path:
        return self.files.root

    @property
    def labels_path(self) -> Path:
        return self.files.path(LABELS)

    @property
    def model_folder(self) -> Path:
        return self.files.path(MODEL)

    @property
    def state(self) -> State:
        """The state on disk."""
        content, known = self.files.read(STATE), self._state
        if content != known[0]:
            self._state = known = content, State.from_json(content)
        return known[1]

    @property
    def is_loaded(self) -> bool:
        return self.state.source is not None

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
            self._loaded = known = load, read_source(source, self.files, load)
        return known[1]

    def node_index(self, node: str) -> int:
        """The index of a node in the graph."""
        index = self.loaded.index.get(node)
        if index is None:
            raise InputError(f"unknown node {shown(node)}; choose one of the graph {self.source.title}")
        return index

    def labels(self) -> dict[str, str]:
        """The label of each labelled node, as in `labels.csv` now."""
        if not self.is_loaded:
            return {}
        loaded, load = self.loaded, self.state.load
        content = self.files.read(LABELS)
        if content is None or not content.strip():
            return {}
        known = self._labels
        if known is None or known[:2] != (load, content):
            self._labels = known = load, content, read_label_file(self.labels_path, loaded.ids)
        return dict(known[2])

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
        self._load(lambda load: copy_files(files, self.files, load))

    def load_model(self, model: Path) -> None:
        """Load graph and labels of a copy of a model that `mtgcn fit` saved."""
        self._load(lambda load: copy_model(model, self.files, load))

    def _load(self, copy: Callable[[int], Source]) -> None:
        with self._changing():
            load = self.state.load + 1
            copies = self.files.path(FILES, str(load))
            shutil.rmtree(copies, ignore_errors=True)  # of an interrupted load
            try:
                source = copy(load)
                loaded = read_source(source, self.files, load)
            except BaseException:
                shutil.rmtree(copies, ignore_errors=True)
                raise
            state: dict[str, Any] = {"load": load, "source": source, "classes": loaded.class_names}
            state |= {"skipped": (), "renamed": ()}
            existing = None
            if not self.is_loaded and (self.files.read(LABELS) or b"").strip():
                with suppress(InputError):  # labels of another graph
                    existing = read_label_file(self.labels_path, loaded.ids)
            if existing is None:
                # After this write the load counts as done; the next `open` finishes it.
                self._write_state(**state, unsettled=self._unused_name("labels-before"))
            else:
                self._write_labels({**loaded.labels, **existing}, loaded)
                self._write_state(**state)
            self._loaded = load, loaded
            self._settle()
            for left in (self.files.path(UPLOADS), self.files.path(FILES, str(load - 1))):
                shutil.rmtree(left, ignore_errors=True)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the project exclusively, with an interrupted load finished."""
        with self.files.locked():
            self._settle()
            yield

    def _settle(self) -> None:
        """Finish an interrupted load: set the labels of the previous graph aside."""
        if not self.state.unsettled:
            return
        with self.files.locked():
            state = self.state
            if state.unsettled:
                aside = self.files.path(state.unsettled)
                if self.labels_path.exists() and not aside.exists():
                    self.labels_path.rename(aside)
                self.files.write(label_table(self.loaded.labels), LABELS)
                self.files.write(history_json([]), HISTORY)
                self._write_state(unsettled="")

    # Labelling. `window` names the browser window, whose changes are undone separately.

    def label(self, node: str, name: str, *, window: str = "") -> None:
        """Set the label of a node."""
        with self._changing():
            self._check_class(name)
            self._set_label(node, name, f"labelled {node} as {name}", window)

    def unlabel(self, node: str, *, window: str = "") -> None:
        """Remove the label of a node."""
        with self._changing():
            self._set_label(node, None, f"removed the label of {node}", window)

    def _set_label(self, node: str, name: str | None, title: str, window: str) -> None:
        self.node_index(node)
        before = self.labels().get(node)
        if before != name:
            self._apply(Change(title=title, window=window, labels={node: (before, name)}))

    def skip(self, node: str, *, window: str = "") -> None:
        """Skip a node: the queue offers it again when no other is left."""
        with self._changing():
            self.node_index(node)
            self._apply(Change(title=f"skipped {node}", window=window, skipped=node))

    def undo(self, *, window: str | None = None) -> Change | None:
        """Undo the last change, of one window if given; None without one. Values changed again since then stay."""
        with self._changing():
            changes = read_history(self.files.read(HISTORY))
            for position in reversed(range(len(changes))):
                change = changes[position]
                if window is not None and change.window != window:
                    continue
                del changes[position]
                if self._revert(change):
                    self.files.write(history_json(changes), HISTORY)
                    return change
            return None

    def add_class(self, name: str, *, window: str = "") -> str:
        """Add a class; returns its normalised name."""
        with self._changing():
            before = self.classes
            name = self._new_class(name, before)
            self._apply(Change(title=f"added class {name}", window=window, classes=(before, (*before, name))))
            return name

    def rename_class(self, before: str, after: str, *, window: str = "") -> str:
        """Rename a class in all its labels; returns the normalised name."""
        with self._changing():
            self._check_class(before)
            after = self._new_class(after, [name for name in self.classes if name != before])
            if after != before:
                renamed = tuple(after if name == before else name for name in self.classes)
                self._replace_class(f"renamed class {before} to {after}", window, renamed, (before, after))
            return after

    def merge_classes(self, name: str, into: str, *, window: str = "") -> None:
        """Move the labels of a class to another one and remove the class."""
        with self._changing():
            self._check_class(name)
            self._check_class(into)
            if name == into:
                raise InputError(f"class {shown(name)} cannot be merged with itself; name two classes")
            left = tuple(other for other in self.classes if other != name)
            self._replace_class(f"merged class {name} into {into}", window, left, (name, into))

    def forget_renames(self, renamed: Sequence[tuple[str, str]]) -> None:
        """Drop renames that the fitted model knows."""
        with self.files.locked():
            self._write_state(renamed=tuple(pair for pair in self.state.renamed if pair not in renamed))

    def _check_class(self, name: str) -> None:
        if name not in self.classes:
            raise unknown_name("class", name, self.classes)

    @staticmethod
    def _new_class(name: str, known: Sequence[str]) -> str:
        name = checked_class(name, known)
        if name in known:
            raise InputError(f"class {shown(name)} exists; choose another name, or merge the classes")
        return name

    def _replace_class(self, title: str, window: str, classes: tuple[str, ...], renamed: tuple[str, str]) -> None:
        labels = {node: (name, renamed[1]) for node, name in self.labels().items() if name == renamed[0]}
        change = Change(title=title, window=window, labels=labels, classes=(self.classes, classes), renamed=renamed)
        self._apply(change)

    def _apply(self, change: Change) -> None:
        """Write labels first: a kill after that costs the undo of this change, a kill before it costs nothing."""
        self._update_labels({node: after for node, (_, after) in change.labels.items()})
        state = self.state
        if change.skipped is not None:
            self._write_state(skipped=(*(node for node in state.skipped if node != change.skipped), change.skipped))
        if change.classes is not None:
            renamed = state.renamed if change.renamed is None else (*state.renamed, change.renamed)
            self._write_state(classes=change.classes[1], renamed=renamed)
        self.files.write(history_json([*read_history(self.files.read(HISTORY)), change]), HISTORY)

    def _revert(self, change: Change) -> bool:
        """Undo a change; False if nothing of it was left."""
        labels = self.labels()
        restored = {node: before for node, (before, after) in change.labels.items() if labels.get(node) == after}
        self._update_labels(restored)
        state = self.state
        updates: dict[str, Any] = {"skipped": tuple(node for node in state.skipped if node != change.skipped)}
        if change.classes is not None:
            before, after = change.classes
            kept = [name for name in state.classes if name in before or name not in after]
            updates["classes"] = tuple(dict.fromkeys([*before, *kept]))
            updates["renamed"] = tuple(pair for pair in state.renamed if pair != change.renamed)
        self._write_state(**updates)
        return bool(restored) or self.state != state

    def _update_labels(self, changes: Mapping[str, str | None]) -> None:
        now = self.labels()
        labels = {node: name for node, name in {**now, **changes}.items() if name is not None}
        if labels != now:
            self._write_labels(labels, self.loaded)

    def _write_labels(self, labels: Mapping[str, str], loaded: LoadedGraph) -> None:
        """Write `labels.csv` in node order. A file with more than ids and labels is kept under another name first."""
        content = self.files.read(LABELS) or b""
        if content.strip():
            plain = label_table(read_label_file(self.labels_path, loaded.ids))
            if sorted(content.splitlines()) != sorted(plain.splitlines()):
                self.files.write(content, self._unused_name("labels-by-hand"))
        ordered = sorted(labels.items(), key=lambda item: loaded.index[item[0]])
        self.files.write(label_table(dict(ordered)), LABELS)

    def _unused_name(self, stem: str) -> str:
        names = (f"{stem}-{number}.csv" for number in itertools.count(1))
        return next(name for name in names if not self.files.path(name).exists())

    def _write_state(self, **changes: Any) -> None:
        state = self.state.model_copy(update=changes)
        if state != self.state:
            self.files.write(state.to_json(), STATE)
