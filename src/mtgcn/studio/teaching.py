"""Teaching in the background: a process of its own fits the model, so that the page stays responsive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from mtgcn.studio.project import Project

TeachingState = Literal["idle", "running", "done", "cancelled", "failed"]
Curve = Sequence[tuple[int, float]]  # epoch, value


@dataclass(frozen=True)
class Moved:
    """Nodes that are predicted otherwise than before."""

    before: str
    after: str
    nodes: int


@dataclass(frozen=True)
class Taught:
    """What came of a teaching."""

    labels: Mapping[str, int]  # learned from, by class
    seconds: float
    refitted: bool  # whether what is learned without labels was kept from the model before
    mean_confidence: float
    expected_accuracy: Mapping[str, Any] | None  # accuracy, ci95, labels, folds
    why_no_expected_accuracy: str | None
    warnings: Sequence[str]
    # Against the model before; None where there was none to compare with.
    changed: int | None = None  # nodes predicted otherwise
    compared: int | None = None  # nodes that had no label then
    moved: Sequence[Moved] = ()  # from which class to which, the most nodes first
    mean_confidence_before: float | None = None
    expected_accuracy_before: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Progress:
    """How far a teaching has got."""

    state: TeachingState = "idle"
    stage: str = ""  # what is done just now, in words
    epochs: int = 0
    total: int = 0  # 0 where nobody counts
    seconds: float = 0.0
    curves: Mapping[str, Curve] = field(default_factory=dict)  # by name, while it runs and afterwards
    error: str | None = None  # one line, where it failed
    result: Taught | None = None  # once it is done


class Teaching:
    """One background teacher of a project; one teaching at a time.

    The model goes to `project.model_folder` once it is whole; a teaching that is cancelled, or killed, leaves the model
    before.
    """

    def __init__(
        self,
        project: Project,
        *,
        method: str | None = None,
        settings: Sequence[str] = (),
        seed: int = 0,
        device: str = "auto",
        folds: int = 5,
    ) -> None:
        self.project = project
        self.method, self.settings, self.seed, self.device, self.folds = method, tuple(settings), seed, device, folds
        self._progress = Progress()

    @property
    def progress(self) -> Progress:
        """How far it is now; cheap to ask as often as one likes."""
        return self._progress

    def start(self) -> None:
        """Begin to learn from the labels of now; an InputError says why there is nothing to learn. One that runs is
        cancelled first."""

    def cancel(self) -> None:
        """Stop at once; nothing of it stays."""

    def wait(self, seconds: float | None = None) -> Progress:
        """Until it is done, but no longer than so many seconds."""
        return self._progress

    def close(self) -> None:
        """End the process; to be called when the page is closed."""
