"""Fitting in a background process, so that the page stays responsive.

`FitWorker` runs in the server and `main` in the worker process. They exchange JSON lines: a fit request on standard
input; progress, curves and the result on standard output. The worker process exits as soon as its input ends, so that
it never outlives the server. Anything it prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import mtgcn
from mtgcn.errors import InputError
from mtgcn.memory import keep_freed_blocks
from mtgcn.studio.fitting import FitOptions, FitResult, check_labels, fit_project
from mtgcn.studio.project import Project
from mtgcn.training.progress import current_stage, current_unit, progress_callbacks

FitState = Literal["idle", "running", "done", "cancelled", "failed"]
Curve = Sequence[tuple[int, float]]  # epoch, value
CACHE = "cache"  # folder in the project; nothing is written outside of it
# Not `python -m`, which would import modules from the working directory.
START = "import sys; sys.path.append(sys.argv[1]); from mtgcn.studio.worker import main; main(sys.argv[2])"


@dataclass(frozen=True)
class Progress:
    """Progress of a fit."""

    state: FitState = "idle"
    stage: str = ""
    done: int = 0
    total: int = 0  # 0: unknown
    unit: str = "epoch"  # of done and total: epoch, round or step
    curves: Mapping[str, Curve] = field(default_factory=dict)  # by name
    error: str | None = None  # one line
    result: FitResult | None = None


class FitWorker:
    """The background process of a project; one fit at a time.

    The model is saved to `project.model_folder` once it is complete. A cancelled or killed fit leaves the previous
    model.
    """

    def __init__(self, project: Project, options: FitOptions | None = None) -> None:
        self.project = project
        self.options = options or FitOptions()
        self._changed = threading.Condition()
        self.progress = Progress()  # at present; cheap to poll
        self._process: subprocess.Popen[str] | None = None

    def prepare(self) -> None:
        """Start the process, which takes seconds, before it is needed."""
        with self._changed:
            self._running_process()

    def start(self) -> None:
        """Start a fit on the present labels. A running fit is cancelled first."""
        check_labels(self.project)
        self.options.new_model(self.project)  # raises for an unknown method or setting
        self.cancel()
        with self._changed:
            process = self._running_process()
            self.progress = Progress("running", stage="starting")
            assert process.stdin is not None
            with suppress(BrokenPipeError):  # it has just died, which `_listen` reports
                print(json.dumps(asdict(self.options)), file=process.stdin, flush=True)

    def cancel(self) -> None:
        """Stop a running fit at once."""
        with self._changed:
            if self.progress.state == "running":
                self._finish(Progress("cancelled", curves=self.progress.curves))
                self._kill()

    def wait(self, seconds: float | None = None) -> Progress:
        """Wait until the fit ends, at most for some seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self.progress.state != "running", seconds)
        return self.progress

    def close(self) -> None:
        """End the process."""
        self.cancel()
        with self._changed:
            self._kill()

    def _running_process(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            package = str(Path(mtgcn.__file__).parent.parent)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", START, package, self.project.folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                start_new_session=True,  # Ctrl-C is for the server; this process ends with its input
                env=os.environ | {"MTGCN_CACHE": str(self.project.folder / CACHE)},
            )
            threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()
        return self._process

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                with self._changed:
                    if process is self._process and self.progress.state == "running":
                        self._receive(json.loads(line))
        status = process.wait()
        with self._changed:
            assert process.stdin is not None
            with suppress(OSError):
                process.stdin.close()
            if process is self._process and self.progress.state == "running":
                self._process = None
                cause = f"signal {-status}, probably out of memory" if status < 0 else f"exit status {status}"
                self._finish(replace(self.progress, state="failed", error=f"the worker process ended ({cause})"))

    def _receive(self, message: Mapping[str, Any]) -> None:
        now = self.progress
        if "result" in message:
            self._finish(replace(now, state="done", stage="", result=FitResult.model_validate(message["result"])))
        elif "failed" in message:
            self._finish(replace(now, state="failed", stage="", error=message["failed"]))
        elif "curve" in message:
            curves, epoch = dict(now.curves), message["epoch"]
            for name, value in message["values"].items():
                title = f"{message['curve']}: {name}" if message["curve"] else name
                points = curves.get(title, ())
                kept = points if points and points[-1][0] < epoch else ()  # a curve that restarts replaces the old one
                curves[title] = (*kept, (epoch, value))
            self.progress = replace(now, curves=curves)
        else:
            self.progress = replace(now, **message)

    def _finish(self, progress: Progress) -> None:
        self.progress = progress
        self._changed.notify_all()


# The worker process


def main(folder: str) -> None:
    """Fit the project in a folder on request until the input ends."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    requests: queue.Queue[dict[str, Any]] = queue.Queue()

    def read_requests() -> None:
        for line in sys.stdin:
            requests.put(json.loads(line))
        os._exit(0)

    def send(**message: Any) -> None:
        print(json.dumps(message), file=output, flush=True)

    threading.Thread(target=read_requests, daemon=True).start()
    keep_freed_blocks()
    project = None  # kept, with its graph and what is cached per graph
    while True:
        options = FitOptions(**requests.get())
        try:
            with progress_callbacks(
                lambda done, total: send(done=done, total=total),
                lambda title: send(stage=title, unit=current_unit(), done=0, total=0),
                lambda epoch, values: send(curve=current_stage(), epoch=epoch, values=dict(values)),
            ):
                project = project or Project.open(folder)
                result = fit_project(project, options)
            send(result=result.model_dump())
        except InputError as error:
            send(failed=" ".join(str(error).split()))
        except Exception as error:
            traceback.print_exc()
            send(failed=f"{type(error).__name__}: {' '.join(str(error).split())}")
