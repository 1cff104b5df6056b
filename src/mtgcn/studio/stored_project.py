"""What a project holds on disk: what was loaded, and the labels as they are now."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from mtgcn.errors import InputError, shown
from mtgcn.graph import Graph
from mtgcn.io.options import TableOptions
from mtgcn.studio.folder import ProjectFolder, checked_name
from mtgcn.studio.history import history_text
from mtgcn.studio.label_file import label_table, read_label_file
from mtgcn.studio.source import FILES, MOST_UPLOAD_BYTES, Loaded, Source, copied, copied_model, read_source
from mtgcn.studio.state import State, read_state, state_text
from mtgcn.workflows.fit import columns_of

LABELS, STATE, HISTORY, MODEL, UPLOADS = "labels.csv", "project.json", "history.json", "model", "uploads"


@dataclass(frozen=True)
class ProjectSummary:
    """What was loaded, for a person to read."""

    title: str
    nodes: int
    edges: int
    features: int
    isolated_nodes: int
    columns: Sequence[str]  # what was done with each column of the node table
    notes: Sequence[str]  # what the readers remarked
    labels: Mapping[str, int]  # by class, in the order of the classes; 0 where a class has none yet
    skipped: int

    @property
    def labelled(self) -> int:
        return sum(self.labels.values())


class StoredProject:
    """Everything that is read, and what loading changes. What a person changes is in `project.py`."""

    def __init__(self, folder: ProjectFolder) -> None:
        self.files = folder
        self._state: tuple[bytes | None, State] = (None, State())
        self._loaded: tuple[int, Loaded] | None = None
        self._labels: tuple[int, bytes, dict[str, str]] | None = None  # of which load, content, what it says

    @property
    def folder(self) -> Path:
        return self.files.root

    @property
    def labels_path(self) -> Path:
        return self.files.place(LABELS)

    @property
    def model_folder(self) -> Path:
        return self.files.place(MODEL)

    # What was loaded

    @property
    def state(self) -> State:
        """As it is on disk now."""
        content = self.files.read(STATE)
        before, state = self._state
        if content != before:
            state = read_state(content)
            self._state = content, state
        return state

    @property
    def is_loaded(self) -> bool:
        return self.state.source is not None

    @property
    def source(self) -> Source:
        source = self.state.source
        if source is None:
            raise InputError(f"nothing is loaded in {self.folder}; load files or a dataset first")
        return source

    @property
    def loaded(self) -> Loaded:
        """The graph that was loaded last, by this process or another; read once."""
        source, load = self.source, self.state.load
        known = self._loaded
        if known is None or known[0] != load:
            known = load, read_source(source, self.files, load)
            self._loaded = known
        return known[1]

    @property
    def graph(self) -> Graph:
        """The graph without labels."""
        return self.loaded.graph

    def load_dataset(self, name: str) -> ProjectSummary:
        """Take a built-in dataset. Its labels stay hidden; its classes are offered by name."""
        source = Source(dataset=name)
        with self.files.locked():
            self.settle()
            if self.is_loaded and self.source == source:
                return self.summary()
            load = self.state.load + 1
            return self._take(load, source, read_source(source, self.files, load))

    def load_files(self, files: TableOptions) -> ProjectSummary:
        """Take a person's files: copies of them go to the project, and the labels they bring to `labels.csv`. Labels of
        what was loaded before are set aside, as `labels-before-N.csv`; a `labels.csv` that was there before anything
        was loaded stays."""
        return self._load(lambda load: copied(replace(files, few_labels=True), self.files, load))

    def load_model(self, model: Path) -> ProjectSummary:
        """Take graph and labels of a model that `mtgcn fit` wrote; a copy of it goes to the project."""
        return self._load(lambda load: copied_model(model, self.files, load))

    def _load(self, copy: Callable[[int], Source]) -> ProjectSummary:
        with self.files.locked():
            self.settle()
            load = self.state.load + 1
            with suppress(FileNotFoundError):  # of a load that was stopped
                shutil.rmtree(self.files.place(FILES, str(load)))
            try:
                source = copy(load)
                loaded = read_source(source, self.files, load)
            except BaseException:
                shutil.rmtree(self.files.place(FILES, str(load)), ignore_errors=True)
                raise
            shutil.rmtree(self.files.place(UPLOADS), ignore_errors=True)
            return self._take(load, source, loaded)

    def receive(self, name: str, content: bytes) -> Path:
        """Keep an uploaded file until it is loaded; where it is now, for `load_files`."""
        if len(content) > MOST_UPLOAD_BYTES:
            raise InputError(
                f"{shown(name)} has {len(content)} bytes and {MOST_UPLOAD_BYTES} are the most; use mtgcn fit for it"
            )
        with self.files.locked():
            return self.files.write(content, UPLOADS, checked_name(name))

    def summary(self) -> ProjectSummary:
        """What there is, with the remarks of the readers."""
        loaded, labels = self.loaded, self.labels()
        counts = dict.fromkeys(self.classes, 0)
        for name in labels.values():
            counts[name] += 1
        return ProjectSummary(
            title=self.source.title,
            nodes=loaded.graph.num_nodes,
            edges=loaded.graph.num_edges,
            features=loaded.graph.num_features,
            isolated_nodes=int((loaded.graph.adjacency.sum(axis=1) == 0).sum()),
            columns=columns_of(loaded.graph),
            notes=loaded.notes,
            labels=counts,
            skipped=len(self.skipped),
        )

    # Labels

    def labels(self) -> dict[str, str]:
        """What is said of which node, as `labels.csv` has it now."""
        if not self.is_loaded:
            return {}
        loaded, load = self.loaded, self.state.load
        content = self.files.read(LABELS)
        if content is None or not content.strip():
            return {}
        known = self._labels
        if known is None or known[:2] != (load, content):
            known = load, content, read_label_file(self.labels_path, loaded.ids)
            self._labels = known
        return dict(known[2])

    @property
    def skipped(self) -> tuple[str, ...]:
        """Nodes that were skipped and have no label since, in the order in which that was."""
        labels = self.labels()
        return tuple(node for node in self.state.skipped if node not in labels)

    def labelled_graph(self) -> Graph:
        """The graph with the labels of now, classes in the order in which `mtgcn fit` would have them."""
        return self.loaded.labelled(self.labels())

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes in the order of their number keys."""
        return tuple(dict.fromkeys([*self.state.classes, *sorted(set(self.labels().values()))]))

    def settle(self) -> None:
        """Finish a load that was stopped: set the labels aside that belong to what was loaded before."""
        if not self.state.unsettled:
            return
        with self.files.locked():
            state = self.state
            if state.unsettled:
                aside = self.files.place(state.unsettled)
                if self.labels_path.exists() and not aside.exists():
                    self.labels_path.rename(aside)
                self.files.write(label_table(self.loaded.given), LABELS)
                self.files.write(history_text([]), HISTORY)
                self._keep(replace(state, unsettled=""))

    def _take(self, load: int, source: Source, loaded: Loaded) -> ProjectSummary:
        state = State(load, source, classes=loaded.class_names)
        there = None if self.is_loaded else self._labels_for(loaded)
        if there is None:
            # From here on it is loaded, and whoever opens the project next does what is left to do.
            self._keep(replace(state, unsettled=self._unused("labels-before")))
        else:  # put there by hand, or left where project.json was lost
            self._write_labels({**loaded.given, **there}, loaded)
            self._keep(state)
        self._loaded = load, loaded
        self.settle()
        if load > 1:
            shutil.rmtree(self.files.place(FILES, str(load - 1)), ignore_errors=True)
        return self.summary()

    def _labels_for(self, loaded: Loaded) -> dict[str, str] | None:
        """What labels.csv says of a graph; None where there is no such file, or it is about something else."""
        if not (self.files.read(LABELS) or b"").strip():
            return None
        try:
            return read_label_file(self.labels_path, loaded.ids)
        except InputError:
            return None

    def _set_labels(self, changes: Mapping[str, str | None]) -> None:
        now = self.labels()
        labels = {node: name for node, name in {**now, **changes}.items() if name is not None}
        if labels != now:
            self._write_labels(labels, self.loaded)

    def _write_labels(self, labels: Mapping[str, str], loaded: Loaded) -> None:
        """In the order of the nodes. A file that says more than ids and labels, remarks for instance, is kept as it was
        before it is replaced."""
        content = self.files.read(LABELS) or b""
        if content.strip():
            said = label_table(read_label_file(self.labels_path, loaded.ids))
            if sorted(content.splitlines()) != sorted(said.splitlines()):
                self.files.write(content, self._unused("labels-by-hand"))
        order = sorted(labels.items(), key=lambda one: loaded.place[one[0]])
        self.files.write(label_table(dict(order)), LABELS)

    def _unused(self, name: str) -> str:
        """A name for a label file that nobody has yet."""
        numbered = (f"{name}-{number}.csv" for number in itertools.count(1))
        return next(one for one in numbered if not self.files.place(one).exists())

    def _keep(self, state: State) -> None:
        self.files.write(state_text(state), STATE)
