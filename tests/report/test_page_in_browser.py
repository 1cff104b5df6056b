"""The page of a fit in a real browser: hover, search, sorting, screen sizes, dark mode."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from browser import chromium
from fitted_models import Model, with_labels
from mtgcn.graph import Graph
from mtgcn.methods import create
from mtgcn.report.fit_page import Background, fit_html
from mtgcn.report.pages import DARK, LIGHT, class_colours
from mtgcn.uncertainty.held_out import ExpectedAccuracy

pytestmark = pytest.mark.long

NASTY = "<img src=x onerror=alert(1)>"
WHERE = """
    const box = document.getElementById("sheet").getBoundingClientRect(), scale = box.width / data.map.width;
    return [box.left + scale * nodes.x(arguments[0]), box.top + scale * nodes.y(arguments[0])];
"""
LOOSEST_NODE = """
    const others = (node) => Array.from({length: nodes.count}, (_, other) => other).filter(other => other !== node);
    const apart = (node, other) => Math.hypot(nodes.x(other) - nodes.x(node), nodes.y(other) - nodes.y(node));
    const room = (node) => Math.min(...others(node).map(other => apart(node, other)));
    const rooms = Array.from({length: nodes.count}, (_, node) => node < 9 ? 0 : room(node));
    return rooms.indexOf(Math.max(...rooms));
