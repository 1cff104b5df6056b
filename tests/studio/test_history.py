from mtgcn.studio.history import MOST_CHANGES, Change, history_text, read_history


def test_changes_are_read_as_they_were_written():
    change = Change("labelled a as cat", "w1", {"a": (None, "cat")}, (("cat",), ("cat", "dog")), "b", ("cat", "dog"))
    [again] = read_history(history_text([change]))
    assert again.renamed == ("cat", "dog")
    assert [tuple(pair) for pair in again.labels.values()] == [(None, "cat")]
    assert [tuple(names) for names in again.classes] == [("cat",), ("cat", "dog")]


def test_only_the_last_changes_are_kept():
    changes = [Change(str(number)) for number in range(MOST_CHANGES + 3)]
    assert [one.title for one in read_history(history_text(changes))] == [str(n) for n in range(3, MOST_CHANGES + 3)]


def test_a_file_that_cannot_be_read_costs_no_more_than_the_way_back():
    for content in (None, b"", b"[", b"{}", b'[{"title": 1, "strange": 2}]', b"[3]", b"\xff"):
        assert read_history(content) == []
