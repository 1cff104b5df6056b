"""Teaching in the background: a process of its own fits the model, so that the page stays responsive."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any, Literal

import mtgcn
from mtgcn.studio.lesson import Moved, Recipe, Taught, check_teachable
from mtgcn.studio.project import Project

TeachingState = Literal["idle", "running", "done", "cancelled", "failed"]
Curve = Sequence[tuple[int, float]]  # epoch, value
# Not by -m, which would let files of the folder one happens to be in take the place of modules.
START = "import sys; sys.path.append(sys.argv[1]); from mtgcn.studio.worker import main; main()"


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
        self.recipe = Recipe(method, tuple(settings), seed, device, folds)
        self._changed = threading.Condition()
        self._progress = Progress()
        self._started = 0.0
        self._worker: subprocess.Popen[str] | None = None

    @property
    def progress(self) -> Progress:
        """How far it is now; cheap to ask as often as one likes."""
        with self._changed:
            if self._progress.state == "running":
                return replace(self._progress, seconds=monotonic() - self._started)
            return self._progress

    def prepare(self) -> None:
        """Start the process, which takes seconds, before it is needed."""
        with self._changed:
            self._running_worker()

    def start(self) -> None:
        """Begin to learn from the labels of now; an InputError says why there is nothing to learn. A teaching that runs
        is cancelled first."""
        check_teachable(self.project)
        self.recipe.model(self.project)  # complains of a method or a setting that there is not
        self.cancel()
        order = {"folder": str(self.project.folder), "recipe": asdict(self.recipe)}
        with self._changed:
            worker = self._running_worker()
            self._started = monotonic()
            self._progress = Progress("running", stage="starting")
            assert worker.stdin is not None
            with suppress(BrokenPipeError):  # it has just died, and whoever listens to it will say so
                print(json.dumps(order), file=worker.stdin, flush=True)

    def cancel(self) -> None:
        """Stop at once; nothing of it stays. Where nothing runs, nothing happens."""
        with self._changed:
            if self._progress.state == "running":
                self._settle(Progress("cancelled", curves=self._progress.curves))
                self._end_worker()

    def wait(self, seconds: float | None = None) -> Progress:
        """Until it is done, but no longer than so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._progress.state != "running", seconds)
        return self.progress

    def close(self) -> None:
        """End the process; to be called when the page is closed."""
        self.cancel()
        with self._changed:
            self._end_worker()

    def _running_worker(self) -> subprocess.Popen[str]:
        if self._worker is None or self._worker.poll() is not None:
            package = str(Path(mtgcn.__file__).parent.parent)
            self._worker = subprocess.Popen(
                [sys.executable, "-P", "-c", START, package],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                start_new_session=True,  # Ctrl-C is for the page; this ends with its input
            )
            threading.Thread(target=self._listen, args=(self._worker,), daemon=True).start()
        return self._worker

    def _end_worker(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL) if worker.poll() is None else None
            worker.wait()

    def _listen(self, worker: subprocess.Popen[str]) -> None:
        assert worker.stdout is not None
        with worker.stdout:
            for line in worker.stdout:
                with self._changed:
                    if worker is self._worker and self._progress.state == "running":
                        self._heard(json.loads(line))
        status = worker.wait()
        with self._changed:
            assert worker.stdin is not None
            with suppress(OSError):
                worker.stdin.close()
            if worker is self._worker and self._progress.state == "running":
                self._worker = None
                why = f"signal {-status}, most likely for want of memory" if status < 0 else f"exit status {status}"
                self._settle(replace(self._progress, state="failed", error=f"the teaching process ended ({why})"))

    def _heard(self, told: Mapping[str, Any]) -> None:
        now = self._progress
        if "done" in told:
            result = dict(told["done"])
            result["moved"] = [Moved(**one) for one in result["moved"]]
            self._settle(replace(now, state="done", stage="", result=Taught(**result)))
        elif "failed" in told:
            self._settle(replace(now, state="failed", stage="", error=told["failed"]))
        elif "curve" in told:
            self._progress = replace(now, curves=_longer(now.curves, told))
        else:
            counts = {key: told[key] for key in ("stage", "epochs", "total") if key in told}
            self._progress = replace(now, **counts)

    def _settle(self, progress: Progress) -> None:
        self._progress = replace(progress, seconds=monotonic() - self._started)
        self._changed.notify_all()


def _longer(curves: Mapping[str, Curve], told: Mapping[str, Any]) -> dict[str, Curve]:
    """The curves with one point more each; one that starts again from its beginning is drawn anew."""
    longer = dict(curves)
    for name, value in told["values"].items():
        title = f"{told['curve']}: {name}" if told["curve"] else name
        points = longer.get(title, ())
        kept = points if points and points[-1][0] < told["epoch"] else ()
        longer[title] = (*kept, (told["epoch"], value))
    return longer
