"""Standard output and error as they are: unable to show a letter, full, closed, or without anybody who still reads."""

from __future__ import annotations

import io
import os
import sys
from typing import Any


def prepare_streams() -> None:
    """From here on nothing fails of what a person should have been told and cannot be.

    A letter that a stream has no code for (é in ASCII, a file name that is not UTF-8) is written as its number. What
    standard error has no room for is lost: a command that did its work has done it, and one that did not says so by
    its exit status. What standard output has no room for is an error, told by `flushed_output`.
    """
    _open_what_is_closed()
    if sys.stderr is sys.__stderr__ and sys.stderr is not None:  # and no stand-in, of a test for instance
        channel = io.BufferedWriter(_Losing(sys.stderr.fileno(), "wb", closefd=False))
        sys.stderr = io.TextIOWrapper(channel, sys.stderr.encoding, "backslashreplace", line_buffering=True)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class _Losing(io.FileIO):
    """A file that takes whatever it is given, and keeps what there is room for."""

    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError:
            return len(content)


def _open_what_is_closed() -> None:
    """Where a standard stream was closed, the next file that is opened would have its number, and whatever is printed
    would end up in there."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
    if sys.stderr is None:  # where print(…, file=None) would mean standard output
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # open for as long as the program runs


def flushed_output() -> OSError | None:
    """Let go of all that was printed; what the system says against it. Where somebody who had enough has left, as in
    `… | head`, that is nothing."""
    if sys.stdout is None:  # it was closed before this began
        return None
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
    except OSError as error:
        return error
    return None


def discard_output() -> None:
    """What could not be written must not be tried again when Python ends: it would complain a second time."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, AttributeError):  # a stand-in, of a test for instance, or none at all
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
