"""Which encoding a file has."""

import pytest

from mtgcn import read_graph
from mtgcn.errors import GraphNote, InputError
from mtgcn.io import csv_table
from mtgcn.io.csv_table import encoding_of


@pytest.mark.parametrize("chunk", [3, 1 << 20])
def test_utf8_and_windows(write, monkeypatch, chunk):
    monkeypatch.setattr(csv_table, "CHUNK_BYTES", chunk)
    assert encoding_of(write("a.csv", "plain\n")) == "utf-8"
    assert encoding_of(write("a.csv", "Köln\n".encode())) == "utf-8"
    with pytest.warns(GraphNote, match=r"a.csv is not UTF-8 \(line 2, byte 2 \(0xf6\)\); it is read as Windows-1252"):
        assert encoding_of(write("a.csv", "x\nKöln €\n".encode("cp1252"))) == "cp1252"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"K\xf6ln\nK\xc3\xb6ln\n", "line 1, byte 2 .* is not UTF-8 while line 2 is; save the whole file"),
        (b"K\x81ln\n", "is not UTF-8; save the file as UTF-8"),  # no letter of Windows-1252
        (b"K\xf6\x01ln\n", "is not UTF-8; save the file as UTF-8"),  # no text at all
        (b"K\xc3", None),  # half a letter at the end is a letter of Windows-1252
        ("K\n".encode("utf-16"), "is UTF-16 text"),
    ],
)
def test_what_is_neither(write, content, message):
    path = write("a.csv", content)
    if message is None:
        with pytest.warns(GraphNote):
            assert encoding_of(path) == "cp1252"
        return
    with pytest.raises(InputError, match=message):
        encoding_of(path)


def test_letters_come_out_right(write):
    edges = write("edges.csv", "source;target\nKöln;Zürich\nUlm;Köln\n".encode("latin-1"))
    with pytest.warns(GraphNote, match="Windows-1252"):
        assert read_graph(edges).node_ids.tolist() == ["Köln", "Ulm", "Zürich"]
