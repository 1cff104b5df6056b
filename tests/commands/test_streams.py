"""Standard output that cannot show a letter, is full, or has nobody who reads it."""

import io
import os
import stat
import subprocess
import sys

import pytest

from mtgcn import cli

FULL = (1, 7)  # the numbers of that device on Linux


@pytest.fixture
def full(tmp_path):
    """A device of our own that has no room, as a full disk."""
    try:
        os.mknod(tmp_path / "full", 0o666 | stat.S_IFCHR, os.makedev(*FULL))
        with (tmp_path / "full").open("wb") as device:
            yield device
    except (PermissionError, AttributeError):
        pytest.skip("devices can be made and opened by root on Linux alone")


def mtgcn(*arguments, **streams):
    return subprocess.run([sys.executable, "-m", "mtgcn", *arguments], stderr=subprocess.PIPE, text=True, **streams)


@pytest.mark.parametrize("arguments", [["--version"], ["methods"], ["fit", "--help"]])
def test_a_full_disk_is_one_clear_line(full, arguments):
    done = mtgcn(*arguments, stdout=full, check=False)
    said = (
        "mtgcn: error: cannot write to standard output: No space left on device; make room there, or send it elsewhere"
    )
    assert (done.returncode, done.stderr) == (2, said + "\n")


def test_who_has_enough_may_leave():
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as output:
        assert mtgcn("--version", stdout=output, check=False).stderr == ""


def test_without_any_output_a_command_does_its_work():
    done = mtgcn("--version", preexec_fn=lambda: os.close(1), check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_letters_that_cannot_be_shown_are_numbers(tmp_path, monkeypatch, encoding):
    labels, edges = tmp_path / "labels.csv", tmp_path / os.fsdecode(b"edges\xff.csv")
    labels.write_text("id,label\n1,né\n2,✓\n3,né\n", encoding="utf-8")
    edges.write_text("source,target\n1,2\n2,3\n3,4\n4,3\n4,5\n", encoding="utf-8")
    output = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", output)
    assert cli.main(["fit", "--check", "--edges", str(edges), "--labels", str(labels)]) == 0
    shown = output.buffer.getvalue().decode(encoding)
    assert {"ascii": "n\\xe9 2, \\u2713 1", "latin-1": "né 2, \\u2713 1", "utf-8": "né 2, ✓ 1"}[encoding] in shown
    assert "edges\\udcff.csv: " in shown  # a note on the edges, some of which go one way
