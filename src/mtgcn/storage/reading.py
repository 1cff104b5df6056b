"""Reading files that should be plain ones: what stands there instead may never end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_plain(path: Path, at_most: int | None = None) -> bytes:
    """The content of a plain file, of at most so many bytes; an OSError where there is none, as for any file.

    A pipe would be waited for, a device read without end: neither is opened for longer than it takes to tell.
    """
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a plain file", str(path))
        content = file.read(-1 if at_most is None else at_most + 1)
    if at_most is not None and len(content) > at_most:
        raise OSError(errno.EFBIG, f"it has more than {at_most} bytes", str(path))
    return content
