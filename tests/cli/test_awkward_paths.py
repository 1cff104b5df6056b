"""Paths that lead nowhere, in circles, into what is no file, or are no text: one clear line, and nothing is lost."""

import json
import os
import stat

import pytest

from mtgcn.cli import app as cli
from mtgcn.estimator.persistence import read_card

NULL, ZERO = (1, 3), (1, 5)  # the numbers of these devices on Linux
QUICK = ["--method", "gcn", "--set", "epochs=3", "--folds", "0", "--device", "cpu"]
TOO_LONG = "x" * 300
NOT_UNICODE = os.fsdecode(b"\xff")


@pytest.fixture
def mtgcn_command(capfd):
    def command(*arguments):
        status = cli.main([str(argument) for argument in arguments])
        printed = capfd.readouterr()
        return status, printed.out, printed.err

    return command


@pytest.fixture
def refused(mtgcn_command):
    """Asserts that a command ends with one line that says this."""

    def refused(message, *arguments):
        status, _, err = mtgcn_command(*arguments)
        assert (status, err.count("\n")) == (2, 1)
        assert message in err

    return refused


class OwnFiles:
    def __init__(self, folder):
        self.folder = folder
        self.edges, self.labels, self.model = folder / "edges.csv", folder / "labels.csv", folder / "model"
        self.edges.write_text("source,target\n" + "".join(f"{node},{node + 1}\n" for node in range(12)))
        self.labels.write_text("id,label\n0,a\n1,a\n11,b\n12,b\n")
        self.fit = ["fit", "--edges", self.edges, "--labels", self.labels, *QUICK, "--out"]
        self.run = ["run", "--edges", self.edges, "--labels", self.labels, "--method", "lp", "--labels-per-class", "1"]
        self.run += ["--runs", "2", "--device", "cpu"]

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture
def own(tmp_path, mtgcn_command):
    files = OwnFiles(tmp_path)
    assert mtgcn_command(*files.fit, files.model)[0] == 0
    return files


@pytest.fixture
def device(tmp_path):
    """Makes devices of our own: the machine's must not be at risk."""

    def made(name, number):
        path = tmp_path / name
        try:
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(*number))
            os.close(os.open(path, os.O_RDWR))
        except (PermissionError, AttributeError):
            pytest.skip("devices can be made and opened by root on Linux alone")
        return path

    return made


# ---- what is no plain file


def test_a_device_stays_one(mtgcn_command, own, device):
    null = device("null", NULL)
    for arguments in (["predict", own.model], ["suggest", own.model, "--count", 2], ["report", own.model]):
        status, _, err = mtgcn_command(*arguments, "--out", null)
        assert (status, err) == (0, "")
    assert mtgcn_command(*own.fit, own.folder / "other", "--report", null)[0] == 0
    assert mtgcn_command(*own.run, "--latex", null, "--report", null)[0] == 0
    assert stat.S_ISCHR(null.stat().st_mode)


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="descriptors have no paths here")
def test_standard_output_by_its_path_holds_the_table_alone(mtgcn_command, own):
    link = own.folder / "stdout"  # as /dev/stdout is one, which must not be at risk
    link.symlink_to("/dev/fd/1")
    status, out, err = mtgcn_command("predict", own.model, "--out", link)
    assert (status, out, err) == mtgcn_command("predict", own.model, "--out", "-")
    assert out.startswith("id,predicted,")
    assert out.count("\n") == 14


def test_modes_and_links_stay(mtgcn_command, own):
    real, link = own.folder / "real.csv", own.folder / "link.csv"
    real.touch(0o640)
    link.symlink_to(real)
    assert mtgcn_command("predict", own.model, "--out", link)[0] == 0
    assert link.is_symlink()
    assert (stat.S_IMODE(real.stat().st_mode), real.read_text()[:3]) == (0o640, "id,")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with a name")
def test_pipes_where_files_are_read(refused, own):
    pipe = own.folder / "pipe"
    os.mkfifo(pipe)
    refused("pipe is not a regular file", "fit", "--edges", pipe, "--out", own.folder / "new")
    refused("pipe is not a regular file", "label", own.model, pipe)
    refused("pipe: it is not a plain file", *own.run, "--split", pipe)
    rows = own.folder / "rows"
    rows.mkdir()
    os.mkfifo(rows / "rows.jsonl")
    refused("rows.jsonl: it is not a plain file", *own.run, "--out", rows)
    for name in ("graph.safetensors", "card.json"):
        (own.model / name).unlink()
        os.mkfifo(own.model / name)
        refused("not a plain file", "predict", own.model, "--out", own.folder / "p.csv")
        refused("not a plain file", "report", own.model)
    assert own.names() == ["edges.csv", "labels.csv", "model", "pipe", "rows"]


def test_a_card_that_never_ends(refused, own, device):
    (own.model / "card.json").unlink()
    (own.model / "card.json").symlink_to(device("zero", ZERO))
    refused("cannot read card.json of model folder", "predict", own.model, "--out", own.folder / "p.csv")
    refused("holds files and is no model folder", *own.fit, own.model)


# ---- names and links


