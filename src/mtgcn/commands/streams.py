"""Standard output and error as they are: unable to show a letter, full, or without anybody who still reads."""

from __future__ import annotations

import io
import os
import sys


def show_any_letter() -> None:
    """From here on, a letter that a stream has no code for (é in ASCII, a file name that is not UTF-8) is written as
    its number, and nothing fails of it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


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
