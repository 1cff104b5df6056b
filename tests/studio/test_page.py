"""The studio in a real browser: every start, files, classes, windows, screens, keyboard, many nodes, and a kill."""

import csv
import io
import json
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from browser import chromium
from mtgcn import MutualTeachingClassifier, read_graph
from mtgcn.datasets import load
from mtgcn.studio.fitting import FitOptions, fit_project
from mtgcn.studio.project import Project
from mtgcn.studio.server import redirect_page
from studio_server import studio

pytestmark = pytest.mark.long

FIT_SECONDS = 240  # upper limit on a busy machine
NASTY = "<img src=x onerror=alert(1)>"
WRONG = "20"
ENTER, TAB, LEFT, RIGHT, HOME = "\ue007", "\ue004", "\ue012", "\ue014", "\ue011"
# Scripts for the browser.
NODE = "return document.querySelector('[data-node]')?.dataset.node"
SHOWS = "return document.querySelector('[data-node]')?.dataset.node === arguments[0]"
SHOWS_ANOTHER = "return document.querySelector('[data-node]')?.dataset.node !== arguments[0]"
LABELS = "return document.querySelector('#labels')?.innerText === arguments[0]"
HAS_MESSAGE = """
    const shown = Array.from(document.querySelectorAll(".q-notification__message"), (one) => one.innerText);
    return shown.find((text) => text.includes(arguments[0]));
"""
HAS_STATE = "return document.querySelector('#pill').innerText.startsWith(arguments[0])"
HAS_MAP = "return window.studioMap?.classes"
MAP_STATE = """
    const { classes, labelled } = window.studioMap;
    return { classes: Array.from(classes), labelled: Array.from(labelled) };
"""
POSITION = """
    const map = window.studioMap, box = map.canvas.getBoundingClientRect(), [x, y] = map.place(arguments[0]);
    return [box.left + x, box.top + y];
"""
HINT = """
    const hint = document.querySelector(".map-hint");
    return !hint.hidden && hint.querySelector("b").innerText;
"""
# Visible texts with a contrast below the 4.5 of the WCAG; disabled elements are exempt.
POOR_CONTRAST = """
    const part = (value) => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    const light = ([red, green, blue]) => 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
    const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const behind = (one) => {
        for (; one; one = one.parentElement) {
            const colour = numbers(getComputedStyle(one).backgroundColor);
            if (colour.length < 4 || colour[3] > 0) return colour;
        }
        return [255, 255, 255];
    };
    const found = [];
    for (const one of document.querySelectorAll(".studio *")) {
        const own = Array.from(one.childNodes).some((child) => child.nodeType === 3 && child.textContent.trim());
        if (!own || one.closest(":disabled, option, .unseen") || !one.getClientRects().length) continue;
        const style = getComputedStyle(one), ink = one.closest("svg") ? style.fill : style.color;
        const [high, low] = [light(numbers(ink)), light(numbers(getComputedStyle(one).color && behind(one).join(",")))]
            .sort((first, second) => second - first);
        if ((high + 0.05) / (low + 0.05) < 4.5) found.push([one.outerHTML.slice(0, 80), (high + 0.05) / (low + 0.05)]);
    }
    return found;
"""
OUTSIDE_THE_SCREEN = """
    return Array.from(document.querySelectorAll(".studio *"))
        .filter((one) => one.getClientRects().length && !one.closest("svg, .scroll, .tabs, .unseen, .grid"))
        .filter((one) => one.getBoundingClientRect().right > innerWidth + 1 || one.getBoundingClientRect().left < -1)
        .map((one) => one.outerHTML.slice(0, 80));
"""