@pytest.mark.parametrize(("name", "why"), [(TOO_LONG, "File name too long"), ("loop", "Too many levels of symbolic")])
def test_names_that_are_too_long_and_links_in_a_circle(refused, own, name, why):
    path = own.folder / name
    if name == "loop":
        path.symlink_to(path)
    before = own.names()
    for arguments in (
        [*own.fit, path],
        [*own.fit, own.folder / "new", "--report", path],
        ["predict", own.model, "--out", path],
        ["predict", path, "--out", own.folder / "p.csv"],
        ["suggest", path],
        ["label", path, own.labels],
        [*own.run, "--out", path],
        [*own.run, "--report", path],
    ):
        refused(why, *arguments)
    for arguments in (["report", path], [*own.run, "--split", path], ["label", own.model, path]):
        refused("", *arguments)
    assert own.names() == before


def test_a_long_name_below_a_folder_that_is_not_there_yet(refused, own):
    refused("a name has 300 bytes, the limit is 255", *own.fit, own.folder / "new" / TOO_LONG / "model")
    assert own.names() == ["edges.csv", "labels.csv", "model"]


def test_folders_one_may_not_search(refused, own, monkeypatch):
    """As root there are none, so the system is made to say so."""
    real, locked = os.stat, own.folder / "locked"

    def denied(path, *arguments, **named):
        if str(path).startswith(str(locked)):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *arguments, **named)

    monkeypatch.setattr(os, "stat", denied)
    for arguments in (
        [*own.fit, locked / "model"],
        [*own.fit, own.folder / "new", "--report", locked / "page.html"],
        ["predict", own.model, "--out", locked / "p.csv"],
        [*own.run, "--out", locked / "rows"],
        [*own.run, "--split", locked / "split.json"],
        ["fit", "--edges", locked / "edges.csv", "--out", own.folder / "new"],
    ):
        refused("Permission denied", *arguments)
    assert own.names() == ["edges.csv", "labels.csv", "model"]


@pytest.mark.skipif(os.name != "posix", reason="names are bytes here alone")
def test_names_that_are_not_unicode(mtgcn_command, own):
    edges, model = own.folder / f"e{NOT_UNICODE}.csv", own.folder / f"m{NOT_UNICODE}"
    own.edges.rename(edges)
    fit = [edges if part == own.edges else part for part in own.fit]
    status, out, err = mtgcn_command(*fit, model, "--report", own.folder / f"r{NOT_UNICODE}.html")
    assert (status, err) == (0, "")
    assert out.splitlines()[-1].endswith("r\\udcff.html")
    assert read_card(model)["graph"]["name"] == "e\\udcff.csv"
    for arguments in (
        ["predict", model, "--out", own.folder / f"p{NOT_UNICODE}"],
        ["suggest", model, "--count", 2],
        ["report", model],
    ):
        status, _, err = mtgcn_command(*arguments)
        assert (status, err) == (0, "")
    run = [edges if part == own.edges else part for part in own.run]
    status, out, _ = mtgcn_command(*run, "--out", own.folder / f"rows{NOT_UNICODE}", "--json")
    assert (status, json.loads(out)["dataset"]) == (0, "e\\udcff.csv")


# ---- destinations are looked at first, and nothing is written over something else


def test_two_things_are_not_written_to_one_file(refused, own):
    (own.folder / "link").symlink_to("same")
    refused("would be written twice", *own.run, "--latex", own.folder / "same", "--report", own.folder / "link")
    for name in ("", "card.json", "graph.safetensors"):
        page = own.folder / "new" / name
        refused("would overwrite the model", *own.fit, own.folder / "new", "--report", page)
    assert own.names() == ["edges.csv", "labels.csv", "link", "model"]


def test_a_page_that_cannot_be_made_leaves_no_model(mtgcn_command, own, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("mtgcn.report.fit_page.fit_html", broken)
    with pytest.raises(ZeroDivisionError):
        mtgcn_command(*own.fit, own.folder / "new", "--report", own.folder / "page.html")
    assert own.names() == ["edges.csv", "labels.csv", "model"]


def test_a_page_that_cannot_be_written_says_that_the_model_is(refused, own, monkeypatch):
    new, page, real = own.folder / "new", own.folder / "page.html", os.replace

    def full(source, target):
        if str(target) == str(page):
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "replace", full)
    said = f"cannot write {page}: No space left on device; make room there, or give another place. The model is written"
    refused(f"{said}; mtgcn report {new} makes the page", *own.fit, new, "--report", page)
    assert read_card(new)["method"]["name"] == "gcn"
    assert not page.exists()


def test_a_person_may_refuse_others_their_model(mtgcn_command, own):
    for path in own.model.iterdir():
        path.chmod(0o640)
    own.model.chmod(0o750)
    more = own.folder / "more.csv"
    more.write_text("id,label\n5,a\n")
    assert mtgcn_command("label", own.model, more, "--folds", 0)[0] == 0
    assert read_card(own.model)["training"]["labels_given"] == {"a": 3, "b": 2}
    modes = {stat.S_IMODE(path.stat().st_mode) for path in own.model.iterdir()}
    assert (modes, stat.S_IMODE(own.model.stat().st_mode)) == ({0o640}, 0o750)


def test_nothing_is_written_of_a_fit_that_went_astray(refused, own):
    own.folder.joinpath("nodes.csv").write_text("id,x\n" + "".join(f"{node},{node}\n" for node in range(13)))
    planetoid = [part if part != "gcn" else "planetoid" for part in own.fit]
    planetoid[-1:] = ["--set", "context_learning_rate=50", "--out"]
    refused("context_learning_rate is 50 (usually 0.01), bring it nearer", *planetoid, own.folder / "new")
    assert "new" not in own.names()
    refused("learning_rate is 1e+38; give at most 100", *own.fit, own.folder / "new", "--set", "learning_rate=1e38")
    assert "new" not in own.names()
