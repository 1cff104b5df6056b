"""The page of a fit in a real browser: hover, search, sorting, screen sizes, dark mode."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from browser import chromium
from fitted_models import Model, with_labels
from mtgcn.graph import Graph
from mtgcn.methods import create
from mtgcn.report import fit_page
from mtgcn.report.fit_page import Background, fit_html
from mtgcn.report.pages import DARK, LIGHT, class_colours
from mtgcn.uncertainty.held_out import ExpectedAccuracy

pytestmark = pytest.mark.long

ENTER, RIGHT = "\ue007", "\ue014"
NASTY = "<img src=x onerror=alert(1)>"
WHERE = """
    const { map } = window.page, box = map.canvas.getBoundingClientRect(), [x, y] = map.place(arguments[0]);
    return [box.left + x, box.top + y];
"""
LOOSEST_NODE = """
    const { x, y } = window.page.map, numbers = Array.from(x, (_, node) => node);
    const apart = (node, other) => other === node ? 9 : Math.hypot(x[other] - x[node], y[other] - y[node]);
    const room = (node) => Math.min(...numbers.map((other) => apart(node, other)));
    const rooms = numbers.map((node) => node < 9 ? 0 : room(node));
    return rooms.indexOf(Math.max(...rooms));
"""
ROWS = """
    const shown = document.querySelectorAll("#rows tbody tr:not(.space)");
    return Array.from(shown, (row) => Array.from(row.cells, (cell) => cell.innerText.trim()));
"""
NAMES = """
    const shown = [...document.querySelectorAll(".map-sheet text")].filter((one) => one.style.display !== "none");
    return shown.map((one) => one.textContent).filter((text) => !/^[0-9]+$/.test(text));  // numbers are suggestions
"""
DRAWN = "return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
PIXEL = """
    const { map: { canvas, gl } } = window.page, [x, y] = arguments, pixel = new Uint8Array(4);
    gl.readPixels(x, canvas.height - 1 - y, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, pixel);
    return Array.from(pixel);
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
    background = Background(ExpectedAccuracy(0.9, (0.8, 0.95), (0.78, 0.96), 40, 5), None, ["income: standardised"])
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
    return browser.run(ROWS)


def point_at_node(browser, node, *, click=False):
    browser.run("page.map.sheet.scrollIntoView({block: 'center'})")
    browser.point_at(*browser.run(WHERE, node), click=click)
    browser.run(DRAWN)


def drawn_edges(browser):
    browser.run(DRAWN)
    return browser.run("return document.querySelector('.bonds').getAttribute('d')")


def rgb(colour):
    return [int(colour[place : place + 2], 16) for place in (1, 3, 5)]


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
    assert page.run("return document.querySelector('.map-hint').hidden")
    point_at_node(page, node)
    hint = page.text(".map-hint")
    probability = small.label_distributions_[node]
    assert hint.startswith(f"customer {node}\n")
    assert f"{small.graph_.class_names[probability.argmax()]}, {100 * probability.max():.0f} %" in hint
    neighbours = neighbours_of(small, node)
    assert f"{len(neighbours)} neighbour" in hint
    assert neighbours[0] in hint
    assert drawn_edges(page).count("M") == len(neighbours)
    page.point_at(5, 5)
    assert page.run("return document.querySelector('.map-hint').hidden")
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


def test_zoom_keeps_selection_and_hint_in_place(page):
    node = page.run(LOOSEST_NODE)
    page.run("page.select(arguments[0])", node)
    for _ in range(3):
        page.click("[data-tool=in]")
    page.run("page.select(arguments[0])", node)
    assert page.run("const { map } = page; return map.view.scale > 4 && map.nearest(map.view.x, map.view.y) >= 0")
    point_at_node(page, node)
    gap = "const { map } = page; return [parseFloat(map.hint.style.left) - map.place(map.pointed)[0]]"
    before = page.run("return page.map.place(arguments[0])", node), page.run(gap)
    page.run("page.map.zoom(1.2)")
    page.run(DRAWN)
    assert page.run("return page.map.place(arguments[0])", node) != before[0]
    assert page.run("return page.map.pointed") == node
    assert page.run(gap) == pytest.approx(before[1], abs=0.1)
    page.click("[data-tool=whole]")
    assert page.run("return page.map.view.scale") == 1


def test_lasso_lists_its_nodes(page, small):
    page.run("page.map.sheet.scrollIntoView({block: 'center'})")
    page.click("[data-tool=lasso]")
    box = "const box = page.map.canvas.getBoundingClientRect(); return [box.left, box.top, box.width, box.height]"
    left, top, width, height = page.run(box)
    right, bottom = left + width / 2, top + height - 5
    page.drag((left + 5, top + 5), (right, top + 5), (right, bottom), (left + 5, bottom))
    inside = page.run("const { x, middle } = page.map; return x.filter((one) => one < middle[0]).length")
    assert 0 < inside < 120
    assert page.text("#found") == f"{inside} of 120 nodes"
    assert page.run("return document.querySelector('svg .lasso').getAttribute('d')").startswith("M")
    page.click("#drop-lasso")
    assert page.text("#found") == "120 nodes"


