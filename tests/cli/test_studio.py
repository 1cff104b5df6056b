"""`mtgcn studio` that cannot start: one line of error, and nothing written."""

import socket
import sys

import pytest

from mtgcn.cli.app import main


@pytest.fixture
def refusal(tmp_path, capsys):
    """The error message for options that are refused."""

    def refused(*options):
        assert main(["studio", "--no-browser", "--project", str(tmp_path / "project"), *options]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.count("\n") == 1
        assert not (tmp_path / "project").exists()
        return printed.err

    return refused


def test_missing_package(refusal, monkeypatch):
    monkeypatch.setitem(sys.modules, "nicegui", None)
    assert "NiceGUI, which is not installed; pip install 'mtgcn[studio]'" in refusal()


def test_invalid_address(refusal):
    assert "address that others use" in refusal("--host", "0.0.0.0")
    assert "give another --host or --port" in refusal("--host", "no.such.host.invalid")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "give another --host or --port" in refusal("--port", str(taken.getsockname()[1]))


def test_two_graphs(refusal, tmp_path):
    assert "give one of them" in refusal("--dataset", "digits", "--edges", str(tmp_path / "edges.csv"))
