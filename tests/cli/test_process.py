"""Garbage collection of the process, and standard streams that are full, closed or cannot encode a letter."""

import gc
import io
import os
import stat
import subprocess
import sys

import pytest

from mtgcn.cli import app as cli
from mtgcn.cli.process import GC_THRESHOLD

FULL = (1, 7)  # device number on Linux


def test_a_command_collects_garbage_rarely():
    program = (
        "import atexit, gc, sys\n"
        "atexit.register(lambda: print(gc.get_threshold()[0], gc.get_freeze_count() > 0))\n"  # runs last
        "from mtgcn.cli.app import main; sys.argv = ['mtgcn', '--version']; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"{GC_THRESHOLD} True"


def test_a_call_from_python_leaves_the_collector_alone(capsys):
    before = gc.get_threshold()
    assert cli.main(["--version"]) == 0
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


@pytest.fixture
def full(tmp_path):
    """A device without space."""
    try:
        os.mknod(tmp_path / "full", 0o666 | stat.S_IFCHR, os.makedev(*FULL))
        with (tmp_path / "full").open("wb") as device:
            yield device
    except (PermissionError, AttributeError):
        pytest.skip("only root on Linux can make and open devices")


def mtgcn(*arguments, **streams):
    streams = {"stderr": subprocess.PIPE, "check": False} | streams
    return subprocess.run([sys.executable, "-m", "mtgcn", *map(str, arguments)], text=True, **streams)


@pytest.fixture
def noted(tmp_path):
    """A command that succeeds and prints a warning to standard error."""
    edges, labels = tmp_path / "edges.csv", tmp_path / "labels.csv"
    edges.write_text("source,target\n" + "".join(f"{node},{node + 1}\n" for node in range(12)))
    labels.write_text("id,label\n" + "".join(f"{node},{'ab'[node % 2]}\n" for node in range(12)))
    files = ["--edges", edges, "--labels", labels]
    return ["run", *files, "--method", "lp", "--labels-per-class", "1", "--runs", "2"]


@pytest.mark.parametrize("arguments", [["--version"], ["methods"], ["fit", "--help"]])
def test_full_standard_output_is_one_line(full, arguments):
    done = mtgcn(*arguments, stdout=full)
    message = "cannot write to standard output: No space left on device; make room there, or send it elsewhere"
    assert (done.returncode, done.stderr) == (2, f"mtgcn: error: {message}\n")


def test_full_standard_error_is_ignored(full, noted):
    complete = mtgcn(*noted, stdout=subprocess.PIPE)
    assert "mtgcn: warning: " in complete.stderr
    silent = mtgcn(*noted, stdout=subprocess.PIPE, stderr=full)
    table, same = (done.stdout.splitlines()[:-1] for done in (complete, silent))  # the last line has the seconds
    assert (silent.returncode, same) == (0, table)
    assert "accuracy" in "".join(table)
    assert mtgcn("predict", "no-such", "--out", "p.csv", stdout=full, stderr=full).returncode == 2


def test_closed_standard_error_does_not_mix_with_files(tmp_path, noted):
    closed = {"stdout": subprocess.PIPE, "preexec_fn": lambda: os.close(2)}
    done = mtgcn("predict", "no-such", "--out", "p.csv", **closed)
    assert (done.returncode, done.stdout) == (2, "")
    page = tmp_path / "page.html"
    assert mtgcn(*noted, "--report", page, **closed).returncode == 0
    assert "mtgcn: warning" not in page.read_text(encoding="utf-8")


def test_a_closed_pipe_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as output:
        assert mtgcn("--version", stdout=output).stderr == ""


def test_closed_standard_output(tmp_path):
    closed = {"preexec_fn": lambda: os.close(1)}
    done = mtgcn("--version", **closed)
    assert (done.returncode, done.stderr) == (0, "")
    for out in ("-", "/dev/stdout"):
        done = mtgcn("predict", tmp_path, "--out", out, **closed)
        message = f"mtgcn: error: --out {out} where standard output is closed; give a file\n"
        assert (done.returncode, done.stderr) == (2, message)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_letters_that_cannot_be_encoded_are_escaped(tmp_path, monkeypatch, encoding):
    labels, edges = tmp_path / "labels.csv", tmp_path / os.fsdecode(b"edges\xff.csv")
    labels.write_text("id,label\n1,né\n2,✓\n3,né\n", encoding="utf-8")
    edges.write_text("source,target\n1,2\n2,3\n3,4\n4,3\n4,5\n", encoding="utf-8")
    output = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", output)
    assert cli.main(["fit", "--check", "--edges", str(edges), "--labels", str(labels)]) == 0
    shown = output.buffer.getvalue().decode(encoding)
    assert {"ascii": "n\\xe9 2, \\u2713 1", "latin-1": "né 2, \\u2713 1", "utf-8": "né 2, ✓ 1"}[encoding] in shown
    assert "edges\\udcff.csv: " in shown  # the note that some edges have a direction
