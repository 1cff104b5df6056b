"""`mtgcn studio` where it cannot begin: one line, and nothing written."""

import socket
import sys

import pytest

from mtgcn.cli.app import main


@pytest.fixture
def refusal(tmp_path, capsys):
    """What is said to options that are refused."""

    def refused(*options):
        assert main(["studio", "--no-browser", "--project", str(tmp_path / "project"), *options]) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.count("\n") == 1
        assert not (tmp_path / "project").exists()
        return told.err

    return refused


def test_without_the_package_one_line_says_how_to_get_it(refusal, monkeypatch):
    monkeypatch.setitem(sys.modules, "nicegui", None)
    assert "NiceGUI, which is not installed; pip install 'mtgcn[studio]'" in refusal()


def test_an_address_that_cannot_be_served_is_refused(refusal):
    assert "address that others use" in refusal("--host", "0.0.0.0")
    assert "give another --host or --port" in refusal("--host", "no.such.host.invalid")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "give another --host or --port" in refusal("--port", str(taken.getsockname()[1]))


def test_a_dataset_and_files_are_two_graphs(refusal, tmp_path):
    assert "give one of them" in refusal("--dataset", "digits", "--edges", str(tmp_path / "edges.csv"))
