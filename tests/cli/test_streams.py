"""Standard output and error that cannot show a letter, are full or closed, or have nobody who reads them."""

import io
import os
import stat
import subprocess
import sys

import pytest

from mtgcn.cli import app as cli

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
    given = {"stderr": subprocess.PIPE} | streams
    return subprocess.run([sys.executable, "-m", "mtgcn", *arguments], text=True, **given)


@pytest.mark.parametrize("arguments", [["--version"], ["methods"], ["fit", "--help"]])
def test_a_full_disk_is_one_clear_line(full, arguments):
    done = mtgcn(*arguments, stdout=full, check=False)
    said = (
        "mtgcn: error: cannot write to standard output: No space left on device; make room there, or send it elsewhere"
    )
    assert (done.returncode, done.stderr) == (2, said + "\n")


@pytest.fixture
def noted(tmp_path):
    """Arguments of a command that does its work and has something to say on standard error."""
    edges, labels = tmp_path / "edges.csv", tmp_path / "labels.csv"
    edges.write_text("source,target\n" + "".join(f"{node},{node + 1}\n" for node in range(12)))
    labels.write_text("id,label\n" + "".join(f"{node},{'ab'[node % 2]}\n" for node in range(12)))
    files = ["--edges", str(edges), "--labels", str(labels)]
    return ["run", *files, "--method", "lp", "--labels-per-class", "1", "--runs", "2"]


def test_work_is_done_though_standard_error_is_full(full, noted):
    told = mtgcn(*noted, stdout=subprocess.PIPE, check=False)
    assert "mtgcn: warning: " in told.stderr
    untold = mtgcn(*noted, stdout=subprocess.PIPE, stderr=full, check=False)
    table, same = (done.stdout.splitlines()[:-1] for done in (told, untold))  # the last line tells the seconds
    assert (untold.returncode, same) == (0, table)
    assert "accuracy" in "".join(table)


def test_where_nothing_can_be_said_the_status_says_it(full):
    assert mtgcn("predict", "no-such", "--out", "p.csv", stdout=full, stderr=full, check=False).returncode == 2


def test_a_closed_standard_error_does_not_turn_up_elsewhere(tmp_path, noted):
    done = mtgcn("predict", "no-such", "--out", "p.csv", stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2))
    assert (done.returncode, done.stdout) == (2, "")
    page = tmp_path / "page.html"
    done = mtgcn(*noted, "--report", str(page), stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2), check=False)
    assert done.returncode == 0
    assert "mtgcn: warning" not in page.read_text(encoding="utf-8")


def test_who_has_enough_may_leave():
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as output:
        assert mtgcn("--version", stdout=output, check=False).stderr == ""


def test_without_any_output_a_command_does_its_work():
    done = mtgcn("--version", preexec_fn=lambda: os.close(1), check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_table_is_not_promised_to_an_output_that_is_closed(tmp_path):
    for out in ("-", "/dev/stdout"):
        done = mtgcn("predict", str(tmp_path), "--out", out, preexec_fn=lambda: os.close(1), check=False)
        said = f"mtgcn: error: --out {out} where standard output is closed; give a file\n"
        assert (done.returncode, done.stderr) == (2, said)


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
