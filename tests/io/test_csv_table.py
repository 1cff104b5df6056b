"""CSV: encodings, delimiters, headers and faults."""

import numpy as np
import pytest

from mtgcn import read_graph
from mtgcn.errors import GraphNote, InputError
from mtgcn.io import csv_table
from mtgcn.io.csv_table import CsvTable, encoding_of


def table_of(path, header=True, delimiter=None):
    return CsvTable(path, delimiter).take_header(header)


def rows_of(table, texts, numbers):
    """Every row as (line, texts, numbers)."""
    return [
        (int(line), [column.text(row) for column in batch.texts], [cells.numbers()[row] for cells in batch.features])
        for batch in table.batches(texts, numbers)
        for row, line in enumerate(batch.places)
    ]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("block", [7, 16, 1 << 20])
@pytest.mark.parametrize("last", ["", "\n", "\n\n"])
def test_rows_and_lines(write, monkeypatch, newline, block, last):
    monkeypatch.setattr(csv_table, "BLOCK_SIZE", block)
    path = write("t.csv", ("id,size\na,1\n\nb,2.5\n\n\nc,-3e1" + last).replace("\n", newline))
    assert rows_of(table_of(path), [0], [1]) == [(2, ["a"], [1]), (4, ["b"], [2.5]), (7, ["c"], [-30])]


def test_quotes_and_byte_order_mark(write):
    path = write("t.csv", b'\xef\xbb\xbfid,f\n"a, b", 1\n  c  ,"2"\n5" pipe,3\n"say ""hi""",4\n')
    texts = [texts[0] for _, texts, _ in rows_of(table_of(path), [0], [1])]
    assert texts == ["a, b", "c", '5" pipe', 'say "hi"']
    assert table_of(path).columns == ("id", "f")


@pytest.mark.parametrize("block", [8, 16, 1 << 20])
def test_line_breaks_in_quotes(write, monkeypatch, block):
    monkeypatch.setattr(csv_table, "BLOCK_SIZE", block)
    path = write("t.csv", b'id,f\n"a\n\nb",1\n5" pipe,2\n6" pipe,3\n"c ""d""\ne",4\n')
    found = [(place, texts[0]) for place, texts, _ in rows_of(table_of(path), [0], [1])]
    assert found == [(2, "a  b"), (5, '5" pipe'), (6, '6" pipe'), (7, 'c "d" e')]


@pytest.mark.parametrize("title", ["Kunden 2024", "Kunden, Stand 1.2.2024", '"Kunden; alle";;'])
def test_titles_above_cells_that_hold_the_delimiter(write, title):
    path = write("t.csv", title + '\n\nid;preis;text\na;1,5;"rot; alt"\nb;2,5;neu\n')
    with pytest.warns(GraphNote, match="read as a title"):
        table = CsvTable(path)
    assert (table.delimiter, table.first_place, table.rows[1]) == (";", 3, ["a", "1,5", "rot; alt"])


@pytest.mark.parametrize("header", ["name,note", "a;b"])
def test_header_of_other_delimiters_is_no_title(write, header):
    rows = {"name,note": "ann,x;y\nbob,z;w\n", "a;b": "1,5;2\n2,5;3\n"}
    assert CsvTable(write("t.csv", f"{header}\n{rows[header]}")).first_place == 1


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
@pytest.mark.parametrize("title", ["Customers 2024\n", "Customers 2024,,\n,,\n"])
def test_titles_above_the_header(write, encoding, title):
    path = write("t.csv", (title + "id,f,g\na,1,2\nb,2,3\n").encode(encoding))
    with pytest.warns(GraphNote, match=r"\('Customers 2024'\) is read as a title and left out"):
        table = table_of(path)
    assert table.columns == ("id", "f", "g")
    assert [texts[0] for _, texts, _ in rows_of(table, [0], [1])] == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"id,f\na,1\nb\n", r"t.csv line 3 has 1 column where line 1 has 2 \('b'\); correct the line"),
        (b"id,f\na,1\nb,2,3\n", "line 3 has 3 columns where line 1 has 2"),
        (b'id,f\n\n\na,1\n"b,2\nc,3\n', "line 5 opens a quote and does not close it"),
        (b'id,f\n"a\nb",1\nc\n', "line 4 has 1 column where line 1 has 2"),
        (b"id,f\n\xc3\xa9,1\nb\xe9,2\n", r"line 3, byte 2 \(0xe9\) is not UTF-8 while line 2 is; save the whole file"),
        (b"id,f\na,1\nb\x81,2\n", r"line 3, byte 2 \(0x81\) is not UTF-8; save the file as UTF-8"),
        ("id,f\na,1\n".encode("utf-16")[:-1], "is not complete UTF-16 text"),
        (b"id,f\na,1\nb\0,2\n", "line 3 holds a NUL byte"),
        (b"id,id\na,1\n", "line 1 names column 'id' twice"),
        (b"\n\n", "holds only empty lines and comments"),
        (b"# nothing here\n", "holds only empty lines and comments"),
        (b'"' + b"x" * 200_000 + b'",1\n', "line 1 cannot be read"),
    ],
)
@pytest.mark.parametrize("block", [8, 1 << 20])
def test_faults_name_their_line(write, monkeypatch, content, message, block):
    monkeypatch.setattr(csv_table, "BLOCK_SIZE", block)
    path = write("t.csv", content)
    with pytest.raises(InputError, match=message) as caught:
        rows_of(table_of(path), [0], [1])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("cell", ["x", "nan", "-inf", "1e300", "", "1_0", "１"])
