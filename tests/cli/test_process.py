"""The process: garbage collection, memory limits, standard streams that are full, closed or cannot encode a letter."""

import gc
import io
import json
import os
import subprocess
import sys

import pytest

from mtgcn.cli import app as cli
from mtgcn.cli.process import GC_THRESHOLD


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
def full():
    """A device without space."""
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no such device")
    with open("/dev/full", "w", encoding="utf-8") as device:
        yield device


def mtgcn(*arguments, **streams):
    streams = {"stderr": subprocess.PIPE, "check": False} | streams
    return subprocess.run([sys.executable, "-m", "mtgcn", *map(str, arguments)], text=True, **streams)


@pytest.mark.parametrize("arguments", [["--version"], ["fit", "--help"]])
def test_full_standard_output_is_one_line(full, arguments):
    done = mtgcn(*arguments, stdout=full)
    message = "cannot write to standard output: No space left on device; free some space, or redirect it"
    assert (done.returncode, done.stderr) == (2, f"mtgcn: error: {message}\n")


@pytest.mark.slow
def test_full_standard_error_is_ignored(full, quick_run):
    done = mtgcn(*quick_run, stdout=subprocess.PIPE, stderr=full)
    assert done.returncode == 0
    assert "accuracy" in done.stdout
    assert mtgcn("no-such", stdout=full, stderr=full).returncode == 2


@pytest.mark.long
def test_closed_standard_error_does_not_mix_with_files(tmp_path, quick_run):
    closed = {"stdout": subprocess.PIPE, "preexec_fn": lambda: os.close(2)}
    done = mtgcn("no-such", **closed)
    assert (done.returncode, done.stdout) == (2, "")
    page = tmp_path / "page.html"
    assert mtgcn(*quick_run, "--report", page, **closed).returncode == 0
    assert "mtgcn: warning" not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("unbuffered", ["", "1"])  # the error is raised at the end, or by the first line
def test_a_closed_pipe_is_no_error(monkeypatch, unbuffered):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as output:
        done = mtgcn("methods", stdout=output)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_closed_standard_output(tmp_path):
    closed = {"preexec_fn": lambda: os.close(1)}
    done = mtgcn("--version", **closed)
    assert (done.returncode, done.stderr) == (0, "")
    for out in ("-", "/dev/stdout"):
        done = mtgcn("predict", tmp_path, "--out", out, **closed)
        message = f"mtgcn: error: --out {out} requires standard output, which is closed; give a file\n"
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


HOSTILE = "\x1b[2J\x9b31m\u202e"  # clears the screen, colours it, reverses text


@pytest.mark.slow
def test_control_characters_are_escaped(mtgcn_command, own, monkeypatch):
    """In summaries, tables, notes and errors, in a terminal or not."""
    rename = {"ant": f"ant{HOSTILE}", "0210": f"0210{HOSTILE}"}
    for name in ("node_rows", "edge_rows", "label_rows"):
        setattr(own, name, [[rename.get(cell, cell) for cell in row] for row in getattr(own, name)])
    own.write()
    out, more = own.folder / "p.csv", own.write_labels([rename["0210"], rename["ant"]])
    commands = [own.fit, ["suggest", own.out, "--count", 36], ["label", own.out, more, "--folds", 0]]
    commands += [["predict", own.out, "--out", out], [*own.fit, "--classes", "bee,cat"], ["label", own.out, own.edges]]
    commands += [["compare", *own.options, "--methods", "lp", "--runs", 2, "--labels-per-class", 2]]
    for terminal in ("0", "1"):
        monkeypatch.setenv("TTY_COMPATIBLE", terminal)
        shown = ["".join(mtgcn_command(*command)[1:]) for command in commands]
        assert not any(character in text for text in shown for character in ("\x1b[2J", "\x9b", "\u202e"))
        assert all("ant\\x1b[2J" in "".join(text.split("\n")) for text in shown[:5])
    assert HOSTILE in out.read_text(encoding="utf-8")  # files keep names as they are


def test_quiet(mtgcn_command, own):
    own.edge_rows += [own.edge_rows[1][::-1]]  # which reading notes
    own.write()
    compare = ["compare", *own.options, "--methods", "lp", "--runs", 2, "--labels-per-class", 2]
    assert "mtgcn: note: " in mtgcn_command(*compare)[2]
    _, out, err = mtgcn_command(*compare, "--json")
    assert (len(json.loads(out)["notes"]), err) == (1, "")
    status, out, err = mtgcn_command(*compare, "--quiet")
    assert (status, err) == (0, "")
    assert out.startswith("Accuracy % on edges.csv")  # the result itself
    assert mtgcn_command(*own.fit, "-q") == (0, "", "")
    assert mtgcn_command("predict", own.out, "--out", own.folder / "new" / "p.csv", "-q") == (0, "", "")
    assert (own.folder / "new" / "p.csv").exists()
    assert mtgcn_command("predict", own.out, "--out", own.out, "-q")[2].startswith("mtgcn: error: ")


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="uses resource limits of Linux")
@pytest.mark.parametrize("kilobytes", [150_000, 700_000, 1_000_000])
def test_address_space_limits_are_one_line(own, kilobytes):
    """Too small to load torch, to load pyarrow, and to start threads."""
    typed = ["-m", "mtgcn", *map(str, own.fit)]
    done = subprocess.run(
        ["bash", "-c", f'ulimit -v {kilobytes}; exec "$@"', "bash", sys.executable, *typed],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("mtgcn: error: out of memory")
    assert done.stderr.count("\n") == 1
