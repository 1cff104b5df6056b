"""The pictures of a fit: to scale, complete, and named."""

import numpy as np

from mtgcn.report.fit_charts import (
    MAP_WIDTH,
    class_chart,
    confidence_chart,
    history_charts,
    map_chart,
    peer_chart,
)
from mtgcn.report.fit_view import Map, fit_view
from mtgcn.report.marks import Bar, Dots, Line, Words
from mtgcn.uncertainty.peer_weights import contributions
from weighted_votes import made_up_report


def of_kind(picture, kind):
    return [mark for mark in picture.marks if isinstance(mark, kind)]


def test_the_chart_of_the_peers_is_to_scale():
    chart = peer_chart(contributions(made_up_report()))
    bars = np.array([bar.width for bar in of_kind(chart, Bar)])
    np.testing.assert_allclose(bars / bars[0], np.array([55, 30, 10, 5]) / 55, atol=1e-3)
    looks = [dots.look for dots in of_kind(chart, Dots)]
    assert (looks.count("ring"), looks.count("filled")) == (4, 3)  # one accuracy is not known


def test_the_histogram_is_to_scale():
    chart = confidence_chart(np.array([0.26, 0.26, 0.99]), classes=4)
    heights = [bar.height for bar in of_kind(chart, Bar)]
    assert heights[0] == 2 * heights[-1] > 0
    assert sum(height > 0 for height in heights) == 2
    assert of_kind(confidence_chart(np.empty(0), 2), Bar)


def test_curves_are_named_after_the_peers():
    values = np.ones((5, 2))
    (chart,) = history_charts({"loss": values}, ("features", "<b>"))
    assert [line.hint for line in of_kind(chart, Line) if line.hint] == ["features", "<b>"]
    (chart,) = history_charts({"loss": values}, ("one", "two", "three"))
    assert [line.hint for line in of_kind(chart, Line) if line.hint] == ["peer 1", "peer 2"]


def test_what_was_never_written_down_has_no_curve():
    (chart,) = history_charts({"loss": np.ones((5, 1)), "never": np.full((5, 1), np.nan)})
    assert chart.title == "loss"


def test_every_node_is_on_the_map_once(fitted_model):
    view = fit_view(fitted_model)
    dots = [mark for mark in of_kind(map_chart(view.map, view.class_names), Dots) if mark.colour != "paper"]
    assert sum(len(mark.places) for mark in dots if mark.look != "ringed") == 54
    assert sum(len(mark.places) for mark in dots if mark.look == "ringed") == 6
    for mark in dots:
        assert (mark.places >= 0).all()


def test_doubt_is_hollow_and_certainty_large():
    shown = Map(
        nodes=np.arange(4),
        places=np.array([[0, 0], [1, 0], [0, 0.5], [1, 0.5]]),
        predicted=np.array([0, 0, 0, 1]),
        confidence=np.array([0.4, 0.6, 0.9, 0.9]),
        given=np.array([-1, -1, -1, 1]),
        suggested=np.array([0]),
    )
    chart = map_chart(shown, ["yes", "7"])
    drawn = [(mark.colour, mark.look, mark.size) for mark in of_kind(chart, Dots) if len(mark.places)]
    (doubt, fair, sure, given, suggested) = drawn
    assert (doubt[:2], given[:2], suggested[:2]) == (("k0", "hollow"), ("k1", "ringed"), ("paper", "ringed"))
    assert sure[2] > fair[2]
    names = [words.text for words in of_kind(chart, Words)]
    assert names == ["1", "yes", "class 7"]  # a class called 7 is no seventh suggestion
    assert chart.height < MAP_WIDTH


def test_long_names_are_shortened():
    chart = class_chart(["x" * 80, "y"], np.array([1, 1]), np.array([5, 4]))
    assert any(words.text.endswith("…") for words in of_kind(chart, Words))


def test_names_are_written_where_nothing_else_is():
    random = np.random.default_rng(0)
    places = random.random((300, 2)) * [1, 0.8]
    shown = Map(
        nodes=np.arange(300),
        places=places,
        predicted=np.arange(300) % 3,
        confidence=np.full(300, 0.9),
        given=np.full(300, -1),
        suggested=np.arange(8),
    )
    written = of_kind(map_chart(shown, ["first name", "second name", "third name"]), Words)
    for number, one in enumerate(written):
        for other in written[number + 1 :]:
            if len(one.text) > 2 or len(other.text) > 2:
                assert abs(one.y - other.y) >= 18 or abs(one.x - other.x) > 5 * max(len(one.text), len(other.text))
