"""Fits the model of a project in a background process, as `mtgcn fit` and `mtgcn label` do, and lays out the map.

`FitWorker` runs in the server and `main` in the worker process. They exchange JSON lines: a fit request on standard
input; changes of progress on standard output. The worker process exits as soon as its input ends, so that it never
outlives the server. Whatever it prints goes to standard error. The result of a fit is the model in the project.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np

import mtgcn
from mtgcn.environment import chosen_device
from mtgcn.errors import InputError
from mtgcn.estimator.graph_model import DEFAULT_METHOD, MEASURING, GraphModel, chosen_method, measured_accuracy
from mtgcn.estimator.inputs import check_learnable
from mtgcn.estimator.persistence import is_model, load_model, save_model
from mtgcn.linalg.layout_2d import layout_2d
from mtgcn.memory import keep_freed_blocks
from mtgcn.methods import method_from_text
from mtgcn.report.fit_page import map_rows, shown_nodes
from mtgcn.shapes import Float, Int
from mtgcn.storage.cache import cached_arrays, fingerprint
from mtgcn.studio.project import Project
from mtgcn.training.progress import current_unit, progress_callbacks, report_progress, stage
from mtgcn.uncertainty.suggestions import smoothed_features
from mtgcn.workflows.fit import for_the_card, summary_of, within_memory
from mtgcn.workflows.output import collected_notes

CACHE = "cache"  # folder in the project; nothing is written outside of it
# `python -m` would import modules from the working directory.
START = "import sys; sys.path.append(sys.argv[1]); from mtgcn.studio.fitting import main; main(sys.argv[2])"
GRAPH = "studio"  # key of the graph's fingerprint in the card of a model
LAYOUT_SEED = 0
MAX_ON_MAP = 1_000_000  # number of nodes on the map


@dataclass(frozen=True)
class FitOptions:
    """Options of a fit."""

    method: str | None = None
    settings: Sequence[str] = ()  # key=value
    device: str = "auto"
    folds: int | None = None  # folds to measure accuracy; None: see `measured_accuracy`; 0: not measured

    def new_model(self, project: Project) -> GraphModel:
        """An unfitted model, configured as by `mtgcn fit` for the same files."""
        options = project.source.options
        return GraphModel(
            method_from_text(self.method or DEFAULT_METHOD, self.settings),
            neighbors=options.get("knn") or 10,
            metric=options.get("metric") or "euclidean",
            device=self.device,
            random_state=0,
        )


@dataclass(frozen=True)
class Progress:
    """Progress of a fit."""

    state: Literal["idle", "running", "done", "cancelled", "failed"] = "idle"
    stage: str = ""
    done: int = 0
    total: int = 0  # 0 if unknown
    unit: str = "epoch"  # unit of done and total: epoch, round or step
    error: str | None = None  # message of one line


class FitWorker:
    """The background process of a project; one fit at a time.

    The model is saved to `project.model_folder` once it is complete. A cancelled or killed fit leaves the previous
    model.
    """

    def __init__(self, project: Project, options: FitOptions) -> None:
        self.project, self.options = project, options
        self.progress = Progress()  # current progress; cheap to poll
        self._lock = threading.RLock()
        self._process: subprocess.Popen[str] | None = None

    def prepare(self) -> None:
        """Start the process before it is needed, since that takes seconds."""
        with self._lock:
            self._running_process()

    def start(self) -> None:
        """Start a fit to the current labels. A running fit is cancelled first."""
        check_labels(self.project)
        self.options.new_model(self.project)  # raises for an unknown method or setting
        self.cancel()
        with self._lock:
            process = self._running_process()
            self.progress = Progress("running", stage="starting")
            assert process.stdin is not None
            with suppress(BrokenPipeError):  # the process has just died, which `_listen` reports
                print(json.dumps(asdict(self.options)), file=process.stdin, flush=True)

    def cancel(self) -> None:
        """Stop a running fit at once."""
        with self._lock:
            if self.progress.state == "running":
                self.close()

    def close(self) -> None:
        """End the process, and with it a running fit."""
        with self._lock:
            process, self._process = self._process, None
            if process is not None:
                process.kill()
                process.wait()
            self._receive({"state": "cancelled"})

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

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        assert process.stdin is not None
        with process.stdout:
            for line in process.stdout:
                self._receive(json.loads(line), process)
        status = process.wait()
        cause = f"signal {-status}, probably out of memory" if status < 0 else f"exit status {status}"
        with self._lock:
            with suppress(OSError):
                process.stdin.close()
            self._receive({"state": "failed", "error": f"the worker process ended ({cause})"}, process)

    def _receive(self, message: dict[str, Any], sender: subprocess.Popen[str] | None = None) -> None:
        """Update the progress of a running fit; messages from a replaced process are ignored."""
        with self._lock:
            if sender is self._process and self.progress.state == "running":
                self.progress = replace(self.progress, **message)


def main(folder: str) -> None:
    """The worker process: fit the project in a folder on request until the input ends."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    requests: queue.Queue[FitOptions] = queue.Queue()
    project = None  # kept with its graph and the graph's cache

    def read_requests() -> None:
        for line in sys.stdin:
            requests.put(FitOptions(**json.loads(line)))
        os._exit(0)

    def send(**message: Any) -> None:
        print(json.dumps(message), file=output, flush=True)

    # Fits run in the main thread, where the C library keeps freed blocks.
    threading.Thread(target=read_requests, daemon=True).start()
    keep_freed_blocks()
    while True:
        options = requests.get()
        try:
            with progress_callbacks(
                lambda done, total: send(done=done, total=total),
                lambda title: send(stage=title, unit=current_unit(), done=0, total=0),
            ):
                project = project or Project(folder)
                fit_project(project, options)
            send(state="done")
        except Exception as error:
            kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
            if kind:
                traceback.print_exc()
            send(state="failed", error=" ".join(f"{kind}{error}".split()))