"""


@pytest.fixture(scope="module")
def browser():
    with chromium() as session:
        yield session


@pytest.fixture(scope="module")
def small(make_graph):
    """120 customers of three classes, one with HTML as its name."""
    graph = make_graph(nodes=120, easy=True)
    ids = np.array([f"customer {number}" for number in range(120)], dtype=object)
    ids[5] = NASTY
    graph = replace(graph, node_ids=ids.astype(str), class_names=("gold", "silver & co", "bronze"), name="shop")
    logits = 3 * np.eye(3)[graph.labels] + np.random.default_rng(0).normal(size=(120, 3))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return Model(with_labels(graph, np.arange(9)), create("lp"), probabilities)


@pytest.fixture(scope="module")
def small_page(small, tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "small.html"
    background = Background(ExpectedAccuracy(0.9, (0.8, 0.95), 40, 5), None, ["income: standardised"])
    path.write_text(fit_html(small, background))
    return path


@pytest.fixture(scope="module")
def large_page(tmp_path_factory):
    """20 000 nodes in a ring."""
    count = 20_000
    ring = sp.coo_array((np.ones(count), (np.arange(count), np.roll(np.arange(count), 1))), shape=(count, count))
    labels = np.where(np.arange(count) < 40, np.arange(count) % 4, -1)
    graph = Graph(sp.csr_array(ring + ring.T), labels=labels, class_names=("a", "b", "c", "d"))
    probabilities = np.random.default_rng(0).dirichlet(np.ones(4), count)
    path = tmp_path_factory.mktemp("pages") / "large.html"
    path.write_text(fit_html(Model(graph, create("lp"), probabilities)))
    return path


@pytest.fixture
def page(browser, small_page):
    browser.show(width=1280)
    browser.open(small_page)
    return browser


def rows(browser):
    """The visible rows of the table."""
    return browser.run(
        "return Array.from(document.querySelectorAll('#rows tbody tr:not(.space)'), "
        "row => Array.from(row.cells, cell => cell.innerText.trim()))"
    )


def point_at_node(browser, node, *, click=False):
    browser.run("document.getElementById('sheet').scrollIntoView({block: 'center'})")
    browser.point_at(*browser.run(WHERE, node), click=click)


def drawn_edges(browser):
    return browser.run("return document.querySelector('.bonds').getAttribute('d')")


def rgb(colour):
    return "rgb({}, {}, {})".format(*(int(colour[place : place + 2], 16) for place in (1, 3, 5)))


def neighbours_of(model, node):
    adjacency = model.graph_.adjacency
    return [str(model.graph_.node_ids[one]) for one in adjacency.indices[slice(*adjacency.indptr[node : node + 2])]]


def test_no_errors_and_no_requests(page):
    assert page.errors() == []
    assert page.run("return performance.getEntriesByType('resource').length") == 0
    assert "90 % expected accuracy" in " ".join(page.text(".figures").split())
    assert "income: standardised" in page.text("#data")


def test_hover_shows_node_and_neighbours(page, small):
    node = page.run(LOOSEST_NODE)
    assert page.run("return document.getElementById('hint').hidden")
    point_at_node(page, node)
    hint = page.text("#hint")
    probability = small.label_distributions_[node]
    assert hint.startswith(f"customer {node}\n")
    assert f"{small.graph_.class_names[probability.argmax()]}, {100 * probability.max():.0f} %" in hint
    neighbours = neighbours_of(small, node)
    assert f"{len(neighbours)} neighbour" in hint
    assert neighbours[0] in hint
    assert drawn_edges(page).count("M") == len(neighbours)
    page.point_at(5, 5)
    assert page.run("return document.getElementById('hint').hidden")
    assert drawn_edges(page) == ""


def test_selection_by_map_neighbours_and_suggestions(page, small):
    node = page.run(LOOSEST_NODE)
    point_at_node(page, node, click=True)
    page.point_at(5, 5)
    assert page.text("#selected h3") == f"customer {node}"
    assert drawn_edges(page) != ""
    neighbours = neighbours_of(small, node)
    assert sorted(page.texts("#selected .node")) == sorted(neighbours)
    first = page.texts("#selected .node")[0]
    page.click("#selected .node")
    assert page.text("#selected h3") == first
    assert f"customer {node}" in page.texts("#selected .node")
    page.run("document.querySelectorAll('.worth .node')[2].click()")
    assert page.text("#selected h3") == page.texts(".worth .node")[2]


def test_zoom_keeps_the_selected_node_visible(page):
    node = page.run(LOOSEST_NODE)
    page.run("select(arguments[0])", node)
    for _ in range(3):
        page.click("#zoom-in")
    page.run("select(arguments[0])", node)
    box = page.run("return document.querySelector('.ground svg').getAttribute('viewBox')")
    left, _, width, _ = map(float, box.split())
    assert width < 640 / 5
    assert left <= page.run("return nodes.x(arguments[0])", node) <= left + width
    page.click("#whole")
    assert page.run("return document.querySelector('.overlay').getAttribute('viewBox')").startswith("0 0 640 ")


def test_search(page):
    assert page.text("#found") == "120 nodes"
    page.type("#search", "Customer 11")
    assert [row[0] for row in rows(page)] == ["customer 11", *(f"customer {number}" for number in range(110, 120))]
    assert page.text("#found") == "11 of 120 nodes"
    page.type("#search", "silver")
    assert {row[1].split("\n")[0].removesuffix("label") for row in rows(page)} == {"silver & co"}
    page.type("#search", "no such name")
    assert rows(page) == []
    assert "No matching nodes." in page.text("#rows")


def test_sorting(page):
    def probabilities():
        return [int(row[2].removesuffix(" %")) for row in rows(page)]

    names = [row[0] for row in rows(page) if row[0] != NASTY]
    assert names[:3] == ["customer 0", "customer 1", "customer 2"]  # and not customer 10
    page.click("[data-sort=probability]")
    assert probabilities() == sorted(probabilities(), reverse=True)
    assert page.run("return document.querySelector('[data-sort=probability]').parentElement.ariaSort") == "descending"
    surest = probabilities()[0]
    page.click("[data-sort=probability]")
    assert probabilities() == sorted(probabilities())
    assert probabilities()[0] < surest
    page.click("[data-sort=node]")
    page.click("[data-sort=node]")
    assert rows(page)[0][0] == "customer 119"


def test_filters_apply_to_table_and_map(page, small):
    choose = (
        "const s = document.getElementById('certainty'); s.value = arguments[0]; s.dispatchEvent(new Event('change'))"
    )
    page.run(choose, "given")
    assert page.text("#found") == "9 of 120 nodes"
    page.run(choose, "")
    page.click("#classes button[data-class='2']")
    predicted = int((small.label_distributions_.argmax(axis=1) == 2).sum())
    assert page.text("#found") == f"{predicted} of 120 nodes"
    assert page.run("return document.querySelectorAll('.ground .dots.k0.aside').length") > 0
    assert page.run("return document.querySelectorAll('.ground .dots.k2.aside').length") == 0
    page.click("#classes button[data-class='2']")
    assert page.text("#found") == "120 nodes"


def test_names_are_never_html(page):
    page.type("#search", "onerror")
    assert rows(page)[0][0] == NASTY
    page.click("#rows tbody button")
    assert page.text("#selected h3") == NASTY
    assert page.run("return document.querySelectorAll('img').length") == 0
    assert page.errors() == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_layout_fits_the_screen(browser, small_page, width, dark):
    browser.show(width=width, dark=dark)
    browser.open(small_page)
    browser.run("select(0)")
    assert browser.run("return document.documentElement.scrollWidth") <= width
    beyond = browser.run(
        "return Array.from(document.querySelectorAll('main *, header *'))"
        ".filter(one => !one.closest('.rows, .scroll, svg'))"
        ".filter(one => one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML.slice(0, 80))"
    )
    assert beyond == []
    assert browser.run("return document.querySelector('main').clientWidth") > 0.85 * width
    paper = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert paper == rgb((DARK if dark else LIGHT)["paper"])
    drawn = browser.run("return getComputedStyle(document.querySelector('.ground .dots.k1 path')).stroke")
    assert drawn == rgb(class_colours(3)[dark][1])
    assert all(len(row) >= 3 and row[2].endswith("%") for row in rows(browser))


def test_only_visible_rows_are_drawn(browser, large_page):
    assert large_page.stat().st_size < 2_000_000
    browser.show(width=1280)
    browser.open(large_page)
    assert browser.text("#found") == "20000 nodes"
    assert len(rows(browser)) < 60
    browser.run("const frame = document.getElementById('rows'); frame.scrollTop = frame.scrollHeight")
    browser.run("return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    shown = rows(browser)
    assert shown[-1][0] == "19999"
    assert len(shown) < 60
    browser.type("#search", "1234")
    assert rows(browser)[0][0] == "1234"
    assert browser.errors() == []


def test_page_without_scripts(browser, small_page):
    browser.show(width=1280)
    browser.scripts(False)
    try:
        browser.open(small_page)
        assert "needs JavaScript" in browser.text("#nodes")
        assert "customer" in browser.text(".worth")
    finally:
        browser.scripts(True)
