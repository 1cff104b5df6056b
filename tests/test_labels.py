"""Label encoding, by files and by Python."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtgcn import read_graph
from mtgcn.errors import GraphNote, InputError
from mtgcn.estimator.inputs import classes_and_labels
from mtgcn.graph import Graph
from mtgcn.labels import class_named, classes_of, encoded_labels


@pytest.mark.parametrize(
    ("given", "codes", "names"),
    [
        (["b", "a", "b"], [1, 0, 1], ("a", "b")),
        (["b", "", None, float("nan"), "a"], [1, -1, -1, -1, 0], ("a", "b")),
        ([7, -1, 3, 7], [1, -1, 0, 1], ("3", "7")),
        (np.array([10.0, np.nan, 9.0]), [1, -1, 0], ("9", "10")),
        (["10", "9", "1"], [2, 1, 0], ("1", "9", "10")),
        (["10", "9", "x"], [0, 1, 2], ("10", "9", "x")),
        (np.array([True, False]), [1, 0], ("False", "True")),
        (np.array([[1], [0]]), [1, 0], ("0", "1")),
        ([0.5, 10.0, 1.5], [0, 2, 1], ("0.5", "1.5", "10")),
        (["007", "7", "1_23"], [0, 2, 1], ("007", "1_23", "7")),
        (["7.0", "-1", "12"], [1, 0, 2], ("-1", "7.0", "12")),
        (["cat", "NA", "?", "Null", "dog", "-"], [0, -1, -1, -1, 1, -1], ("cat", "dog")),
        ([], [], ()),
    ],
)
def test_encoded_labels(given, codes, names):
    found = encoded_labels(given)
    assert found[0].tolist() == codes
    assert found[1] == names


def test_several_labels_per_node():
    with pytest.raises(InputError, match=r"labels of shape \(2, 3\); give one label per node"):
        encoded_labels(np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("texts", "existing", "codes", "names"),
    [
        (["1.0", "-1"], (), [1, 0], ("-1", "1.0")),
        (["1.0", "-1"], ("1", "2"), [1, 0], ("-1", "1.0")),
        (["1.0", "-1"], ("1", "x"), [1, 0], ("-1", "1.0")),
        (["7"], ("007", "7"), [0], ("7",)),
    ],
)
def test_classes_with_existing_ones(texts, existing, codes, names):
    found = classes_of(texts, existing)
    assert (found[0].tolist(), found[1]) == (codes, names)


def test_class_named():
    assert [class_named(text, ["1", "2"]) for text in ("2.0", "02", "x", "1_0")] == ["2", "02", "x", "1_0"]
    assert [class_named(text, ["1", "02"]) for text in ("2.0", "02", "x")] == ["2.0", "02", "x"]


@pytest.mark.parametrize(
    ("labels", "classes", "codes"),
    [
        (["-1", "0", "1"], ["-1", "0", "1"], [0, 1, 2]),
        (["10", "9", "2"], ["2", "9", "10"], [2, 1, 0]),
        (["1.0", "1", "2"], ["1", "1.0", "2"], [1, 0, 2]),
        (["1.5", "10", "9"], ["1.5", "9", "10"], [0, 2, 1]),
        (["007", "7", "NA"], ["007", "7"], [0, 1, -1]),
        (["b", "a", "NA"], ["a", "b"], [1, 0, -1]),
        (["e\u0301", "é", "nan"], ["e\u0301", "é"], [0, 1, -1]),
        (["ab", "a\u200bb", "AB"], ["AB", "ab", "a\u200bb"], [1, 2, 0]),
    ],
)
@pytest.mark.filterwarnings("ignore::mtgcn.errors.GraphNote")
def test_files_and_python_agree(tmp_path, labels, classes, codes):
    (tmp_path / "edges.csv").write_text("a,b\nb,c\n")
    rows = "".join(f"{node},{label}\n" for node, label in zip("abc", labels, strict=True))
    (tmp_path / "labels.csv").write_text("id,label\n" + rows)
    graph = read_graph(tmp_path / "edges.csv", labels=tmp_path / "labels.csv")
    assert (list(graph.class_names), graph.labels.tolist()) == (classes, codes)
    for y in (labels, np.array(labels), np.array(labels, dtype=object)):
        found, places = classes_and_labels(y)
        assert (found.tolist(), places.tolist()) == (classes, codes)


@pytest.mark.parametrize("encode", [lambda y: encoded_labels(y)[0], lambda y: classes_and_labels(y)[1]])
def test_minus_one_in_arrays(encode):
    """It means unlabelled, with a note where it may be a class."""
    for y in ([-2, -1, 0, 1, 2], [-1, *[0, 1] * 10], [-1.0, *[0.0, 1.0] * 10]):
        with pytest.warns(GraphNote, match=r"-1 means unlabelled, as in scikit-learn \(1 of"):
            assert encode(np.array(y)).tolist().count(-1) == 1
    for y in ([0, 1, *[-1] * 20], [-1, *[1, 2, 3] * 10], [-1, 0, 1]):
        assert encode(np.array(y)).tolist().count(-1) == y.count(-1)


def test_masked_labels():
    assert encoded_labels(np.ma.array([7, 7, 3], mask=[0, 1, 0]))[0].tolist() == [1, -1, 0]


@pytest.mark.parametrize("first", ["caf\u00e9", "Cat", "cat", "a b"])
def test_look_alike_classes(first):
    other = {"caf\u00e9": "cafe\u0301", "Cat": "cat", "cat": "cat\u200b", "a b": "a\u00a0b"}[first]
    with pytest.warns(GraphNote, match="look alike but are different; use one spelling") as notes:
        assert encoded_labels([first, other, "x"])[1] == tuple(sorted([first, other, "x"]))
    assert str(notes[0].message).isascii()


def test_regression_targets(tmp_path):
    prices = [100 + 7 * row for row in range(200)]
    (tmp_path / "nodes.csv").write_text("id,label\n" + "".join(f"n{row},{price}\n" for row, price in enumerate(prices)))
    ring = np.roll(np.eye(200), 1, axis=1)
    for read in (
        lambda: read_graph(None, nodes=tmp_path / "nodes.csv"),
        lambda: Graph.from_scipy(ring + ring.T, y=prices),
        lambda: classes_and_labels(np.array(prices)),
        lambda: classes_and_labels(np.array(prices, dtype=float)),
    ):
        with pytest.raises(InputError, match=r"has 200 different numbers from 100 to 1493 for 200 labelled nodes, as"):
            read()
    with pytest.raises(InputError, match="has 30 different numbers"):
        classes_and_labels(np.array(prices[:30]))
    named = [f"n{price}" for price in prices]
    for classes in (range(200), prices[:20], [7 * (row // 20) for row in range(200)], named):
        assert len(classes_and_labels(list(classes))[0]) > 5  # numbered, with many labels each, named


def test_integers_with_gaps(tmp_path):
    """pandas writes 1.0 for integers with gaps, in CSV and Parquet."""
    (tmp_path / "edges.csv").write_text("a,b\nb,c\n")
    (tmp_path / "nodes.csv").write_text("id,label\na,1.0\nb,\nc,0.0\n")
    (tmp_path / "labels.csv").write_text("id,label\nb,1\na,?\n")
    with pytest.warns(GraphNote, match=r"1 labels are words for a missing value \('\?'\)"):
        graph = read_graph(tmp_path / "edges.csv", nodes=tmp_path / "nodes.csv", labels=tmp_path / "labels.csv")
    assert (graph.class_names, graph.labels.tolist()) == (("0", "1"), [1, 1, 0])


LABELS = st.sampled_from([-1, 0, 1, 2.0, 2.5, float("nan"), float("inf"), None, "", "a", "b", "-1", True, (), b"x"])


@settings(deadline=None, max_examples=300)
@given(st.lists(LABELS, max_size=6), st.booleans())
def test_labels_of_any_type(labels, as_array):
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    try:
        classes, codes = classes_and_labels(array if as_array else labels)
    except ValueError:
        return
    assert len(codes) == len(labels)
    for label, code in zip(labels, codes, strict=True):
        is_missing = label is None or label in ("", -1) or label != label
        assert is_missing if code == -1 else classes[code] == label
