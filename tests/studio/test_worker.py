import io
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from mtgcn.errors import InputError
from mtgcn.studio import worker as workers
from mtgcn.studio.fitting import FitOptions, fitted_model
from mtgcn.studio.worker import START, FitWorker, Progress

ENDLESS = FitOptions("gcn", ["epochs=1000000"], folds=0)


class ScriptedProcess:
    """A worker process that sends given lines."""

    def __init__(self, lines, status=0):
        self.stdin, self.stdout = io.StringIO(), io.StringIO("".join(f"{line}\n" for line in lines))
        self.status = status

    def poll(self):
        return None

    def wait(self):
        return self.status


def progress_after(project, monkeypatch, options, lines, status=0):
    """The progress after a process has sent these lines and ended."""
    monkeypatch.setattr(workers.subprocess, "Popen", lambda *args, **settings: ScriptedProcess(lines, status))
    worker = FitWorker(project, options)
    with worker._changed:  # nothing is received before the request is sent
        worker.start()
    return worker.wait(10)


def test_start_without_labels_is_refused(project, quick):
    worker = FitWorker(project, quick)
    with pytest.raises(InputError, match="no node is labelled"):
        worker.start()
    assert worker.progress == Progress()


def test_unknown_method_or_setting_is_refused_at_once(labelled):
    with pytest.raises(InputError, match="unknown method 'gnc'"):
        FitWorker(labelled, FitOptions("gnc")).start()
    with pytest.raises(InputError, match="epochs"):
        FitWorker(labelled, FitOptions("gcn", ["epohcs=3"])).start()


def test_messages_become_progress(labelled, monkeypatch, quick):
    lines = [
        '{"stage": "embeddings", "unit": "step", "done": 0, "total": 0}',
        '{"done": 10, "total": 20}',
        '{"curve": "embeddings", "epoch": 10, "values": {"loss": 2.0}}',
        '{"curve": "embeddings", "epoch": 20, "values": {"loss": 1.0}}',
        '{"curve": "", "epoch": 1, "values": {"loss": 3.0}}',
        '{"curve": "", "epoch": 1, "values": {"loss": 4.0}}',
        '{"failed": "out of memory"}',
    ]
    progress = progress_after(labelled, monkeypatch, quick, lines)
    assert (progress.state, progress.error, progress.done, progress.total, progress.unit) == (
        "failed",
        "out of memory",
        10,
        20,
        "step",
    )
    # A curve that restarts replaces the old one.
    assert progress.curves == {"embeddings: loss": ((10, 2.0), (20, 1.0)), "loss": ((1, 4.0),)}


def test_killed_process_is_reported(labelled, monkeypatch, quick):
    progress = progress_after(labelled, monkeypatch, quick, [], status=-9)
    assert progress.state == "failed"
    assert progress.error == "the worker process ended (signal 9, probably out of memory)"


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_caches_stay_in_the_project(labelled, tmp_path, monkeypatch, quick_plus):
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path / "users-cache"))
    worker = FitWorker(labelled, quick_plus)
    worker.start()
    assert worker.wait().state == "done"
    worker.close()
    assert sorted(os.listdir(tmp_path)) == ["given", "project"]
    assert list((labelled.folder / "cache").rglob("*.npz"))


@pytest.mark.slow
def test_fit_in_the_background_and_cancel(labelled):
    worker = FitWorker(labelled, FitOptions("gcn", ["epochs=30"], folds=0))
    worker.prepare()
    first_process = worker._process.pid
    worker.start()
    assert worker.progress.state == "running"
    progress = worker.wait()
    assert (progress.state, progress.error) == ("done", None)
    assert progress.curves["supervised"][-1][0] == 30
    assert progress.result.labels == {"cat": 2, "dog": 2, "eel": 2}
    assert fitted_model(labelled).n_iter_ == 30
    labelled.label("n3", "cat")
    endless = FitWorker(labelled, ENDLESS)
    endless.start()
    while not endless.progress.curves:
        time.sleep(0.01)
    pid = endless._process.pid
    endless.cancel()
    assert not alive(pid)
    assert endless.progress.state == "cancelled"
    assert fitted_model(labelled).n_iter_ == 30
    worker.start()
    assert worker._process.pid == first_process
    again = worker.wait()
    assert again.result.refitted
    assert again.result.compared == 30
    worker.close()
    assert not alive(first_process)


@pytest.mark.slow
def test_protocol_of_the_process(labelled):
    command = [sys.executable, "-P", "-c", START, "src", labelled.folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for request in ({"method": "gcn", "settings": ["epochs=20"], "folds": 0}, {"method": "gnc"}):
            process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        messages = []
        while sum("result" in one or "failed" in one for one in messages) < 2:
            messages.append(json.loads(process.stdout.readline()))
        ends = [one for one in messages if "result" in one or "failed" in one]
        assert ends[0]["result"]["labels"] == {"cat": 2, "dog": 2, "eel": 2}
        assert "unknown method 'gnc'" in ends[1]["failed"]
        assert {"done": 20, "total": 20} in messages
        [curve] = [one for one in messages if "curve" in one and one["epoch"] == 20]
        assert curve["values"].keys() == {"supervised"}
        assert {"stage": "writing the model", "unit": "epoch", "done": 0, "total": 0} in messages
        process.stdin.close()
        assert process.wait() == 0


SERVER = """
import sys, time
from mtgcn.studio.fitting import FitOptions
from mtgcn.studio.project import Project
from mtgcn.studio.worker import FitWorker
worker = FitWorker(Project.open(sys.argv[1]), FitOptions("gcn", ["epochs=1000000"], folds=0))
worker.start()
while not worker.progress.curves:
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
    for _ in range(500):
        if not alive(worker):
            break
        time.sleep(0.02)
    assert not alive(worker)
    assert labelled.labels() == before
    assert fitted_model(labelled) is None
    labelled.label("n4", "dog")
