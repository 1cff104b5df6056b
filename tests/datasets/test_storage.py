"""Where files are looked for, and what happens when one is damaged."""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from mtgcn.datasets import NAMES, catalogue, checksums, load, where
from mtgcn.datasets.dataset import Dataset
from mtgcn.datasets.storage import read_checked
from mtgcn.errors import InputError
from mtgcn.graph import Graph


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

    def test_damage_in_the_given_folder_is_an_error_though_the_cache_is_whole(
        self, cache: Path, given: Path, put: Put
    ) -> None:
        put(given, content="damaged", cites="edges")
        put(cache, content="words", cites="edges")
        with pytest.raises(InputError, match=r"cora.content is damaged"):
            load("cora")

    def test_a_change_of_the_environment_is_seen(
        self, cache: Path, given: Path, put: Put, monkeypatch: pytest.MonkeyPatch
    ) -> None:
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
            f"{cache / 'cora.cites'} is damaged: its sha256 sum starts {actual}, expected {expected}; "
            "delete it, and it is fetched anew"
        )
        assert sorted(path.name for path in cache.iterdir()) == ["cora.cites", "cora.content"]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "cora.cites").mkdir()
    with pytest.raises(InputError, match=r"cannot read .*cora.cites: Is a directory"):
        read_checked(tmp_path, ["cora.cites"])


def test_sums_are_known_for_every_file() -> None:
    formats = [form for name in NAMES if name != "digits" for form in catalogue._ENTRIES[name].formats]
    assert {filename for form in formats for filename in form.filenames} == set(checksums.SHA256)
    assert all(len(digest) == 64 for digest in checksums.SHA256.values())
