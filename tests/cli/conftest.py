"""Commands run in this process, on a small graph in CSV files."""

import shutil

import pytest

from mtgcn.cli import app as cli
from mtgcn.experiments import plan
from mtgcn.methods import METHODS, create
from own_files import OwnFiles

FEW_EPOCHS = {"epochs": 3, "warmup_epochs": 2, "teaching_epochs": 2, "hidden_channels": 4, "infomax_epochs": 2}


def quick_method(name, **settings):
    """The method with few epochs, unless the settings say otherwise."""
    known = METHODS[name].__dataclass_fields__
    return create(name, **{key: value for key, value in FEW_EPOCHS.items() if key in known} | settings)


@pytest.fixture
def few_epochs(monkeypatch):
    """All methods have few epochs, also those of commands that take no settings."""
    monkeypatch.setattr("mtgcn.methods.create", quick_method)
    monkeypatch.setattr(plan, "create", quick_method)


@pytest.fixture
def mtgcn_command(capfd):
    """Runs a command in this process; returns exit status, standard output and standard error."""

    def command(*arguments):
        status = cli.main([str(argument) for argument in arguments])
        printed = capfd.readouterr()
        return status, printed.out, printed.err

    return command


@pytest.fixture
def succeeds(mtgcn_command):
    """Runs a command that must succeed without a note or a warning; returns its standard output."""

    def command(*arguments):
        status, out, err = mtgcn_command(*arguments)
        assert status == 0, err
        assert "mtgcn:" not in err  # where progress may stand on a slow machine
        return out

    return command


@pytest.fixture
def fails(mtgcn_command):
    """Runs a command that must end with one line of error and status 2."""

    def command(message, *arguments):
        status, out, err = mtgcn_command(*arguments)
        assert (status, out) == (2, ""), err
        assert err.startswith("mtgcn: error: ")
        assert err.count("\n") == 1
        assert message in err, err

    return command


@pytest.fixture
def refused(fails, own):
    """The same, and the command must not change a file."""

    def command(message, *arguments):
        before = own.content()
        fails(message, *arguments)
        assert own.content() == before

    return command


@pytest.fixture
def own(tmp_path, make_graph):
    return OwnFiles(tmp_path, make_graph)


@pytest.fixture
def quick_run(own):
    """A quick experiment on these files, which prints a warning to standard error."""
    options = ["--edges", own.edges, "--labels", own.labels, "--unknown-nodes", "add"]
    return ["run", *options, "--method", "lp", "--labels-per-class", "1", "--runs", "2", "--device", "cpu"]


@pytest.fixture(scope="session")
def fitted(tmp_path_factory, make_graph):
    """Files and their model; tests must not change them."""
    files = OwnFiles(tmp_path_factory.mktemp("own"), make_graph)
    assert cli.main([str(part) for part in files.fit]) == 0
    return files


@pytest.fixture
def model(fitted, own):
    """A copy of that model beside `own`, which has the same files."""
    shutil.copytree(fitted.out, own.out)
    return own.out
