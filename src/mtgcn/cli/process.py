"""The process of a command: garbage collection, and standard streams that are closed, full or limited to ASCII."""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
from typing import Any

GC_THRESHOLD = 100_000  # objects between two collections; Python's default causes a thousand while torch loads


def collect_rarely() -> None:
    """Collect garbage rarely, and not at exit: saves half a second of a command that imports torch. Only for a process
    that runs one command; `import mtgcn` leaves the collector alone."""
    _, *older = gc.get_threshold()
    gc.set_threshold(GC_THRESHOLD, *older)
    atexit.register(gc.freeze)  # frozen objects are not searched


def prepare_streams() -> None:
    """Make standard output and error safe to print to.

    Letters that a stream cannot encode are escaped. Errors while writing to standard error are ignored; the exit
    status still reports failures. Errors while writing to standard output are raised by `flush_output`.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:  # closed; the next opened file would get this descriptor
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:  # print(…, file=None) would write to standard output
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # open until the process ends
    if sys.stderr is sys.__stderr__ and sys.stderr is not None:  # not a replacement, such as pytest's
        channel = io.BufferedWriter(_IgnoringErrors(sys.stderr.fileno(), "wb", closefd=False))
        sys.stderr = io.TextIOWrapper(channel, sys.stderr.encoding, "backslashreplace", line_buffering=True)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class _IgnoringErrors(io.FileIO):
    """A file that drops what cannot be written."""

    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError:
            return len(content)


def flush_output() -> None:
    """Flush standard output. A closed pipe, as in `… | head`, is not an error."""
    try:
        if sys.stdout is not None:  # closed before the process started
            sys.stdout.flush()
    except BrokenPipeError:
        discard_output()


def discard_output() -> None:
    """Redirect standard output to the null device, so that Python does not fail to flush it again at exit."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, AttributeError):  # a replacement, such as pytest's, or closed
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)
