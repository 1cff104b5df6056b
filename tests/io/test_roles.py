"""Guessed roles of columns: what is guessed, why, and how it is changed."""

import warnings

import pytest

from mtgcn.errors import GraphNote, InputError
from mtgcn.io.options import TableOptions, parsed_columns
from mtgcn.io.read import preview, read_graph

HEADER = "customer_no,full_name,age,city,segment"


def customers(rows=30, labelled=6):
    """A table whose target is empty where it is unknown."""
    cities, segments = ("Ulm", "Hof"), ("saver", "spender")
    lines = [
        f"c{row:03d},Ada {row},{20 + row * 7 % 41},{cities[row % 2]},{segments[row % 2] if row < labelled else ''}"
        for row in range(rows)
    ]
    return "\n".join([HEADER, *lines]) + "\n"


def roles(path, **options):
    return {one.column: one.role for one in preview(path, TableOptions(**options)).columns}


def notes(path, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", GraphNote)
        graph = read_graph(None, nodes=path, **options)
    return graph, [str(one.message).partition(": ")[2] for one in caught]


def test_guesses_are_noted_with_the_option_that_changes_them(write):
    path = write("customers.csv", customers())
    assert roles(path) == {
        "customer_no": "id",
        "full_name": "name",
        "age": "feature",
        "city": "feature",
        "segment": "label",
    }
    graph, found = notes(path)
    assert found == [
        "column 'customer_no' is read as the id, by its name, and since all values differ; "
        "--column id=NAME names another, --column id=none numbers the rows",
        "column 'segment' is read as the target, by its name, 2 values, 24 of 30 cells empty; "
        "--target NAME names another, --column label=none uses none",
        "column 'full_name' is read as the name, by its name; it is used as text, too; "
        "--column name=NAME names another, --column name=none uses none",
    ]
    assert (graph.node_ids[0], graph.class_names) == ("c000", ("saver", "spender"))
    assert (graph.preprocessing.id_column, graph.preprocessing.name_column) == ("customer_no", "full_name")


def test_choices_replace_guesses(write):
    path = write("customers.csv", customers())
    columns, kinds = parsed_columns(["id=none", "label=city", "name=none", "feature=customer_no", "ignore=full_name"])
    graph, found = notes(path, columns=columns, kinds=kinds)
    assert found == []
    assert graph.node_ids.tolist() == list(range(1, 31))
    assert graph.class_names == ("Hof", "Ulm")
    assert graph.numbered
    assert not any("full_name" in line for line in graph.preprocessing.lines())


def test_roles_of_a_form(write):
    path = write("customers.csv", customers())
    first = preview(path)
    chosen = {one.column: one.role for one in first.columns} | {"segment": "ignore", "city": "label", "age": "category"}
    options = TableOptions(nodes=path).with_roles(chosen)
    assert {one.column: one.role for one in preview(path, options).columns} == chosen | {"age": "feature"}
    assert read_graph(None, options).class_names == ("Hof", "Ulm")
    with pytest.raises(InputError, match="columns 'city' and 'segment' are both the label; choose one"):
        options.with_roles({"city": "label", "segment": "label"})


@pytest.mark.parametrize(
    ("header", "row", "node_id"),
    [
        ("age,city,y", "{n},Ulm,", None),  # numbers that count few rows may be measurements
        (",city,y", "{n},Ulm,", "column 1"),  # an index without a name
        ("height,city,y", "1.{n},Ulm,", None),
        ("code,city,y", "k{n},Ulm,", "code"),
        ("name,city,y", "k{n},Ulm,", None),
        ("city,orderId,y", "Ulm,{n},", "orderId"),
        ("text,city,y", "some words {n},Ulm,", None),
    ],
)
def test_id(write, header, row, node_id):
    rows = [row.format(n=number) for number in range(1, 9)]
    rows = [f"{line}{'ab'[number % 2]}" if number < 4 else line for number, line in enumerate(rows)]
    path = write("t.csv", "\n".join([header, *rows, ""]))
    assert [one.column for one in preview(path).columns if one.role == "id"] == ([node_id] if node_id else [])
    graph, found = notes(path)
    if node_id is None:
        why = "since no column has an id for each row"
        assert f"rows are numbered from 1, {why}; --column id=NAME names a column" in found
        assert graph.node_ids.tolist() == list(range(1, 9))


def table(**columns):
    """A CSV table of columns given as texts with a letter per cell, `.` if it is empty."""
    cells = [list(column.replace(".", " ")) for column in columns.values()]
    return "".join(",".join(row) + "\n" for row in (columns, *zip(*cells, strict=True)))


FULL, GAPS = "abababababababababab", "ab..a..............b"


@pytest.mark.parametrize(
    ("columns", "target"),
    [
        ({"species": FULL, "colour": FULL}, "species"),
        ({"species": FULL, "colour": GAPS}, ("species", "colour")),
        ({"class": FULL, "survived": GAPS, "deck": GAPS}, "survived"),
        ({"type": GAPS, "category": GAPS}, ("type", "category")),
        ({"label": FULL, "colour": GAPS}, "label"),
        ({"colour": GAPS, "size": FULL}, "colour"),
        ({"colour": FULL, "size": FULL}, None),
        ({"target": "abcdefghijklmnopqrst", "size": FULL}, None),  # no classes
    ],
)
def test_target(write, columns, target):
    path = write("t.csv", table(id="abcdefghijklmnopqrst", **columns))
    found = preview(path)
    if isinstance(target, tuple):
        assert found.targets == target
        with pytest.raises(InputError, match=r"2 columns that may be the target: .*; choose one with --target NAME"):
            read_graph(None, nodes=path)
        found = preview(path, TableOptions(columns={"label": target[0]}))
        target = target[0]
    assert [one.column for one in found.columns if one.role == "label"] == ([target] if target else [])


def test_duplicate_ids(write):
    path = write("t.csv", "id,f\na,1\na,2\nb,3\n")
    why = "since column 'id' repeats or lacks values and is left out"
    graph, found = notes(path)
    assert found == [f"rows are numbered from 1, {why}; --column id=NAME names a column"]
    assert (graph.node_ids.tolist(), graph.feature_names) == ([1, 2, 3], ("f",))
    with pytest.raises(InputError, match=r"node 'a' is on line 2 already; .*or number the rows \(--column id=none\)"):
        read_graph(None, nodes=path, columns={"id": "id"})


def test_edges_need_ids(write):
    nodes, edges = write("n.csv", "id,f\na,1\nb,2\n"), write("e.csv", "source,target\na,b\n")
    with pytest.raises(InputError, match="edges and labels refer to nodes by id"):
        read_graph(edges, nodes=nodes, columns={"id": False})


@pytest.mark.parametrize(("values", "left_out"), [("xyxyx", True), ("xyxyy", False), ("xy xx", False)])
def test_column_that_equals_labels_of_another_table(write, values, left_out):
    rows = "".join(f"n{row},{row % 3},{value}\n" for row, value in enumerate(values + "zz"))
    nodes = write("n.csv", "id,f,kind\n" + rows)
    labels = write("l.csv", "id,label\n" + "".join(f"n{row},{value}\n" for row, value in enumerate("xyxyx")))
    graph, found = notes(nodes, labels=labels)
    copy = "column 'kind' equals the labels and is left out; --column category=kind uses it anyway"
    assert (copy in found) == left_out
    assert any("kind" in name for name in graph.feature_names) != left_out
    graph, found = notes(nodes, labels=labels, kinds={"kind": "category"})
    assert copy not in found
    assert any("kind" in name for name in graph.feature_names)


def test_pictures_links_and_errors(write_parquet):
    rows = range(20)
    path = write_parquet(
        "t.parquet",
        id=[f"n{row}" for row in rows],
        photo=[f"img/{row}.JPG" for row in rows],
        page=[f"https://example.org/{row}" for row in rows],
        tags=[["a"], ["b"]] * 10,
        price=[*map(str, range(19)), "free"],
    )
    found = {one.column: one for one in preview(path).columns}
    assert [found[name].role for name in ("photo", "page", "tags")] == ["picture", "ignore", "ignore"]
    assert "1 of 20 values are not numbers (row 20 'free')" in found["price"].problem
    assert len(preview(path).rows) == 10
    assert preview(path).rows[1] == ["n1", "img/1.JPG", "https://example.org/1", "", "1"]


def test_header_of_texts(write):
    """A telling column name is a header also above text."""
    path = write("t.csv", "title,topic\nred sun,sky\nblue moon,sky\ngreen sea,sea\nred sea,sea\n")
    assert roles(path) == {"title": "name", "topic": "label"}
