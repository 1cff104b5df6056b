"""A project of the studio: a graph, the labels a person gives, and the model, in one folder.

    project/
      labels.csv      id,label: what was said of which node, for `mtgcn fit --labels`; may be edited by hand
      project.json    what was loaded, the classes, who was skipped
      history.json    the last changes, to take them back
      files/          copies of the files that were loaded
      model/          the model of the last teaching, for `mtgcn predict`

Every change is a read-modify-write under a lock and on disk when the method returns. So two windows and two processes
never overwrite each other's labels, a hand-edit in between is taken in, and a kill at any moment loses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mtgcn.errors import InputError, shown, unknown_name
from mtgcn.studio.folder import ProjectFolder
from mtgcn.studio.history import Change, history_text, read_history
from mtgcn.studio.label_file import checked_class
from mtgcn.studio.stored_project import HISTORY, ProjectSummary, StoredProject

__all__ = ["Project", "ProjectSummary"]


class Project(StoredProject):
    """Labels of the nodes of one graph. Node ids and classes are texts everywhere.

    One object may be used from many threads, and many processes may each have one of the same folder.
    """

    @staticmethod
    def open(folder: str | Path) -> Project:
        """The project in that folder; a folder that is not there yet becomes an empty project."""
        project = Project(ProjectFolder(folder))
        project.files.tidy()
        project.settle()
        return project

    def label(self, node: str, name: str, *, window: str = "") -> None:
        """Say of which class a node is; what was said before is replaced."""
        with self.files.locked():
            self.settle()
            self._check_node(node)
            if name not in self.classes:
                raise unknown_name("class", name, self.classes)
            before = self.labels().get(node)
            if before != name:
                self._change(Change(f"labelled {node} as {name}", window, {node: (before, name)}))

    def unlabel(self, node: str, *, window: str = "") -> None:
        """Say nothing of a node any more."""
        with self.files.locked():
            self.settle()
            self._check_node(node)
            before = self.labels().get(node)
            if before is not None:
                self._change(Change(f"took the label {before} from {node}", window, {node: (before, None)}))

    def skip(self, node: str, *, window: str = "") -> None:
        """Leave a node for later: the queue asks for it again when nobody else is left."""
        with self.files.locked():
            self.settle()
            self._check_node(node)
            others = tuple(one for one in self.state.skipped if one != node)
            self._keep(replace(self.state, skipped=(*others, node)))
            self._remember(Change(f"skipped {node}", window, skipped=node))

    def undo(self, *, window: str | None = None) -> Change | None:
        """Take back the last change, or the last of one window; None where there is none. What was changed again since
        then, by hand or in another window, stays."""
        with self.files.locked():
            self.settle()
            changes = read_history(self.files.read(HISTORY))
            for place in reversed(range(len(changes))):
                change = changes[place]
                if window is not None and change.window != window:
                    continue
                del changes[place]
                if self._taken_back(change):
                    self.files.write(history_text(changes), HISTORY)
                    return change
            return None

    # Classes

    def add_class(self, name: str, *, window: str = "") -> str:
        """A class more; gives back how it is written."""
        with self.files.locked():
            self.settle()
            before = self.classes
            name = self._new_class(name, before)
            self._change(Change(f"added class {name}", window, classes=(before, (*before, name))))
            return name

    def rename_class(self, before: str, after: str, *, window: str = "") -> str:
        """Call a class otherwise, in all its labels; gives back how it is written."""
        with self.files.locked():
            self.settle()
            classes = self._with_class(before)
            after = self._new_class(after, [name for name in classes if name != before])
            if after == before:
                return after
            renamed = tuple(after if name == before else name for name in classes)
            labels = {node: (name, after) for node, name in self.labels().items() if name == before}
            title = f"renamed class {before} to {after}"
            self._change(Change(title, window, labels, (classes, renamed), renamed=(before, after)))
            return after

    def merge_classes(self, one: str, into: str, *, window: str = "") -> None:
        """Make the labels of one class labels of another; the one is gone."""
        with self.files.locked():
            self.settle()
            classes = self._with_class(one)
            self._with_class(into)
            if one == into:
                raise InputError(f"class {shown(one)} cannot be merged with itself; name two classes")
            left = tuple(name for name in classes if name != one)
            labels = {node: (name, into) for node, name in self.labels().items() if name == one}
            title = f"merged class {one} into {into}"
            self._change(Change(title, window, labels, (classes, left), renamed=(one, into)))

    def forget_renames(self, told: Sequence[tuple[str, str]]) -> None:
        """Forget what classes were called before: a model knows their new names now."""
        with self.files.locked():
            self._keep(replace(self.state, renamed=tuple(pair for pair in self.state.renamed if pair not in told)))

    # How it is done

    def _change(self, change: Change) -> None:
        """Write the labels first: a kill after that costs the way back, and before it nothing."""
        self._set_labels({node: after for node, (_, after) in change.labels.items()})
        if change.classes is not None:
            renames = () if change.renamed is None else (change.renamed,)
            state = replace(self.state, classes=tuple(change.classes[1]), renamed=(*self.state.renamed, *renames))
            self._keep(state)
        self._remember(change)

    def _taken_back(self, change: Change) -> bool:
        """Whether anything was left of the change to take back."""
        labels = self.labels()
        back = {node: before for node, (before, after) in change.labels.items() if labels.get(node) == after}
        self._set_labels(back)
        done = bool(back)
        state = self.state
        if change.skipped in state.skipped:
            state = replace(state, skipped=tuple(one for one in state.skipped if one != change.skipped))
        if change.classes is not None:
            before, after = map(tuple, change.classes)
            kept = [name for name in state.classes if name in before or name not in after]
            state = replace(
                state,
                classes=tuple(dict.fromkeys([*before, *kept])),
                renamed=tuple(pair for pair in state.renamed if pair != change.renamed),
            )
        if state != self.state:
            done = True
            self._keep(state)
        return done

    def _remember(self, change: Change) -> None:
        self.files.write(history_text([*read_history(self.files.read(HISTORY)), change]), HISTORY)

    def _check_node(self, node: str) -> None:
        if node not in self.loaded.place:
            raise InputError(f"no node is called {shown(node)}; choose one of the graph {self.source.title}")

    def _with_class(self, name: str) -> tuple[str, ...]:
        classes = self.classes
        if name not in classes:
            raise unknown_name("class", name, classes)
        return classes

    @staticmethod
    def _new_class(name: str, known: Sequence[str]) -> str:
        name = checked_class(name, known)
        if name in known:
            raise InputError(f"there is a class {shown(name)} already; give another name, or merge them")
        return name