@pytest.mark.parametrize("block", [8, 1 << 20])
def test_faults_name_their_cell(write, monkeypatch, cell, block):
    monkeypatch.setattr(csv_table, "BLOCK_SIZE", block)
    path = write("t.csv", f"source,target,weight\na,b,1\n\nb,c,{cell}\n")
    found = f"'{cell}', not a finite number" if cell else "empty; write a number"
    with pytest.raises(InputError, match=f"t.csv line 4, column 'weight' is {found}"):
        read_graph(path)


@pytest.mark.parametrize("delimiter", [",,", '"', "\n", "é"])
def test_invalid_delimiter(write, delimiter):
    with pytest.raises(InputError, match="give one character"):
        table_of(write("t.csv", "a,b\n"), delimiter=delimiter)


def test_long_files_are_read_in_blocks(write, monkeypatch):
    """So memory does not grow with the file."""
    monkeypatch.setattr(csv_table, "BLOCK_SIZE", 1 << 16)
    lines = 200_000
    path = write("t.csv", "source,target,weight\n" + "1,2,0.5\n" * lines + "1,2,much\n")
    sizes = []
    sizes.extend(len(batch) for batch in table_of(path).batches([0, 1, 2]))
    assert max(sizes) <= (1 << 16) / len("1,2,0.5\n") + 2
    assert sum(sizes) == lines + 1


def test_values_equal_numpy(write):
    values = np.random.default_rng(0).standard_normal(500).astype(np.float32)
    path = write("t.csv", "id,f\n" + "".join(f"{row},{value!r}\n" for row, value in enumerate(values.tolist())))
    assert [numbers[0] for *_, numbers in rows_of(table_of(path), [], [1])] == values.tolist()


def test_arrow_owns_its_memory(write, monkeypatch):
    # Arrow's threads may hold it when the interpreter exits, and Python bytes cannot be freed then.
    path, handed = write("t.csv", "id,size\n1,2\n3,4\n"), []
    reader = csv_table.pa.BufferReader

    def remember(buffer):
        handed.append(isinstance(buffer, csv_table.pa.Buffer) and buffer.is_mutable)  # Python bytes are not
        return reader(buffer)

    monkeypatch.setattr(csv_table.pa, "BufferReader", remember)
    list(table_of(path).batches([0], [1]))
    assert handed
    assert all(handed)


def test_numeric_columns(write):
    rows = ["0,1,007,1,a,", "1,0,008,0.5,b,", "1,0,009,NA,a,"]
    table = table_of(write("nodes.csv", "\n".join(["id,w,code,part,name,empty", *rows]) + "\n"))
    [batch] = table.batches([], range(6))
    found = [cells.numbers() for cells in batch.features]
    assert [place for place, numbers in enumerate(found) if numbers is not None] == [0, 1, 3]
    np.testing.assert_array_equal(found[3], [1, 0.5, np.nan])


@pytest.mark.parametrize("chunk", [3, 1 << 20])
def test_encodings(write, monkeypatch, chunk):
    monkeypatch.setattr(csv_table, "CHUNK_BYTES", chunk)
    assert encoding_of(write("a.csv", "plain\n")) == "utf-8"
    assert encoding_of(write("a.csv", "Köln\n".encode())) == "utf-8"
    with pytest.warns(GraphNote, match="read as Windows-1252"):
        assert encoding_of(write("a.csv", b"K\xc3")) == "cp1252"  # half a UTF-8 letter at the end
    with pytest.warns(GraphNote, match=r"a.csv is not UTF-8 \(line 2, byte 2 \(0xf6\)\); it is read as Windows-1252"):
        assert encoding_of(write("a.csv", "x\nKöln €\n".encode("cp1252"))) == "cp1252"