def test_points_are_selected_by_keyboard(page):
    page.run("page.map.canvas.focus()")
    pressed = []
    for _ in range(2):
        page.press(RIGHT)
        pressed.append(page.run("const { pointed, x } = page.map; return [x[pointed], page.data.ids[pointed]]"))
    (first, _), (second, name) = pressed
    assert first < second
    assert page.text(".map-hint").split("\n")[0] == name
    page.press(ENTER)
    assert page.text("#selected h3") == name
    assert page.run("return document.activeElement.tagName") == "CANVAS"


def test_points_are_filled_hollow_or_ringed(page, small):
    """The pixel at a node: its colour if the prediction is sure, the background if it is in doubt."""
    page.run("page.map.zoom(40)")
    confidence = small.label_distributions_.max(axis=1)
    for node, colour in ((9 + confidence[9:].argmax(), None), (9 + confidence[9:].argmin(), LIGHT["paper"])):
        page.run("const { map } = page; map.look(map.x[arguments[0]], map.y[arguments[0]], 40)", int(node))
        page.run(DRAWN)
        colour = colour or class_colours(3)[0][small.label_distributions_[node].argmax()]
        found = page.run(PIXEL, *map(round, page.run("return page.map.place(arguments[0])", int(node))))
        assert rgb(colour) == found[:3]
    assert confidence.min() < 0.5 < 0.8 <= confidence.max()


def test_map_without_webgl(browser, small_page):
    script = (
        "const { getContext } = HTMLCanvasElement.prototype; HTMLCanvasElement.prototype.getContext = "
        "function (kind, ...options) { return kind === 'webgl2' ? null : getContext.call(this, kind, ...options); };"
    )
    with browser.before_pages(script):
        browser.open(small_page)
        assert "has no WebGL 2" in browser.text(".map-sheet")
        assert len(rows(browser)) > 10
        assert browser.errors() == []


def test_class_names_are_on_the_map(page):
    page.run(DRAWN)
    assert set(page.run(NAMES)) == {"gold", "silver & co", "bronze"}
    assert "in doubt (below 50 %)" in page.text(".map-legend")
    assert "shown" not in page.text(".map-legend")


def test_map_of_a_sample(browser, small, tmp_path, monkeypatch):
    monkeypatch.setattr(fit_page, "MAX_ON_MAP", 100)
    (tmp_path / "sample.html").write_text(fit_html(small))
    browser.open(tmp_path / "sample.html")
    assert "100 of 120 nodes shown" in browser.text(".map-legend")
    # A node outside the sample is drawn between its neighbours.
    browser.run("const { map } = page; map.zoom(60, map.at(0)); map.select(-1, [3, 4])")
    browser.run(DRAWN)
    place = "const { map } = page; return [0, 1].map((axis) => (map.place(3)[axis] + map.place(4)[axis]) / 2)"
    here = browser.run("const { here } = page.map.drawn; return [here.getAttribute('cx'), here.getAttribute('cy')]")
    assert [float(one) for one in here] == pytest.approx(browser.run(place), abs=0.01)
    assert browser.run("const { map } = page, [x, y] = map.place(map.selected); return x > 0 && x < map.width && y > 0")
    assert browser.errors() == []


def test_print_has_every_row_listed(page):
    def pages():
        return page.print().count(b"/Type /Page\n")

    drawn = "return document.querySelectorAll('#rows tbody tr:not(.space)').length"
    page.run(f"addEventListener('beforeprint', () => {{ window.printed = (() => {{ {drawn} }})(); }})")
    before, whole = page.run(drawn), pages()
    assert before < 60
    assert page.run("return window.printed") == 120
    assert page.run(drawn) == before
    page.type("#search", "customer 7")
    assert pages() < whole
    assert page.run("return window.printed") == 11


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
    page.run(DRAWN)
    drawn = page.run("return Array.from(page.map.levelOf)")
    assert sum(level > 0 for level in drawn) == page.run("return page.map.classes.filter((one) => one === 2).length")
    assert page.run(NAMES) == ["bronze"]
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
    browser.run("page.select(0)")
    assert browser.run("return document.documentElement.scrollWidth") <= width
    beyond = browser.run(
        "return Array.from(document.querySelectorAll('main *, header *'))"
        ".filter(one => !one.closest('.rows, .scroll, svg'))"
        ".filter(one => one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML.slice(0, 80))"
    )
    assert beyond == []
    assert browser.run("return document.querySelector('main').clientWidth") > 0.85 * width
    paper = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert paper == "rgb({}, {}, {})".format(*rgb((DARK if dark else LIGHT)["paper"]))
    browser.run(DRAWN)
    drawn = browser.run(
        "const { classes, looks } = page.map, at = 4 * classes.indexOf(1); return [...looks.slice(at, at + 3)]"
    )
    assert rgb(class_colours(3)[dark][1]) == drawn
    assert all(len(row) >= 3 and row[2].endswith("%") for row in rows(browser))


def test_only_visible_rows_are_drawn(browser, large_page):
    assert large_page.stat().st_size < 2_000_000
    browser.show(width=1280)
    browser.open(large_page)
    assert browser.text("#found") == "20000 nodes"
    assert len(rows(browser)) < 60
    browser.run("const frame = document.getElementById('rows'); frame.scrollTop = frame.scrollHeight")
    browser.run(DRAWN)
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