@pytest.fixture(scope="module")
def browser():
    with chromium() as session:
        yield session


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A studio with digits, two labels per class, a wrong one, and a model."""
    folder = tmp_path_factory.mktemp("fitted")
    project = Project(folder / "mtgcn-studio")
    project.load_dataset("digits")
    graph = load("digits")
    for number in range(10):
        for node in np.flatnonzero(graph.labels == number)[:2].tolist():
            project.label(str(node), graph.class_names[number])
    project.label(WRONG, "4")  # it is a 0
    fit_project(project, FitOptions("mt-gcn"))
    with studio(folder) as running:
        yield running


@pytest.fixture
def page(browser, fitted):
    visit(browser, fitted.address)
    browser.wait_until(NODE)
    browser.wait_until(HAS_MAP)
    return browser


def visit(browser, address):
    """Open a page and forget the log of earlier servers."""
    browser.show(width=1280)
    browser.visit("about:blank")
    browser.errors()
    browser.visit(address)


@contextmanager
def shown(browser, folder, *options, **settings):
    """A studio whose page is open; neither may report an error unless the test expects it."""
    with studio(folder, *options, **settings) as running:
        visit(browser, running.address)
        yield running
        assert browser.errors() == []
    if not settings:
        assert (folder / "errors.txt").read_text(encoding="utf-8") == ""


def go(browser, view):
    browser.click(f"[data-view={view}]")
    browser.wait_until("return document.querySelector(`[data-view=${arguments[0]}]`).ariaCurrent === 'page'", view)


def choose(browser, role, path):
    """Choose a file and wait until it is uploaded."""
    browser.wait_until("return document.querySelectorAll('.q-uploader input').length === 4")
    browser.choose_file(f".{role} input", path)
    uploaded = "return document.querySelector(arguments[0]).innerText.includes(arguments[1])"
    browser.wait_until(uploaded, f".{role}", path.name)


def change(browser, selector, value):
    browser.run(
        "const one = document.querySelector(arguments[0]); one.value = arguments[1];"
        "one.dispatchEvent(new Event('change', {bubbles: true}))",
        selector,
        value,
    )


def test_own_files_classes_and_labels_by_click(browser, tmp_path):
    people = [NASTY, *(f"person {number}" for number in range(1, 40))]
    lines = [f"{one};{other}\n" for one, other in pairwise(people)]
    (tmp_path / "edges.csv").write_text("from;to\n" + "".join(lines), encoding="utf-8")
    ages = [f"{name};{20 + number if number % 9 else ''}\n" for number, name in enumerate(people)]
    (tmp_path / "nodes.csv").write_text("id;age\n" + "".join(ages), encoding="utf-8")
    (tmp_path / "broken.csv").write_text("from;to\nperson 1\n", encoding="utf-8")
    with shown(browser, tmp_path, "--project", "mine"):
        browser.wait_until("return document.querySelector('#data .main')")
        assert browser.run("return document.documentElement.lang") == "en-US"
        browser.click("#data .main")
        assert browser.wait_until(HAS_MESSAGE, "No file is chosen")
        for role, name in (("edges", "broken.csv"), ("nodes", "nodes.csv")):
            choose(browser, role, tmp_path / name)
        browser.click("#data .main")
        assert browser.wait_until(HAS_MESSAGE, "broken.csv")
        choose(browser, "edges", tmp_path / "edges.csv")
        browser.click("#data .main")
        browser.wait_until(NODE)
        assert browser.run("return document.activeElement.innerText") == "Label"  # where the focus moves
        go(browser, "data")
        summary = browser.text("#data")
        assert "edges.csv" in summary
        assert "40\nnodes" in summary
        assert sorted(path.name for path in (tmp_path / "mine" / "files").rglob("*.csv")) == ["edges.csv", "nodes.csv"]
        # Classes: added, renamed and merged.
        for name in (NASTY, "old", "yuong", "spare"):
            browser.type("#new-class", name + ENTER)
            browser.wait_until("return !!document.querySelector(`[data-class='${CSS.escape(arguments[0])}']`)", name)
        change(browser, "input[data-class=yuong]", "young")
        browser.wait_until("return document.querySelector('input[data-class=young]')")
        change(browser, "select[aria-label*=spare]", "into old")
        browser.wait_until("return !document.querySelector('input[data-class=spare]')")
        browser.click("[aria-label='Move class young up']")
        browser.wait_until("return document.querySelectorAll('input[data-class]')[1].value === 'young'")
        assert browser.run("return document.activeElement.ariaLabel") == "Move class young up"  # the focus is kept
        change(browser, "select[aria-label*=old]", "delete")
        browser.wait_until("return !document.querySelector('input[data-class=old]')")
        go(browser, "label")
        assert browser.texts("#queue .classes .name") == [NASTY, "young"]
        browser.press("u")
        browser.wait_until("return document.querySelectorAll('#queue .classes .name').length === 3")
        # Label by click, skip, go back and forth, undo.
        first = browser.run(NODE)
        browser.click("#queue [data-class=young]")
        browser.wait_until(SHOWS_ANOTHER, first)
        second = browser.run(NODE)
        browser.press("s")
        browser.wait_until(SHOWS_ANOTHER, second)
        browser.press(LEFT)
        browser.wait_until(SHOWS, second)
        browser.press(RIGHT)
        browser.wait_until(SHOWS_ANOTHER, second)
        labels = tmp_path / "mine" / "labels.csv"
        assert labels.read_text(encoding="utf-8") == f"id,label\n{first},young\n"
        browser.press("u")
        browser.press("u")
        browser.wait_until(LABELS, "0 labels")
        assert labels.read_text(encoding="utf-8") == "id,label\n"
        # Names are never parsed as HTML.
        browser.run("window.studioMap.onNode(0)")
        browser.wait_until("return document.querySelector('#queue h2').innerText === arguments[0]", NASTY)
        assert not browser.texts("#queue .facts")  # it has no age
        assert browser.run("return document.querySelectorAll('.studio img').length") == 0
        # Labels of a file.
        (tmp_path / "more.csv").write_text("id,label\nperson 1,old\n", encoding="utf-8")
        go(browser, "data")
        browser.choose_file(".import input", tmp_path / "more.csv")
        browser.wait_until(LABELS, "1 label")


COLUMNS = ("title", "about", "pages", "cover", "link", "flavour", "shelf")


@pytest.fixture
def books(tmp_path):
    """A table without ids: names, texts, pictures, links, and two columns that may be the target."""
    folder = tmp_path / "books"
    (folder / "covers").mkdir(parents=True)
    random = np.random.default_rng(0)
    topics, rows = {"novel": "love murder family", "cookbook": "pasta oven butter"}, []
    for number in range(60):
        genre = list(topics)[number % 2]
        Image.new("RGB", (4, 4), (number, 90, 90)).save(folder / "covers" / f"{number}.png")
        about = " ".join(random.choice(topics[genre].split(), 30))
        cover = "../secret.png" if number == 7 else f"covers/{number}.png"
        known = (genre, "AB"[number // 2 % 2]) if number < 20 else ("", "")
        rows.append((f"Book {number}", about, 100 + 7 * number, cover, f"https://example.org/{number}", *known))
    Image.new("RGB", (4, 4)).save(tmp_path / "secret.png")
    with (folder / "books.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    return folder / "books.csv"


def test_import_step_names_and_evidence(browser, books, tmp_path):
    with shown(browser, tmp_path) as running:
        choose(browser, "nodes", books)
        browser.wait_until("return document.querySelectorAll('#import-step tbody tr').length === 10")
        roles = browser.run("return Array.from(document.querySelectorAll('[data-column]'), (one) => one.value)")
        assert roles == ["name", "text", "feature", "picture", "ignore", "", ""]
        numbered = "return document.querySelector('#import-step [role=checkbox]').ariaChecked"
        assert browser.run(numbered) == "true"
        browser.click("#data .main")  # a possible target never becomes a feature by itself
        assert browser.wait_until(HAS_MESSAGE, "flavour, shelf may hold the classes; choose a role above")
        change(browser, "[data-column=flavour]", "label")
        change(browser, "[data-column=shelf]", "ignore")
        browser.wait_until("return !document.querySelector('#import-step .note')")
        change(browser, "#import-step input[type=text]", str(tmp_path / "nowhere"))
        browser.click("#data .main")
        assert browser.wait_until(HAS_MESSAGE, "is not a folder")
        change(browser, "#import-step input[type=text]", str(books.parent))
        browser.click("#data .main")
        browser.wait_until(NODE)
        assert browser.texts("#queue .classes .name") == ["cookbook", "novel"]
        # Names instead of ids, and the evidence.
        browser.wait_until(HAS_MAP)
        browser.run("window.studioMap.onNode(30)")
        browser.wait_until("return document.querySelector('#queue h2').innerText === 'Book 30'")
        browser.wait_until("if (studioMap.pointed !== 40) studioMap.point(40);" + HINT)  # the pointer may leave the map
        assert browser.run(HINT) == "Book 40"
        assert browser.wait_until("return document.querySelector('.map-hint img').naturalWidth") == 4
        assert browser.texts("#evidence .node-head .soft") == ["Node 31"]
        assert browser.wait_until("return document.querySelector('#evidence img').naturalWidth === 4")
        link = browser.run("const a = document.querySelector('#evidence a'); return [a.href, a.target, a.rel]")
        assert link == ["https://example.org/30", "_blank", "noopener noreferrer"]
        assert browser.texts("#evidence .facts dt") == ["pages"]
        assert "murder" in browser.text("#evidence .text p")
        names = browser.texts("#around .name")
        assert len(names) > 10
        assert all(name.startswith("Book ") for name in names)
        # Pictures outside the folder are not served.
        browser.run("window.studioMap.onNode(7)")
        browser.wait_until("return document.querySelector('#queue h2').innerText === 'Book 7'")
        assert browser.run("return document.querySelectorAll('#evidence img').length") == 0
        assert running.ask("/picture/1/7/3", running.opened)[0] == 404
        assert running.ask("/picture/1/8/3", running.opened)[0] == 200
        # Other roles, without choosing the file again: the labels stay.
        browser.press("2")
        browser.wait_until(SHOWS_ANOTHER, "8")
        go(browser, "data")
        browser.click("#change-roles")
        browser.wait_until("return document.activeElement.dataset.column === 'title'")
        roles = browser.run("return Array.from(document.querySelectorAll('[data-column]'), (one) => one.value)")
        assert roles == ["name", "text", "feature", "picture", "ignore", "label", "ignore"]
        change(browser, "[data-column=flavour]", "ignore")
        change(browser, "[data-column=shelf]", "label")
        browser.click("#data .main")
        browser.wait_until("return document.querySelectorAll('#queue .classes .name').length === 3")
        assert browser.texts("#queue .classes .name") == ["novel", "A", "B"]
        assert list(labels_of(tmp_path).values()).count("novel") == 1


def test_nodes_view_labels_many_at_once(browser, books, tmp_path):
    with shown(browser, tmp_path, books, "--target", "flavour") as running:
        browser.wait_until(NODE)
        go(browser, "nodes")
        browser.wait_until("return document.querySelectorAll('.grid .ag-row [col-id=title] span').length > 10")
        browser.type("#nodes input[type=search]", "book 41")  # id 41, name Book 41, 415 pages
        browser.wait_until("return document.querySelector('#found').innerText === '3 of 60'")
        browser.type("#nodes input[type=search]", "pasta")
        browser.wait_until("return document.querySelector('#found').innerText === '30 of 60'")
        change(browser, "#nodes [aria-label='Which nodes']", "mine")
        browser.wait_until("return document.querySelector('#found').innerText === '10 of 60'")
        change(browser, "#nodes [aria-label='Which nodes']", "")
        browser.wait_until("return document.querySelectorAll('.grid .ag-checkbox-input').length > 12")
        for row in (10, 11):  # without labels
            browser.click(f".grid [row-index='{row}'] .ag-checkbox-input")
        browser.click("#bulk .main")
        browser.wait_until(LABELS, "22 labels")
        assert list(labels_of(tmp_path).values()).count("cookbook") == 12
        browser.click("#bulk button:nth-of-type(2)")  # all found
        browser.wait_until(LABELS, "40 labels")
        for count in (22, 20):
            browser.click("#bulk button:last-of-type")
            browser.wait_until(LABELS, f"{count} labels")
        # A label in the table, then the node itself.
        browser.run("document.querySelector('.grid [row-index=\"0\"] [col-id=title]').click()")
        browser.wait_until("return document.querySelector('#queue h2').innerText === 'Book 1'")
        browser.press("2")
        browser.wait_until(SHOWS_ANOTHER, "2")
        assert labels_of(tmp_path)["2"] == "novel"
        rows = json.loads(running.ask("/nodes?which=mine&sort=own%20pages&descending=true", running.opened)[2])
        assert [row["own pages"] for row in rows["rows"]][:2] == ["233", "226"]
        assert rows["total"] == 20


def test_replaced_graph_is_kept_and_undo_returns(browser, files, tmp_path):
    with shown(browser, tmp_path, "--edges", files.edges, "--nodes", files.nodes):
        node = browser.wait_until(NODE)
        browser.type("#another-class", "cat" + ENTER)  # adds a class and labels the node
        browser.wait_until(LABELS, "1 label")
        assert labels_of(tmp_path) == {node: "cat"}
        browser.press("1")  # keys are not typed into the field
        browser.wait_until(LABELS, "2 labels")
        browser.press("u")
        browser.wait_until(LABELS, "1 label")
        go(browser, "data")
        browser.click("[data-dataset=digits]")
        browser.wait_until("return document.querySelector('#confirm')")
        browser.run("document.querySelector('.dialog button:nth-of-type(2)').click()")  # while it fades in
        browser.wait_until("return !document.querySelector('#confirm')")
        assert labels_of(tmp_path) == {node: "cat"}
        browser.click("[data-dataset=digits]")
        browser.wait_until("return document.querySelector('#confirm')")
        browser.run("document.querySelector('#confirm').click()")
        browser.wait_until(LABELS, "0 labels")
        browser.wait_until("return document.querySelector('.node-head img')")
        browser.press("u")
        browser.wait_until(LABELS, "1 label")
        assert labels_of(tmp_path) == {node: "cat"}
        go(browser, "data")
        browser.wait_until("return document.querySelector('[data-kept]')?.innerText === 'Open digits, 0 labels'")


def test_open_page_survives_a_restart(browser, files, tmp_path):
    with studio(tmp_path, "--edges", files.edges, "--nodes", files.nodes) as running:
        visit(browser, running.address)
        browser.wait_until(NODE)
        browser.type("#another-class", "cat" + ENTER)
        browser.wait_until(LABELS, "1 label")
        running.kill()
        browser.wait_until("return document.querySelector('#popup').ariaHidden === 'false'")
        popup = browser.run("return document.querySelector('#popup').textContent")
        assert "start it again by the same command" in popup
    with studio(tmp_path) as again:
        assert again.served.port == running.served.port
        browser.wait_until("return document.querySelector('#popup').ariaHidden === 'true'")
        browser.wait_until(NODE)
        browser.wait_until(LABELS, "1 label")
        browser.errors()


def test_practice_score_while_labelling_keeps_the_focus(page, digits):
    page.run("document.querySelector('#line [data-keep=practice]').focus()")
    page.press(ENTER)
    score = "return document.querySelector('#line').innerText.match(/You labelled ([0-9]+), .*accuracy/)?.[1]"
    count = int(page.wait_until(score))
    label_by_key(page, digits, 1)
    page.wait_until(f"{score} === arguments[0]", str(count + 1))
    assert page.run("return document.activeElement.dataset.keep") == "practice"
    page.press("u", ENTER)
    page.wait_until(LABELS, f"{count} labels")


def test_doubted_labels_are_listed_with_the_reason(page):
    go(page, "nodes")
    change(page, "#nodes [aria-label='Which nodes']", "doubted")
    why = "return document.querySelector('.grid [row-index=\"0\"] [col-id=why]')?.innerText"
    assert "predicted as" in page.wait_until(why, seconds=120)
    listed = page.texts(".grid [col-id=title] .ag-cell-value, .grid .ag-cell[col-id=title]")
    assert WRONG in listed
    assert page.text("#found") == f"{len(listed)} of 1,797"


def test_lasso_lists_its_nodes(page):
    page.click("[data-tool=lasso]")
    left, top, width, height = page.run(
        "const b = studioMap.canvas.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]"
    )
    bottom, middle = top + height - 5, left + width / 2
    page.drag((left + 5, top + 5), (middle, top + 5), (middle, bottom), (left + 5, bottom))
    page.wait_until("return document.querySelector('[data-view=nodes]').ariaCurrent === 'page'")
    inside = page.run("const { x, lasso } = studioMap; return x.filter((one) => one < lasso[1][0]).length")
    assert 0 < inside < 1797
    page.wait_until("return document.querySelector('#found').innerText === arguments[0]", f"{inside:,} of 1,797")
    assert page.run("return document.querySelector('#nodes select').value") == "chosen"


def test_two_windows(page, fitted):
    with chromium() as other:
        other.show(width=1280)
        other.visit(fitted.address)
        other.wait_until(NODE)
        count = int(page.text("#labels").split()[0])
        page.wait_until("return document.querySelector('#pill').innerText === 'Up to date'", seconds=120)
        other.run("window.studioMap.onNode(1700)")
        other.wait_until("return document.querySelector('[data-node]').dataset.node === '1700'")
        first = page.run(NODE)
        page.press("1")
        page.wait_until(SHOWS_ANOTHER, first)
        other.press("2")
        for window in (page, other):
            window.wait_until(LABELS, f"{count + 2} labels")
        page.press("u")
        other.wait_until(LABELS, f"{count + 1} labels")
        page.press("u")
        assert page.wait_until(HAS_MESSAGE, "This window has no change to undo")
        assert page.text("#labels") == f"{count + 1} labels"
        other.press("u")
        for window in (page, other):
            window.wait_until(LABELS, f"{count} labels")


def test_key_pressed_twice_labels_one_node(page):
    count = int(page.text("#labels").split()[0])
    node = page.run(NODE)
    page.press("3", "4")  # before the page changes
    page.wait_until(SHOWS_ANOTHER, node)
    page.wait_until(LABELS, f"{count + 1} labels")
    page.press("u")
    page.press("u")
    page.wait_until(LABELS, f"{count} labels")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_every_view_fits_the_screen_with_contrast(page, width, dark):
    page.show(width=width, dark=dark)
    for view in ("label", "nodes", "model", "data"):
        go(page, view)
        part = "around" if view == "label" else view
        page.wait_until("return document.querySelector(`#${arguments[0]}`)?.innerText", part)
        assert page.run("return document.documentElement.scrollWidth") <= width, view
        assert page.run(OUTSIDE_THE_SCREEN) == [], view
        assert page.run(POOR_CONTRAST) == [], view
    page.show(width=1280)


def test_keyboard_alone(page):
    page.run("document.activeElement.blur()")
    reached = []
    for _ in range(40):
        page.press(TAB)
        reached.append(page.run("return document.activeElement.innerText || document.activeElement.tagName"))
        seen = page.run("const s = getComputedStyle(document.activeElement); return [s.outlineStyle, s.outlineWidth]")
        assert seen == ["solid", "3px"], reached[-1]
    text = " ".join(reached).replace("\n", " ")
    assert all(name in text for name in ("Label", "Model", "Data", "Previous", "Skip", "Undo", "Next", "CANVAS"))
    # Keys of the map do not label.
    count = page.text("#labels")
    page.run("window.studioMap.canvas.focus()")
    page.press("+", "+")
    page.wait_until("return window.studioMap.view.scale > 1.9")
    page.press(HOME)
    page.wait_until("const {view} = window.studioMap; return view.scale === 1 && view.x === 0.5")
    # Arrow keys point at the next node, Enter shows it.
    node = page.run(NODE)
    page.press(LEFT)
    pointed = page.wait_until(HINT)
    assert page.wait_until("return document.querySelector('.map-hint img').naturalWidth") == 8
    assert pointed != node
    page.press(ENTER)
    page.wait_until(SHOWS, pointed)
    assert page.run("return document.activeElement.tagName") == "CANVAS"
    assert page.text("#labels") == count
    # Enter on a class labels; the focus stays.
    node = page.run(NODE)
    page.run("document.querySelector('#queue .classes button').focus()")
    page.press(ENTER)
    page.wait_until(SHOWS_ANOTHER, node)
    assert page.run("return document.activeElement.dataset.class") == "0"
    page.press("u")
    page.wait_until(LABELS, count)


def test_fit_is_started_shown_and_stopped(page):
    go(page, "model")
    page.click("#model .main")
    page.wait_until(HAS_STATE, "Teaching")
    assert page.run("return document.activeElement.innerText") == "Stop"  # the focus is kept
    page.wait_until("return Number(document.querySelector('#model [role=progressbar]').ariaValueNow) > 0", seconds=120)
    page.click("#model .main")
    page.wait_until("return document.querySelector('#model').innerText.includes('the previous model is kept')")
    assert page.text("#pill") == "Up to date"


def test_redirect_page_opens_the_studio(browser, fitted, tmp_path):
    with redirect_page(fitted.address, tmp_path / "open.html") as redirect:
        browser.open(redirect)
        browser.wait_until(NODE)
    assert browser.run("return location.href") == f"{fitted.served.origin}/"


def test_class_is_explained(page, fitted):
    page.click("[data-keep=explain]")
    page.wait_until("return document.querySelector('#explanation')", seconds=60)
    [sentence] = page.texts("#explanation")
    assert " is " in sentence
    assert "neighbours" in sentence
    titles = page.texts("#around table th")[-2:]
    assert titles in (["neighbours", "nearest labelled"], ["columns", "labels"])  # of mt-gcn; of mt-plus after a refit
    assert page.run("return document.querySelectorAll('#around td > div').length") >= 2  # a bar for each part


def test_no_request_to_other_hosts(page, fitted):
    asked = page.run("return performance.getEntriesByType('resource').map((one) => one.name)")
    assert asked
    assert all(address.startswith((fitted.served.origin, "data:")) for address in asked)
    assert page.errors() == []


def test_map_is_one_canvas_that_is_dragged(page):
    assert page.run("return document.querySelectorAll('canvas').length") == 1
    assert page.run("return document.querySelectorAll('*').length") < 1500  # whatever the number of nodes
    page.run("window.studioMap.zoom(4)")
    before = page.run("return window.studioMap.view.x")
    page.drag((640, 400), (540, 380))
    page.wait_until("return window.studioMap.view.x > arguments[0]", before)


@pytest.mark.parametrize("start", ["empty", "model", "table"])  # others start with --edges and --dataset
def test_documented_start_shows_a_node(browser, files, tmp_path, start):
    options = {"empty": [], "model": ["model"], "table": [files.nodes]}[start]
    if start == "model":
        (tmp_path / "labels.csv").write_text("id,label\nn0,a\nn1,b\nn3,a\nn4,b\n")
        graph = read_graph(files.edges, nodes=files.nodes, labels=tmp_path / "labels.csv")
        model = MutualTeachingClassifier("gcn", settings={"epochs": 2}, random_state=0)
        model.fit_graph(graph).save(tmp_path / "model")
    with shown(browser, tmp_path, *options):
        if start == "empty":
            browser.wait_until("return document.querySelectorAll('[data-dataset]').length")
            browser.click("[data-dataset=digits]")
        browser.wait_until(NODE, seconds=120)
        browser.wait_until(HAS_MAP, seconds=120)
        browser.wait_until("return document.querySelector('#around').innerText")
        assert not browser.texts(".q-notification__message")


@pytest.mark.parametrize(
    "broken",
    [
        "mtgcn.studio.nodes:Nodes.queue",  # in the loop of the server
        "mtgcn.studio.nodes:Nodes.view",  # while a node is shown
        "mtgcn.studio.data_view:DataView._draw_summary",  # while a view is drawn
        "mtgcn.studio.data_view:DataView._receive",  # in an event
    ],
)
def test_unexpected_error_is_one_line_with_a_way_on(browser, files, tmp_path, broken):
    with shown(browser, tmp_path, "--edges", files.edges, "--nodes", files.nodes, broken=broken):
        browser.wait_until("return document.querySelector('[data-view=data]')")
        go(browser, "data")
        if broken.endswith("_receive"):
            browser.choose_file(".nodes input", files.nodes)
        line = browser.wait_until(HAS_MESSAGE, "Unexpected error (ZeroDivisionError: division by zero). Your labels")
        assert line.endswith("Continue, or reload the page; details are in the log.")
        assert "\n" not in line
        browser.type("#new-class", "cat" + ENTER)  # the page still works
        browser.wait_until("return document.querySelector('input[data-class=cat]')")
    assert (tmp_path / "errors.txt").read_text(encoding="utf-8").count("ZeroDivisionError: division by zero") <= 3


@pytest.fixture(scope="module")
def digits():
    """The class of each node by its id."""
    graph = load("digits")
    return dict(zip(map(str, graph.node_ids.tolist()), graph.labels.tolist(), strict=True))


def labels_of(folder):
    with (folder / "mtgcn-studio" / "labels.csv").open(encoding="utf-8", newline="") as file:
        return {row["id"]: row["label"] for row in csv.DictReader(file)}


def label_by_key(browser, digits, count):
    """Label `count` nodes correctly; a class that is a digit has its own key."""
    for _ in range(count):
        node = browser.wait_until(NODE)
        browser.press(str(digits[node]))
        browser.wait_until(SHOWS_ANOTHER, node)


def test_from_no_labels_to_a_model_and_after_a_kill(browser, digits, tmp_path):
    with studio(tmp_path, "--dataset", "digits") as running:
        visit(browser, running.address)
        while len(set(labels_of(tmp_path).values())) < 10:
            label_by_key(browser, digits, 1)
            assert len(labels_of(tmp_path)) < 60, "the queue does not find the classes"
        given = labels_of(tmp_path)
        # An automatic fit starts while labelling continues.
        browser.wait_until(HAS_STATE, "Teaching")
        label_by_key(browser, digits, 2)
        before = browser.wait_until(NODE)
        browser.point_at(*browser.run(POSITION, 1500), click=True)  # or a node that overlaps it
        browser.wait_until(SHOWS_ANOTHER, before)
        label_by_key(browser, digits, 1)
        assert len(labels_of(tmp_path)) == len(given) + 3
        taught = "return !document.querySelector('#pill').innerText.startsWith('Teaching')"
        browser.wait_until(taught, seconds=FIT_SECONDS)
        # With five labels per class, most written by hand, the accuracy is measured.
        given = labels_of(tmp_path)
        for node, digit in digits.items():
            if list(given.values()).count(str(digit)) < 5:
                given.setdefault(node, str(digit))
        lines = "".join(f"{node},{label}\n" for node, label in given.items())
        (tmp_path / "mtgcn-studio" / "labels.csv").write_text(f"id,label\n{lines}", encoding="utf-8")
        browser.wait_until(HAS_STATE, "Teaching")
        browser.wait_until(HAS_STATE, "Up to date", seconds=FIT_SECONDS)
        go(browser, "model")
        assert "expected accuracy, between" in browser.text("#model")
        assert f"for {len(given)} labels" in browser.text("#model")
        # The map shows the predictions.
        go(browser, "label")
        drawn = browser.run(MAP_STATE)
        truth = np.array(list(digits.values()))
        assert np.mean(np.array(drawn["classes"]) == truth) > 0.8
        assert sum(drawn["labelled"]) == len(given)
        node = browser.wait_until(NODE)
        label_by_key(browser, digits, 1)
        assert len(labels_of(tmp_path)) == len(given) + 1
        browser.press("u")
        browser.wait_until(SHOWS, node)
        assert labels_of(tmp_path) == given
        browser.wait_until(HAS_STATE, "Up to date", seconds=FIT_SECONDS)
        predictions = running.ask("/export/predictions.csv", running.opened)[2]
        assert browser.errors() == []
        # Kill the server during a fit.
        label_by_key(browser, digits, 5)
        browser.wait_until(HAS_STATE, "Teaching")
        before = labels_of(tmp_path)
        running.kill()
    assert labels_of(tmp_path) == before
    with studio(tmp_path) as again:
        browser.visit(again.address)
        browser.wait_until(LABELS, f"{len(before)} labels")
        browser.wait_until(HAS_MAP)
        drawn = browser.run(MAP_STATE)
        assert sum(drawn["labelled"]) == len(before)
        assert np.mean(np.array(drawn["classes"]) == truth) > 0.8  # the previous model is kept
        browser.errors()  # of the killed server
    rows = list(csv.DictReader(io.StringIO(predictions.decode())))
    assert len(rows) == len(digits)
    assert np.mean([int(row["predicted"]) == digits[row["id"]] for row in rows]) > 0.8
