"""The process of a command: garbage collection, and standard streams that are full or limited to ASCII."""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys

GC_THRESHOLD = 100_000  # objects between two collections; Python's default causes a thousand while torch loads


def collect_rarely() -> None:
    """Collect garbage rarely, and not at exit: saves half a second of a command that imports torch. Only for a process
    that runs one command; `import mtgcn` leaves the collector alone."""
    _, *older = gc.get_threshold()
    gc.set_threshold(GC_THRESHOLD, *older)
    atexit.register(gc.freeze)  # frozen objects are not searched


def prepare_streams() -> None:
    """Escape letters that standard output and error cannot encode."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def flush_output() -> None:
    """Flush standard output. A closed pipe, as in `… | head`, is not an error."""
    try:
        if sys.stdout is not None:  # closed before the process started
            sys.stdout.flush()
    except BrokenPipeError:
        discard_output()


def unwritable_output(error: OSError) -> str:
    """The message about standard output that cannot be written, which is then discarded."""
    discard_output()
    return f"cannot write to standard output: {error.strerror}; free some space, or redirect it"


def discard_output() -> None:
    """Redirect standard output to the null device, so that Python does not fail to flush it again at exit."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, AttributeError):  # a replacement, such as pytest's, or closed
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)
