import io
import os
import signal
import subprocess
import sys
import time

import pytest

from mtgcn.errors import InputError
from mtgcn.studio import teaching as teachings
from mtgcn.studio.lesson import model_of
from mtgcn.studio.teaching import Progress, Teaching

GCN = {"method": "gcn", "folds": 0}


class Scripted:
    """A teaching process that says what a test tells it to."""

    def __init__(self, lines, status=0):
        self.stdin, self.stdout = io.StringIO(), io.StringIO("".join(f"{line}\n" for line in lines))
        self.pid, self.status = -1, status

    def poll(self):
        return None

    def wait(self):
        return self.status


def heard(project, monkeypatch, lines, status=0):
    """What a teaching says once its process has said these lines, and ended."""
    monkeypatch.setattr(teachings.subprocess, "Popen", lambda *args, **settings: Scripted(lines, status))
    teaching = Teaching(project, **GCN)
    with teaching._changed:  # nothing is heard before the order is given
        teaching.start()
    return teaching.wait(10)


def test_there_must_be_something_to_learn(project):
    teaching = Teaching(project, **GCN)
    with pytest.raises(InputError, match="no node is labelled yet"):
        teaching.start()
    assert teaching.progress == Progress()


def test_a_method_that_there_is_not_is_told_at_once(labelled):
    with pytest.raises(InputError, match="unknown method 'gnc'"):
        Teaching(labelled, method="gnc").start()
    with pytest.raises(InputError, match="epochs"):
        Teaching(labelled, method="gcn", settings=["epohcs=3"]).start()


def test_what_the_process_says_is_progress(labelled, monkeypatch):
    lines = [
        '{"stage": "embeddings", "epochs": 0, "total": 0}',
        '{"epochs": 10, "total": 20}',
        '{"curve": "embeddings", "epoch": 10, "values": {"loss": 2.0}}',
        '{"curve": "embeddings", "epoch": 20, "values": {"loss": 1.0}}',
        '{"curve": "", "epoch": 1, "values": {"loss": 3.0}}',
        '{"curve": "", "epoch": 1, "values": {"loss": 4.0}}',
        '{"failed": "out of memory"}',
    ]
    told = heard(labelled, monkeypatch, lines)
    assert (told.state, told.error, told.epochs, told.total) == ("failed", "out of memory", 10, 20)
    # A curve that begins again is drawn anew.
    assert told.curves == {"embeddings: loss": ((10, 2.0), (20, 1.0)), "loss": ((1, 4.0),)}


def test_a_process_that_is_killed_is_told(labelled, monkeypatch):
    told = heard(labelled, monkeypatch, [], status=-9)
    assert told.state == "failed"
    assert told.error == "the teaching process ended (signal 9, most likely for want of memory)"


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_it_teaches_in_the_background_and_is_cancelled_at_once(labelled):
    teaching = Teaching(labelled, settings=["epochs=30"], **GCN)
    teaching.prepare()
    first_worker = teaching._worker.pid
    teaching.start()
    assert teaching.progress.state == "running"
    told = teaching.wait()
    assert (told.state, told.error) == ("done", None)
    assert told.curves["supervised"][-1][0] == 30
    assert told.result.labels == {"cat": 2, "dog": 2, "eel": 2}
    model = model_of(labelled)
    assert model.n_iter_ == 30
    labelled.label("n3", "cat")
    endless = Teaching(labelled, settings=["epochs=1000000"], **GCN)
    endless.start()
    while not endless.progress.curves:
        time.sleep(0.01)
    pid = endless._worker.pid
    endless.cancel()
    assert not alive(pid)
    assert endless.progress.state == "cancelled"
    assert model_of(labelled).n_iter_ == 30
    teaching.start()  # in the process that was there
    assert teaching._worker.pid == first_worker
    again = teaching.wait()
    assert again.result.refitted
    assert again.result.compared == 30
    teaching.close()
    assert not alive(first_worker)


PAGE = """
import sys, time
from mtgcn.studio.project import Project
from mtgcn.studio.teaching import Teaching
teaching = Teaching(Project.open(sys.argv[1]), method="gcn", settings=["epochs=1000000"], folds=0)
teaching.start()
while not teaching.progress.curves:
    time.sleep(0.01)
print(teaching._worker.pid, flush=True)
time.sleep(1000)
"""


@pytest.mark.long
def test_the_process_ends_with_the_page_and_leaves_every_label(labelled):
    before = labelled.labels()
    with subprocess.Popen(
        [sys.executable, "-c", PAGE, str(labelled.folder)], stdout=subprocess.PIPE, text=True
    ) as page:
        teacher = int(page.stdout.readline())
        assert alive(teacher)
        page.send_signal(signal.SIGKILL)
        page.wait()
    for _ in range(500):
        if not alive(teacher):
            break
        time.sleep(0.02)
    assert not alive(teacher)
    assert labelled.labels() == before
    assert model_of(labelled) is None
    labelled.label("n4", "dog")