# Fit


def check_labels(project: Project) -> None:
    """Check that there is something to learn and something to predict."""
    counts = Counter(project.labels().values())
    check_learnable(list(counts), list(counts.values()), project.loaded.graph.num_nodes)


def fitted_model(project: Project) -> GraphModel | None:
    """The model of the project; None without one, or if it belongs to another graph or version."""
    if project.state.source is None or not is_model(project.model_folder):
        return None
    try:
        model = load_model(project.model_folder)
    except InputError:  # another model can be fitted to the labels
        return None
    return model if model.training_.get(GRAPH) == project.loaded.fingerprint else None


def first_answer(project: Project) -> GraphModel:
    """A quick first model: label propagation or, without edges, a model of the features alone."""
    check_labels(project)
    graph = project.loaded.labelled(project.labels())
    with collected_notes():
        method = method_from_text("lp" if graph.num_edges else "logistic", [])
        return GraphModel(method, device="cpu", random_state=0).fit_graph(graph)


def fit_project(project: Project, options: FitOptions) -> bool:
    """Fit a model to the current labels and save it in the project once it is complete. Returns whether label-free
    computations of the previous model were reused."""
    check_labels(project)
    with stage("reading"):
        state, graph = project.state, project.loaded.labelled(project.labels())
        previous, model = fitted_model(project), options.new_model(project)
        device, method = chosen_device(options.device), chosen_method(model)
    refitted = previous is not None and previous.method_ == method
    with collected_notes() as notes, within_memory(graph, method, device):
        started = perf_counter()
        if previous is not None and refitted:
            model = previous
            model.device = options.device
            model.fit_again(graph, np.array(graph.class_names))
        else:
            model.fit_graph(graph)
        seconds = perf_counter() - started
        with stage(MEASURING):
            asked = options.folds != 0
            expected = measured_accuracy(model, options.folds) if asked else (None, "not measured, as asked")
    with stage("writing the model"):
        summary = summary_of(model, expected, [*project.loaded.notes, *notes], seconds=seconds)
        save_model(model, project.model_folder, training=for_the_card(summary) | {GRAPH: project.loaded.fingerprint})
        project.forget_renames(state.renamed)
    map_points(project, model)
    return refitted


# Map


@dataclass(frozen=True, eq=False)
class MapPoints:
    """Nodes in the plane; a sample of a very large graph."""

    nodes: Int[np.ndarray, "shown"]  # in ascending order
    places: Float[np.ndarray, "shown 2"]  # coordinates from 0 to 1

    def numbers(self, nodes: Int[np.ndarray, "some"]) -> list[int]:
        """The numbers of nodes on the map; -1 for nodes that are not on it."""
        found = np.minimum(np.searchsorted(self.nodes, nodes), len(self.nodes) - 1)
        return np.where(self.nodes[found] == nodes, found, -1).tolist()


def map_points(project: Project, model: GraphModel | None) -> MapPoints:
    """The map, based on the predictions of a model if there is one. Takes seconds if it is not cached."""
    loaded = project.loaded
    labelled = [] if model is None else model.graph_.known.tolist()
    nodes = shown_nodes(loaded.graph.num_nodes, labelled, LAYOUT_SEED, MAX_ON_MAP)
    rows = smoothed_features(loaded.graph)[nodes] if model is None else map_rows(model, nodes)

    def layout() -> dict[str, np.ndarray]:
        return {"places": layout_2d(rows, seed=LAYOUT_SEED, progress=report_progress)}

    with stage("placing nodes on the map", unit="step"):
        arrays = cached_arrays("map", fingerprint(LAYOUT_SEED, rows), {"places": (len(nodes), 2)}, layout)
    return MapPoints(nodes, arrays["places"])
