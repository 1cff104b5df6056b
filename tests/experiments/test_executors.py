"""Workers end with whoever started them."""

import threading
from multiprocessing import Pipe
from types import SimpleNamespace

from mtgcn.experiments import executors


def test_a_worker_ends_once_nobody_holds_the_other_end_of_its_pipe(monkeypatch):
    ended = threading.Event()
    monkeypatch.setattr(executors, "keep_freed_blocks", lambda: None)
    monkeypatch.setattr(executors, "os", SimpleNamespace(_exit=lambda code: ended.set()))
    watched, held = Pipe(duplex=False)
    executors._start_worker(watched)
    assert not ended.is_set()
    held.close()
    assert ended.wait(timeout=30)
