import numpy as np
import pytest

from mtgcn.errors import InputError
from mtgcn.labels import check_classes, class_named, classes_of, encoded_labels


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
        ([0.5, 1.5], [0, 1], ("0.5", "1.5")),
        (["007", "7", "1_23"], [0, 2, 1], ("007", "1_23", "7")),
        (["7.0", "-1", "12"], [0, -1, 1], ("7", "12")),
        (["cat", "NA", "?", "Null", "dog", "-"], [0, -1, -1, -1, 1, -1], ("cat", "dog")),
        ([], [], ()),
    ],
)
def test_labels_of_any_type(given, codes, names):
    found = encoded_labels(given)
    assert found[0].tolist() == codes
    assert found[1] == names


def test_several_labels_per_node_are_refused():
    with pytest.raises(InputError, match=r"labels of shape \(2, 3\); give one label per node"):
        encoded_labels(np.zeros((2, 3)))


def test_one_class_is_refused():
    with pytest.raises(InputError, match="y has one class only, 'a'; label nodes of at least two"):
        check_classes(("a",), "y")


@pytest.mark.parametrize(
    ("texts", "beside", "codes", "names"),
    [
        (["1.0", "-1"], (), [0, -1], ("1",)),
        (["1.0", "-1"], ("1", "2"), [0, -1], ("1",)),
        (["1.0", "-1"], ("1", "x"), [1, 0], ("-1", "1.0")),
        (["7"], ("007", "7"), [0], ("7",)),
    ],
)
def test_labels_beside_classes_that_are_names_are_names(texts, beside, codes, names):
    found = classes_of(texts, beside)
    assert (found[0].tolist(), found[1]) == (codes, names)


def test_classes_as_people_type_them():
    assert [class_named(text, ["1", "2"]) for text in ("2.0", "02", "x", "1_0")] == ["2", "02", "x", "1_0"]
    assert [class_named(text, ["1", "02"]) for text in ("2.0", "02", "x")] == ["2.0", "02", "x"]
