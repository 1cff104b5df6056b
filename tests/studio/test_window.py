"""What a person does in a window, without a browser."""

import asyncio

import pytest

from idle_teacher import Teacher
from mtgcn.studio.desk import Desk
from mtgcn.studio.window import Window


class Open:
    """A window whose steps are waited for, and what it told."""

    def __init__(self, desk, name):
        self.told = []
        self.window = Window(desk, lambda text, bad=False: self.told.append((text, bad)), lambda: name)

    def does(self, *actions):
        async def act():
            await self.window.desk.step()
            await self.window.look()
            for action in actions:
                await self.window.step(action)

        asyncio.run(act())
        return None if self.window.facts is None else self.window.facts.node


@pytest.fixture
def desk(project):
    return Desk(project, Teacher())


@pytest.fixture
def window(desk):
    return Open(desk, "one")


def test_it_shows_the_first_of_the_queue_with_all_that_is_known(window, desk):
    node = window.does()
    assert node == desk.queue[0].node
    facts = window.window.facts
    assert facts.reason == desk.queue[0].reason
    assert facts.answer is None
    assert ("colour", dict(facts.details.attributes)["colour"]) in facts.details.attributes
    assert [item.node for item in facts.waiting] == [item.node for item in desk.queue[1:6]]
    assert facts.pictures == {}


def test_a_label_goes_to_the_file_and_on_to_the_next(window, desk, project):
    first = window.does()
    second = window.does(lambda: window.window.label(first, 2))
    assert project.labels() == {first: "eel"}
    assert second == desk.queue[1].node


def test_a_key_for_a_node_that_is_no_longer_shown_labels_it_and_moves_nothing(window, project):
    first = window.does()
    second = window.does(lambda: window.window.label(first, 0))
    assert window.does(lambda: window.window.label(first, 1)) == second
    assert project.labels() == {first: "dog"}


def test_a_key_beyond_the_classes_does_nothing(window, project):
    first = window.does()
    assert window.does(lambda: window.window.label(first, 7)) == first
    assert project.labels() == {}


def test_back_forth_skip_and_undo(window, project):
    one = window.window
    first = window.does()
    second = window.does(lambda: one.label(first, 0))
    third = window.does(lambda: one.skip(second))
    assert len({first, second, third}) == 3
    assert project.skipped == (second,)
    assert window.does(one.previous) == second
    assert window.does(one.next) == third
    assert window.does(one.undo) == second
    assert project.skipped == ()
    assert window.does(one.undo) == first
    assert project.labels() == {}
    window.does(one.undo)
    assert window.told[-1] == ("Nothing that was done in this window is left to take back.", False)


def test_one_window_does_not_take_back_what_another_did(window, desk, project):
    other = Open(desk, "two")
    first = window.does()
    other.does(lambda: other.window.show("n20"))
    window.does(lambda: window.window.label(first, 0))
    other.does(lambda: other.window.label("n20", 1))
    window.does(window.window.undo)
    assert project.labels() == {"n20": "dog"}


def test_what_a_person_can_mend_is_told(window, project):
    window.does(lambda: window.window.label("nobody", 0))
    (text, bad), *_ = window.told
    assert "nobody" in text
    assert bad


def test_labels_are_given_until_nobody_is_left(window, desk, project, truth):
    desk.teaches_itself = False
    node = window.does()
    for _ in range(36):
        shown, number = node, desk.seen.classes.index(truth(node))
        node = window.does(lambda shown=shown, number=number: window.window.label(shown, number))
        node = window.does()  # the queue may have been filled meanwhile
    assert len(project.labels()) == 36
    window.does(window.window.next)
    assert window.told[-1] == ("Nobody else is waiting for a label just now.", False)


def test_unexpected_error_is_one_line_and_the_node_can_still_be_labelled(window, desk, project, monkeypatch, caplog):
    monkeypatch.setattr("mtgcn.studio.window.node_details", lambda *_: 1 / 0)
    first = window.does()
    assert first == desk.queue[0].node
    (text, bad), *_ = window.told
    assert "ZeroDivisionError: division by zero" in text
    assert bad
    assert "Traceback" in caplog.text
    assert window.does(lambda: window.window.label(first, 2)) == desk.queue[1].node
    assert project.labels() == {first: "eel"}
