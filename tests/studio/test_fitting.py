import io
import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from mtgcn.cli.app import main
from mtgcn.errors import InputError
from mtgcn.estimator.persistence import load_model, read_card
from mtgcn.io.options import TableOptions
from mtgcn.storage.files import current_path
from mtgcn.studio import fitting
from mtgcn.studio.fitting import FitOptions, FitWorker, Progress, fit_project, fitted_model, map_points

pytestmark = pytest.mark.filterwarnings("ignore::mtgcn.uncertainty.warnings.FitWarning")
ENDLESS = FitOptions("gcn", ["epochs=1000000"], folds=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "arguments"),
    [("quick", ["--method", "gcn", "--set", "epochs=20"]), ("quick_plus", ["--set", "infomax_epochs=3"])],
)
def test_fit_and_refit_equal_mtgcn_fit(labelled, tmp_path, request, options, arguments):
    options = request.getfixturevalue(options)
    fit_project(labelled, options)
    for node, name in (("n3", "cat"), ("n5", "eel")):
        labelled.label(node, name)
    assert fit_project(labelled, options)  # a refit
    copies = labelled.folder / "files" / "1"
    files = ["--edges", copies / "edges.csv", "--nodes", copies / "nodes.csv", "--labels", labelled.labels_path]
    assert main(["fit", *map(str, files), "--out", str(tmp_path / "model"), "--folds", "0", *arguments]) == 0
    ours, theirs = fitted_model(labelled), load_model(tmp_path / "model")
    assert ours.graph_.class_names == theirs.graph_.class_names
    assert np.array_equal(ours.transduction_, theirs.transduction_)
    assert np.array_equal(ours.label_distributions_, theirs.label_distributions_)
    cards = [read_card(folder)["estimator"] for folder in (labelled.model_folder, tmp_path / "model")]
    assert cards[0] == cards[1]


def test_fitted_model_knows_the_present_names(labelled, quick):
    fit_project(labelled, quick)
    labelled.rename_class("cat", "lion")
    assert fit_project(labelled, quick)
    assert "lion" in fitted_model(labelled).transduction_
    assert labelled.state.renamed == ()


def test_other_settings_or_graph_need_a_full_fit(labelled, files, quick):
    fit_project(labelled, quick)
    assert not fit_project(labelled, FitOptions("gcn", ["epochs=21"], folds=0))
    labelled.load_files(TableOptions(nodes=files.nodes, knn=3))
    assert fitted_model(labelled) is None
    labelled.undo()
    assert fitted_model(labelled) is not None


