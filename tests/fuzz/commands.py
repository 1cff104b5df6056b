"""A command as a person types it, and what it may answer."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence

from fuzz.trial import LONGEST_COMPLAINT, require
from mtgcn.cli.app import main
from mtgcn.errors import InputError

DONE, BAD_INPUT = 0, 2


def run_command(arguments: Sequence[str]) -> str:
    """What the command printed; an InputError with its complaint where it refused."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(list(arguments))
    require(status in (DONE, BAD_INPUT), f"status {status} of {list(arguments)}")
    printed, told = (stream.buffer.getvalue().decode() for stream in (out, err))
    if status == DONE:
        return printed
    complaints = [line for line in told.splitlines() if line.startswith("mtgcn: error: ")]
    require(len(complaints) == 1 and len(complaints[0]) <= LONGEST_COMPLAINT, f"complained {told[:3000]!r}")
    raise InputError(complaints[0])
