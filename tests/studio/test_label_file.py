import pytest

from mtgcn.errors import InputError
from mtgcn.studio.label_file import checked_class, label_table, read_label_file

IDS = ("a", "b,c", "d")


def test_what_is_written_is_read_again(tmp_path):
    labels = {"a": "cat", "b,c": 'the "dog"'}
    path = tmp_path / "labels.csv"
    path.write_bytes(label_table(labels))
    assert path.read_text() == 'id,label\na,cat\n"b,c","the ""dog"""\n'
    assert read_label_file(path, IDS) == labels


@pytest.mark.parametrize("content", ["id,label\n", "id,label\na,\n", "label,id\n,a\n"])
def test_a_file_without_labels_says_nothing_of_any_node(tmp_path, content):
    path = tmp_path / "labels.csv"
    path.write_text(content)
    assert read_label_file(path, IDS) == {}


def test_one_class_will_do_and_columns_may_stand_otherwise(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("note;label;id\nsure;cat;d\n")
    assert read_label_file(path, IDS) == {"d": "cat"}


def test_a_node_that_is_not_there_is_told(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("id,label\nx,cat\n")
    with pytest.raises(InputError, match="'x'"):
        read_label_file(path, IDS)


@pytest.mark.parametrize("name", ["", "  ", "NA", "?", "none", "-1", "-1.0", "bell\a"])
def test_names_that_would_not_be_read_as_a_class_are_refused(name):
    with pytest.raises(InputError, match="call it otherwise"):
        checked_class(name)


def test_names_that_the_reader_takes_for_one_are_one():
    assert checked_class("3.0", ["1", "2"]) == "3"
    assert checked_class("two  words\n") == "two words"
    assert checked_class("007", ["7"]) == "007"  # a name, which makes the other one a name too
