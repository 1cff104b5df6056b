"""The files of a model folder: whole or not at all, and no others are touched."""

import errno
import os
import threading

import pytest

from mtgcn.errors import InputError
from mtgcn.estimator.classifier import MutualTeachingClassifier
from mtgcn.estimator.model_folder import check_destination, load_model, read_card, save_model
from mtgcn.storage.folders import LOCK, READY
from mtgcn.storage.locks import exclusive_lock


def altered(path, change):
    content = bytearray(path.read_bytes())
    change(content)
    path.write_bytes(content)


def flip_last_byte(content):
    content[-1] ^= 1


def cut_in_half(content):
    del content[len(content) // 2 :]


@pytest.mark.parametrize("name", ["answers.safetensors", "graph.safetensors", "weights.safetensors"])
@pytest.mark.parametrize(
    ("change", "message"), [(flip_last_byte, "was changed after it was written"), (cut_in_half, "bytes, not")]
)
def test_changed_arrays_are_refused(folder, name, change, message):
    altered(folder / name, change)
    with pytest.raises(InputError, match=rf"model folder .*model is damaged: {name} .*{message}.*fit the model again"):
        load_model(folder)


@pytest.mark.parametrize("name", ["answers.safetensors", "graph.safetensors", "weights.safetensors"])
def test_a_missing_file_is_refused(folder, name):
    (folder / name).unlink()
    with pytest.raises(InputError, match=f"damaged: {name} is missing"):
        load_model(folder)


def test_an_older_model_is_replaced_and_a_persons_files_stay(folder, farm):
    (folder / "notes.txt").write_text("mine")
    other = MutualTeachingClassifier("lp").fit_graph(farm)
    save_model(other, folder)
    assert read_card(folder)["method"]["name"] == "lp"
    assert sorted(path.name for path in folder.iterdir()) == [
        *("answers.safetensors", "card.json", "graph.safetensors", "notes.txt")
    ]
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_an_empty_folder_and_a_link_to_one_will_do(farm_model, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    save_model(farm_model, tmp_path / "link")
    assert (tmp_path / "real" / "card.json").exists()
    assert (tmp_path / "link").is_symlink()


def test_other_peoples_folders_are_left_alone(farm_model, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("years of work")
    with pytest.raises(InputError, match="thesis holds files and is no model folder; give another folder"):
        save_model(farm_model, tmp_path / "thesis")
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["chapter1.tex"]


@pytest.mark.parametrize("where", ["file", "file/model", "file/a/b/model"])
def test_a_file_in_the_way(farm_model, tmp_path, where):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="is a file; give"):
        save_model(farm_model, tmp_path / where)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "mine")]


def test_a_folder_one_may_not_write_to(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    with pytest.raises(InputError, match="permission denied; give another folder"):
        check_destination(tmp_path / "model")


def disk_is_full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def safetensors_disk_is_full(*_):
    from safetensors import SafetensorError

    raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")


@pytest.mark.parametrize(
    ("what", "failure"),
    [
        ("safetensors.numpy.save_file", safetensors_disk_is_full),
        ("os.fsync", disk_is_full),
        ("mtgcn.estimator.model_folder.write_bytes", disk_is_full),
    ],
)
@pytest.mark.parametrize("place", ["model", "new/parents/model"])
def test_a_full_disk_changes_nothing(farm_model, tmp_path, monkeypatch, what, failure, place):
    target = tmp_path / place
    if place == "model":
        save_model(farm_model, target)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with monkeypatch.context() as patch:
        patch.setattr(what, failure)
        with pytest.raises(InputError, match=r"cannot write model folder .*: .*No space left .*nothing was changed"):
            save_model(farm_model, target)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert (tmp_path / "new").exists() is False


def test_when_the_new_model_cannot_be_moved_in_the_old_one_returns(folder, farm_model, monkeypatch):
    rename = os.rename

    def fails_for_the_new(source, target):
        if str(source).endswith(".partial"):
            disk_is_full()
        rename(source, target)

    before = (folder / "card.json").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("os.rename", fails_for_the_new)
        with pytest.raises(InputError, match="cannot write model folder"):
            save_model(farm_model, folder)
    assert (folder / "card.json").read_bytes() == before
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_the_folder_itself_stays(folder, farm_model):
    """It may be a mount point, which cannot be renamed."""
    before = folder.stat().st_ino
    save_model(farm_model, folder)
    assert folder.stat().st_ino == before


def test_who_saves_while_another_does_not_end_is_told(folder, farm_model, monkeypatch):
    monkeypatch.setattr("mtgcn.storage.folders.TIMEOUT", 0.1)
    with (
        exclusive_lock(folder / LOCK, "holding it"),
        pytest.raises(InputError, match=r"another process is writing model folder .*model and does not end; try again"),
    ):
        save_model(farm_model, folder)


def test_who_reads_while_another_saves_gets_one_model_or_the_other(folder, farm_model, farm):
    other = MutualTeachingClassifier("lp").fit_graph(farm)
    done = threading.Event()

    def save_often():
        while not done.is_set():
            for model in (other, farm_model):
                save_model(model, folder)

    thread = threading.Thread(target=save_often)
    thread.start()
    try:
        found = {load_model(folder).method for _ in range(60)}
    finally:
        done.set()
        thread.join()
    assert found <= {"lp", "mt-gcn"}


def test_what_was_left_by_a_kill_is_read_and_written_over(folder, farm_model, farm):
    """After the moment from which new files count, and before they are in their places."""
    for name in ("card.json", "answers.safetensors"):
        (folder / READY).mkdir(exist_ok=True)
        os.rename(folder / name, folder / READY / name)
    (folder / "card.json").write_text("an older one")
    assert load_model(folder).method == "mt-gcn"
    check_destination(folder)
    save_model(MutualTeachingClassifier("lp").fit_graph(farm), folder)
    assert load_model(folder).method == "lp"
    assert sorted(path.name for path in folder.iterdir()) == ["answers.safetensors", "card.json", "graph.safetensors"]