def test_model_of_another_version_is_fitted_again(labelled, quick):
    fit_project(labelled, quick)
    path = current_path(labelled.model_folder, "card.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 1}))
    assert fitted_model(labelled) is None
    assert not fit_project(labelled, quick)
    assert fitted_model(labelled) is not None


def test_accuracy_is_cross_validated(labelled, truth):
    for node in range(27):
        labelled.label(f"n{node}", truth(f"n{node}"))
    fit_project(labelled, FitOptions("gcn", ["epochs=20"]))
    assert fitted_model(labelled).training_["expected_accuracy"]["labels"] == 27


def test_map_is_cached(labelled, monkeypatch, quick):
    fit_project(labelled, quick)
    points = map_points(labelled, fitted_model(labelled))
    assert points.nodes.tolist() == list(range(36))
    monkeypatch.delattr(fitting, "layout_2d")
    assert np.array_equal(map_points(labelled, fitted_model(labelled)).places, points.places)


# The worker in the server


def finished(worker):
    """The progress once the fit has ended."""
    while worker.progress.state == "running":
        time.sleep(0.01)
    return worker.progress


def test_fits_that_cannot_start(project, quick):
    worker = FitWorker(project, quick)
    with pytest.raises(InputError, match="no node is labelled"):
        worker.start()
    project.label("n0", "cat")
    with pytest.raises(InputError, match="all labels are of one class, 'cat'"):
        worker.start()
    project.label("n1", "dog")
    for method, settings, complaint in (("gnc", [], "unknown method 'gnc'"), ("gcn", ["epohcs=3"], "epochs")):
        with pytest.raises(InputError, match=complaint):
            FitWorker(project, FitOptions(method, settings)).start()
    project.labels_path.write_text("id,label\n" + "".join(f"n{node},{node % 2}\n" for node in range(36)))
    with pytest.raises(InputError, match="all 36 nodes are labelled"):
        worker.start()
    assert worker.progress == Progress()


@pytest.mark.parametrize(
    ("lines", "progress"),
    [
        (
            [
                '{"stage": "embeddings", "unit": "step", "done": 0, "total": 0}',
                '{"done": 10, "total": 20}',
                '{"state": "failed", "error": "out of memory"}',
            ],
            Progress("failed", "embeddings", 10, 20, "step", "out of memory"),
        ),
        ([], Progress("failed", "starting", error="the worker process ended (signal 9, probably out of memory)")),
    ],
)
def test_messages_of_the_process_become_progress(labelled, monkeypatch, quick, lines, progress):
    output = io.StringIO("".join(f"{line}\n" for line in lines))
    process = SimpleNamespace(stdin=io.StringIO(), stdout=output, wait=lambda: -9)
    monkeypatch.setattr(fitting.subprocess, "Popen", lambda *arguments, **options: process)
    worker = FitWorker(labelled, quick)
    with worker._lock:  # nothing is received before the request is sent
        worker.start()
    assert finished(worker) == progress


# The worker process


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.long
def test_fit_in_the_background_and_cancel(labelled, tmp_path, monkeypatch):
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path / "users-cache"))
    worker = FitWorker(labelled, FitOptions("gcn", ["epochs=30"], folds=0))
    worker.prepare()
    first_process = worker._process.pid
    worker.start()
    assert worker.progress.state == "running"
    progress = finished(worker)
    assert (progress.state, progress.error) == ("done", None)
    assert fitted_model(labelled).n_iter_ == 30
    assert sorted(os.listdir(tmp_path)) == ["given", "project"]
    assert list((labelled.folder / "cache").rglob("*.npz"))
    labelled.label("n3", "cat")
    endless = FitWorker(labelled, ENDLESS)
    endless.start()
    while not endless.progress.done:
        time.sleep(0.01)
    pid = endless._process.pid
    endless.cancel()
    assert not alive(pid)
    assert endless.progress.state == "cancelled"
    assert fitted_model(labelled).n_iter_ == 30
    worker.start()
    assert worker._process.pid == first_process
    assert finished(worker).state == "done"
    worker.close()
    assert not alive(first_process)


@pytest.mark.slow
def test_error_in_the_process_is_one_line(labelled):
    command = [sys.executable, "-P", "-c", fitting.START, "src", labelled.folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        print(json.dumps({"method": "gnc"}), file=process.stdin, flush=True)
        last = next(message for message in map(json.loads, process.stdout) if "state" in message)
    assert last["state"] == "failed"
    assert last["error"].startswith("unknown method 'gnc'")


SERVER = """
import sys, time
from mtgcn.studio.fitting import FitOptions, FitWorker
from mtgcn.studio.project import Project
worker = FitWorker(Project(sys.argv[1]), FitOptions("gcn", ["epochs=1000000"], folds=0))
worker.start()
while not worker.progress.done:
    time.sleep(0.01)
print(worker._process.pid, flush=True)
time.sleep(1000)
"""


@pytest.mark.long
def test_process_ends_with_the_server(labelled):
    before = labelled.labels()
    command = [sys.executable, "-c", SERVER, str(labelled.folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        worker = int(server.stdout.readline())
        assert alive(worker)
        server.send_signal(signal.SIGKILL)
        server.wait()
    end = time.monotonic() + 10
    while alive(worker):
        assert time.monotonic() < end
        time.sleep(0.02)
    assert labelled.labels() == before
    assert fitted_model(labelled) is None
    labelled.label("n4", "dog")
