"""A project of the studio: a graph, its labels and a model in one folder, whose files docs/studio.md lists.

Every change is a read-modify-write under a lock and is on disk when the method returns. Windows and processes that
share a project never overwrite each other's labels, edits by hand are respected, and killing a process loses no label.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mtgcn.errors import InputError, shown, unknown_name
from mtgcn.io.options import TableOptions
from mtgcn.storage.files import PARTIAL
from mtgcn.studio.storage import (
    FILES,
    MAX_CHANGES,
    Change,
    LoadedGraph,
    ProjectFolder,
    Source,
    State,
    checked_class,
    copy_files,
    copy_model,
    label_table,
    read_label_file,
    read_source,
)

LABELS, STATE, MODEL, UPLOADS, KEPT = "labels.csv", "project.json", "model", "uploads", "kept"
MAX_LABELS_OF_CHANGES = 10_000  # labels in the changes kept for undo; the last change is always kept


class Project(ProjectFolder):
    """Labels of the nodes of one graph. Node ids and class names are strings.

    A new folder becomes an empty project. An object is safe to use from many threads, and many processes may open the
    same folder.
    """

    def __init__(self, folder: str | Path) -> None:
        super().__init__(folder)
        self._state: tuple[bytes | None, State] = (None, State())
        self._loaded: tuple[int, LoadedGraph] | None = None
        self._labels: tuple[object, dict[str, str]] = (None, {})  # key (load and file content) and labels
        with self._changing():
            for partial in self.folder.glob(PARTIAL):  # half-written files of a killed process
                partial.unlink(missing_ok=True)

    @property
    def labels_path(self) -> Path:
        return self.path(LABELS)

    @property
    def model_folder(self) -> Path:
        return self.path(MODEL)

    @property
    def state(self) -> State:
        """The current state on disk."""
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
            raise InputError(f"unknown node {shown(node)}; choose one of the graph {self.state.title}")
        return index

    def labels(self) -> dict[str, str]:
        """The current labels in `labels.csv`."""
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

    # Loading. When another graph is loaded, the current one is set aside with its labels and model.

    def load_dataset(self, name: str, *, window: str = "") -> None:
        """Load a built-in dataset. Its classes are known, but its labels stay hidden."""
        self._load(lambda load: Source(dataset=name, given=name), window)

    def load_files(
        self, files: TableOptions, *, pictures: Path | None = None, again: bool = False, window: str = ""
    ) -> None:
        """Load copies of files. Their labels go to `labels.csv`; a file that exists before the first load is kept.

        `pictures` is the folder that paths of pictures are relative to. With `again`, the files are the present copies,
        and the options, such as roles of columns, are others: labels, classes and skipped nodes are kept, even if the
        rows get other ids.
        """
        self._load(lambda load: copy_files(files, self, load, pictures), window, again=again)

    def load_model(self, model: Path) -> None:
        """Load graph and labels of a copy of a model that `mtgcn fit` saved."""
        self._load(lambda load: copy_model(model, self, load), "")

    def kept(self) -> dict[int, str]:
        """The loads that were set aside, with a title."""
        numbers = sorted(int(path.parent.name) for path in self.folder.glob(f"{KEPT}/[0-9]*/{STATE}"))
        found = {}
        for load in numbers:
            title = State.from_json(self.read(KEPT, str(load), STATE)).title
            lines = (self.read(KEPT, str(load), LABELS) or b"").strip().count(b"\n")
            found[load] = f"{title}, {lines} label{'' if lines == 1 else 's'}"
        return found

    def open_kept(self, load: int, *, window: str = "") -> None:
        """Open a load that was set aside, and set the current one aside."""
        with self._changing():
            content = self.read(KEPT, str(load), STATE)
            if content is None:
                raise InputError("this graph is no longer stored; load it again under Data")
            state = State.from_json(content)
            change = Change(title=f"opened {state.title}", window=window, opened=self.state.load)
            self._replace(state.model_copy(update={"history": (*state.history, change)}))

    def _load(self, copy: Callable[[int], Source], window: str, *, again: bool = False) -> None:
        with self._changing():
            before = self.state
            load = max([before.load, *self.kept()]) + 1
            copies = self.path(FILES, str(load))
            shutil.rmtree(copies, ignore_errors=True)  # copies of a load that failed
            source = copy(load)
            if again:
                source = source.model_copy(update={"given": self.source.given})
            same = not again and before.source is not None and before.source.given == source.given
            loaded = self.loaded if same else read_source(source, self, load)
            state = State(load=load, source=source, classes=loaded.graph.class_names)
            if same:  # the same command again
                shutil.rmtree(copies, ignore_errors=True)
            elif before.source is None:
                self._loaded = load, loaded
                self._take_existing_labels(loaded)
                self._write_state(state)
            else:
                labels: dict[str, str | None] = {}
                if again:
                    state, labels = self._carried_over(state, loaded)
                self._loaded = load, loaded
                opened = Change(title=f"loaded {state.title}", window=window, opened=before.load)
                self._replace(state.model_copy(update={"history": (opened,)}))
                self._update_labels(labels)
            shutil.rmtree(self.path(UPLOADS), ignore_errors=True)

    def _carried_over(self, state: State, loaded: LoadedGraph) -> tuple[State, dict[str, str | None]]:
        """The state of a new load with the classes and skipped nodes of the current one, and the labels that the user
        changed. Nodes are matched by position, or by id if some were left out."""
        before, given, labels = self.loaded, self.loaded.labels, self.labels()
        by_place = len(before.ids) == len(loaded.ids)
        now = dict(zip(before.ids if by_place else loaded.ids, loaded.ids, strict=True))
        own = {node for node in {*labels, *given} & now.keys() if labels.get(node) != given.get(node)}
        used, old = {*state.classes, *(labels.get(node) for node in own)}, before.graph.class_names
        kept = (name for name in self.classes if name in used or name not in old)
        update = {
            "classes": tuple(dict.fromkeys([*kept, *state.classes])),
            "skipped": tuple(now[node] for node in self.skipped if node in now),
        }
        return state.model_copy(update=update), {now[node]: labels.get(node) for node in own}

    def _take_existing_labels(self, loaded: LoadedGraph) -> None:
        """Merge a label file that exists before the first load; a file for another graph is renamed."""
        existing: dict[str, str] = {}
        if (self.read(LABELS) or b"").strip():
            try:
                existing = read_label_file(self.labels_path, loaded.ids)
            except InputError:
                self.labels_path.rename(self.path(self._unused_name("labels-before")))
        self._write_labels({**loaded.labels, **existing}, loaded, existing)

    def _replace(self, state: State) -> None:
        """Open another load. It counts as open once the state is written; remaining steps are completed when the
        project is opened next."""
        before = self.state
        self.write(before.model_dump_json(indent=1).encode(), KEPT, str(before.load), STATE)
        self._write_state(state.model_copy(update={"unsettled": before.load}))
        self._settle()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Lock the project and complete an interrupted load."""
        with self.locked():
            self._settle()
            yield

    def _settle(self) -> None:
        """Complete an interrupted load: set labels and model of the previous load aside, then take those of this."""
        state = self.state
        if not state.unsettled:
            return
        aside, own = ((KEPT, str(load)) for load in (state.unsettled, state.load))
        if not self.path(*aside, LABELS).exists():  # otherwise this step is done
            if self.model_folder.exists():
                self.model_folder.rename(self.path(*aside, MODEL))
            self.write(self.read(LABELS) or label_table({}), LABELS)
            self.labels_path.rename(self.path(*aside, LABELS))
        if self.path(*own, MODEL).exists():
            self.path(*own, MODEL).rename(self.model_folder)
        if self.path(*own, LABELS).exists():
            self.path(*own, LABELS).replace(self.labels_path)
        elif not self.labels_path.exists():
            self.write(label_table(self.loaded.labels), LABELS)
        self._update_state(unsettled=0)
        shutil.rmtree(self.path(*own), ignore_errors=True)

    # Labelling. Each browser window, named `window`, undoes its own changes.

    def label(self, node: str | Sequence[str], name: str | None, *, window: str = "") -> None:
        """Set the label of one or several nodes; None removes it."""
        nodes = [node] if isinstance(node, str) else node
        with self._changing():
            if name is not None:
                self._check_class(name)
            for one in nodes:
                self.node_index(one)
            self._set_labels(dict.fromkeys(nodes, name), "removed the label of" if name is None else "labelled", window)

    def import_labels(self, path: Path, *, window: str = "") -> int:
        """Import the labels of a file, which replace labels of the same nodes. Returns the number of changed labels."""
        with self._changing():
            labels = read_label_file(path, self.loaded.ids)
            return self._set_labels({**labels}, f"imported {path.name}, labelled", window)

    def _set_labels(self, labels: Mapping[str, str | None], title: str, window: str) -> int:
        now = self.labels()
        changed = {node: (now.get(node), name) for node, name in labels.items() if now.get(node) != name}
        what = next(iter(changed), "") if len(changed) == 1 else f"{len(changed)} nodes"
        names = {after for _, after in changed.values()}
        name = next(iter(names)) if len(names) == 1 else None
        if changed:
            title = f"{title} {what}{'' if name is None else f' as {name}'}"
            self._apply(Change(title=title, window=window, labels=changed))
        return len(changed)

    def skip(self, node: str, *, window: str = "") -> None:
        """Skip a node; the queue offers it again when no other node is left."""
        with self._changing():
            self.node_index(node)
            self._apply(Change(title=f"skipped {node}", window=window, skipped=node))

    def add_class(self, name: str, *, node: str | None = None, window: str = "") -> str:
        """Add a class, and label a node with it if one is given; returns its normalised name."""
        with self._changing():
            before = self.classes
            name = checked_class(name, before)
            labels = {} if node is None else {node: (self.labels().get(node), name)}
            title = f"added class {name}"
            self._apply(Change(title=title, window=window, labels=labels, classes=(before, (*before, name))))
            return name

    def remove_class(self, name: str, into: str | None = None, *, window: str = "") -> None:
        """Remove a class and its labels; with `into`, move its labels to that class."""
        with self._changing():
            self._check_class(name)
            if into is not None:
                self._check_class(into)
            if into == name:
                raise InputError(f"class {shown(name)} cannot be merged with itself; name two classes")
            title = f"deleted class {name}" if into is None else f"merged class {name} into {into}"
            others = [other for other in self.classes if other != name]
            self._set_classes(title, window, others, {name: into})

    def move_class(self, name: str, places: int, *, window: str = "") -> None:
        """Move a class up (negative number of places) or down in the order of the keys."""
        with self._changing():
            self._check_class(name)
            names = [other for other in self.classes if other != name]
            names.insert(max(0, self.classes.index(name) + places), name)
            self._set_classes(f"moved class {name}", window, names)

    def rename_class(self, before: str, after: str, *, window: str = "") -> str:
        """Rename a class in all its labels; returns the normalised name."""
        with self._changing():
            self._check_class(before)
            after = checked_class(after, [name for name in self.classes if name != before])
            names = [after if name == before else name for name in self.classes]
            self._set_classes(f"renamed class {before} to {after}", window, names, {before: after})
            return after

    def _check_class(self, name: str) -> None:
        if name not in self.classes:
            raise unknown_name("class", name, self.classes)

    def _set_classes(
        self, title: str, window: str, names: Sequence[str], replaced: Mapping[str, str | None] | None = None
    ) -> None:
        """Set the classes, and replace classes of labels."""
        by, classes = replaced or {}, (self.classes, tuple(names))
        labels = {node: (name, by[name]) for node, name in self.labels().items() if name in by}
        renamed = next(((before, after) for before, after in by.items() if after is not None), None)
        if classes[0] != classes[1]:
            self._apply(Change(title=title, window=window, labels=labels, classes=classes, renamed=renamed))

    def undo(self, *, window: str = "") -> Change | None:
        """Undo the last change of a window; None without a change. Values that changed again since then are kept."""
        with self._changing():
            history = list(self.state.history)
            for position in reversed(range(len(history))):
                if history[position].window == window:
                    change = history.pop(position)
                    if self._revert(change, history):
                        return change
            return None

    def forget_renames(self, renamed: Sequence[tuple[str, str]]) -> None:
        """Drop the renames that the fitted model already has."""
        with self._changing():
            self._update_state(renamed=tuple(pair for pair in self.state.renamed if pair not in renamed))

    def _apply(self, change: Change) -> None:
        """Labels are written first: if the process is killed in between, only the undo entry is lost."""
        self._update_labels({node: after for node, (_, after) in change.labels.items()})
        state = self.state
        history, left = [change], MAX_LABELS_OF_CHANGES - len(change.labels)
        for earlier in reversed(state.history[-MAX_CHANGES + 1 :]):
            left -= len(earlier.labels)
            if left < 0:
                break
            history.insert(0, earlier)
        updates: dict[str, Any] = {"history": tuple(history)}
        if change.skipped is not None:
            updates["skipped"] = (*(node for node in state.skipped if node != change.skipped), change.skipped)
        if change.classes is not None:
            updates["classes"] = change.classes[1]
        if change.renamed is not None:
            updates["renamed"] = (*state.renamed, change.renamed)
        self._update_state(**updates)

    def _revert(self, change: Change, history: Sequence[Change]) -> bool:
        """Undo a change and store this history; False if nothing of the change was left."""
        if change.opened is not None:
            self._update_state(history=tuple(history))
            content = self.read(KEPT, str(change.opened), STATE)
            if content is not None:
                self._replace(State.from_json(content))
            return content is not None
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
            self._write_labels(labels, self.loaded, now)

    def _write_labels(self, labels: Mapping[str, str], loaded: LoadedGraph, now: Mapping[str, str]) -> None:
        """Write `labels.csv` in node order. A file that has more than ids and labels (those in `now`) is
        copied to another name first."""
        content = self.read(LABELS) or b""
        if content.strip() and sorted(content.splitlines()) != sorted(label_table(now).splitlines()):
            self.write(content, self._unused_name("labels-by-hand"))
        labels = {node: labels[node] for node in sorted(labels, key=loaded.index.__getitem__)}
        content = label_table(labels)
        self.write(content, LABELS)
        self._labels = (self.state.load, content.strip()), labels  # avoids reading the file again

    def _unused_name(self, stem: str) -> str:
        names = (f"{stem}-{number}.csv" for number in itertools.count(1))
        return next(name for name in names if not self.path(name).exists())

    def _update_state(self, **changes: Any) -> None:
        state = self.state.model_copy(update=changes)
        if state != self.state:
            self._write_state(state)

    def _write_state(self, state: State) -> None:
        self.write(state.model_dump_json(indent=1).encode(), STATE)
