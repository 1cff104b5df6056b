"""The page in a real browser: files of one's own, classes, two windows, any screen, a keyboard alone, many nodes."""

import numpy as np
import pytest

from browser import chromium
from mtgcn.datasets import load
from mtgcn.io.options import TableOptions
from mtgcn.studio.project import Project
from mtgcn.studio.server import leading_to
from mtgcn.studio.teaching import Teaching
from studio_server import studio

pytestmark = pytest.mark.long

NASTY = "<img src=x onerror=alert(1)>"
NODE = "return document.querySelector('[data-node]')?.dataset.node"
ANOTHER_NODE = "return document.querySelector('[data-node]')?.dataset.node !== arguments[0]"
LABELS = "return document.querySelector('#labels')?.innerText === arguments[0]"
TELLS = "return document.querySelector('.telling:not(.hidden)')?.innerText.includes(arguments[0])"
ENTER, TAB, LEFT, RIGHT, HOME = "\ue007", "\ue004", "\ue012", "\ue014", "\ue011"
# Of every text that is seen: its contrast with what is behind it, as the WCAG reckons; what is disabled is exempt.
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
BEYOND_THE_SCREEN = """
    return Array.from(document.querySelectorAll(".studio *"))
        .filter((one) => one.getClientRects().length && !one.closest("svg, .scroll, .tabs, .unseen"))
        .filter((one) => one.getBoundingClientRect().right > innerWidth + 1 || one.getBoundingClientRect().left < -1)
        .map((one) => one.outerHTML.slice(0, 80));
"""


@pytest.fixture(scope="module")
def browser():
    with chromium() as session:
        yield session


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """A studio whose project has digits, two labels of each and a small model."""
    folder = tmp_path_factory.mktemp("taught")
    project = Project.open(folder / "mtgcn-studio")
    project.load_dataset("digits")
    graph = load("digits")
    for number in range(10):
        for node in np.flatnonzero(graph.labels == number)[:2].tolist():
            project.label(str(node), graph.class_names[number])
    teaching = Teaching(project, method="mt-gcn")
    teaching.start()
    assert teaching.wait(240).state == "done"
    teaching.close()
    with studio(folder) as running:
        yield running


@pytest.fixture
def page(browser, taught):
    browser.show(width=1280)
    browser.visit("about:blank")
    browser.errors()  # of another page, whose server has ended
    browser.visit(taught.address)
    browser.wait_until(NODE)
    browser.wait_until("return window.studioMap?.own.state.predicted")
    return browser


def go(browser, view):
    browser.click(f"[data-view={view}]")
    browser.wait_until("return document.querySelector(`[data-view=${arguments[0]}]`).ariaCurrent === 'page'", view)


def change(browser, selector, value):
    browser.run(
        "const one = document.querySelector(arguments[0]); one.value = arguments[1];"
        "one.dispatchEvent(new Event('change', {bubbles: true}))",
        selector,
        value,
    )


def test_files_of_ones_own_are_read_with_their_flaws_and_labelled_by_click(browser, tmp_path):
    people = [NASTY, *(f"person {number}" for number in range(1, 40))]
    edges = [(people[one], people[other]) for one in range(40) for other in (one + 1, one + 2, one + 5) if other < 40]
    lines = [f"{one};{other}\n" for one, other in edges]
    (tmp_path / "edges.csv").write_text(
        "from;to\n" + "".join(lines) + lines[3] + "person 7;person 7\n", encoding="utf-8"
    )
    ages = [f"{name};{20 + number if number % 9 else ''}\n" for number, name in enumerate(people)]
    (tmp_path / "nodes.csv").write_text("id;age\n" + "".join(ages), encoding="utf-8")
    (tmp_path / "broken.csv").write_text("from;to\nperson 1\n", encoding="utf-8")
    with studio(tmp_path, "--project", "mine") as running:
        browser.show(width=1280)
        browser.visit(running.address)
        browser.wait_until("return document.querySelectorAll('.file input').length === 4")
        browser.click("#data .main")
        assert browser.wait_until(TELLS, "No file is chosen yet")
        for place, name in ((1, "broken.csv"), (2, "nodes.csv")):
            browser.choose_file(f".file:nth-child({place}) input", tmp_path / name)
        browser.wait_until("return document.querySelectorAll('.file')[1].innerText.includes('ready')")
        browser.click("#data .main")
        assert browser.wait_until(TELLS, "broken.csv")
        browser.choose_file(".file:nth-child(1) input", tmp_path / "edges.csv")
        browser.choose_file(".file:nth-child(2) input", tmp_path / "nodes.csv")
        browser.wait_until("return document.querySelector('.file').innerText.includes('ready')")
        browser.click("#data .main")
        browser.wait_until(NODE)
        go(browser, "data")
        summary = browser.text("#data")
        assert "edges.csv" in summary
        assert "40\nnodes" in summary
        assert sorted(path.name for path in (tmp_path / "mine" / "files").rglob("*.csv")) == ["edges.csv", "nodes.csv"]
        # Classes: added, renamed, merged, and taken back.
        for name in (NASTY, "old", "yuong", "spare"):
            browser.type("#new-class", name + ENTER)
            browser.wait_until("return !!document.querySelector(`[data-class='${CSS.escape(arguments[0])}']`)", name)
        change(browser, "input[data-class=yuong]", "young")
        browser.wait_until("return document.querySelector('input[data-class=young]')")
        change(browser, "select[aria-label*=spare]", "old")
        browser.wait_until("return !document.querySelector('input[data-class=spare]')")
        go(browser, "label")
        assert browser.texts("#queue .classes .name") == [NASTY, "old", "young"]
        # By click, skipped, back, forth and undone.
        first = browser.run(NODE)
        browser.click("#queue [data-class=young]")
        browser.wait_until(ANOTHER_NODE, first)
        second = browser.run(NODE)
        browser.press("s")
        browser.wait_until(ANOTHER_NODE, second)
        browser.press(LEFT)
        browser.wait_until("return document.querySelector('[data-node]').dataset.node === arguments[0]", second)
        browser.press(RIGHT)
        browser.wait_until(ANOTHER_NODE, second)
        labels = tmp_path / "mine" / "labels.csv"
        assert labels.read_text(encoding="utf-8") == f"id,label\n{first},young\n"
        browser.press("u")
        browser.press("u")
        browser.wait_until(LABELS, "0 labels")
        assert labels.read_text(encoding="utf-8") == "id,label\n"
        # Names are texts, wherever they stand.
        browser.run("window.studioMap.$emit('node', 0)")
        browser.wait_until("return document.querySelector('#queue h2').innerText === arguments[0]", NASTY)
        assert "20" not in browser.text("#queue .facts")  # it has no age
        assert browser.run("return document.querySelectorAll('.studio img').length") == 0
        assert [error for error in browser.errors() if "413" not in error] == []
    assert (tmp_path / "errors.txt").read_text(encoding="utf-8") == ""


def test_two_windows_see_each_other_and_take_back_only_their_own(page, taught):
    with chromium() as other:
        other.show(width=1280)
        other.visit(taught.address)
        other.wait_until(NODE)
        count = int(page.text("#labels").split()[0])
        page.wait_until("return document.querySelector('#pill').innerText === 'Up to date'", seconds=120)
        other.run("window.studioMap.$emit('node', 1700)")
        other.wait_until("return document.querySelector('[data-node]').dataset.node === '1700'")
        first = page.run(NODE)
        page.press("1")
        page.wait_until(ANOTHER_NODE, first)
        other.press("2")
        for window in (page, other):
            window.wait_until(LABELS, f"{count + 2} labels")
        page.press("u")
        other.wait_until(LABELS, f"{count + 1} labels")
        page.press("u")
        assert page.wait_until(TELLS, "Nothing that was done in this window")
        assert page.text("#labels") == f"{count + 1} labels"
        other.press("u")
        for window in (page, other):
            window.wait_until(LABELS, f"{count} labels")


def test_a_key_pressed_twice_labels_no_node_that_nobody_saw(page):
    count = int(page.text("#labels").split()[0])
    node = page.run(NODE)
    page.press("3", "4")  # faster than any answer
    page.wait_until(ANOTHER_NODE, node)
    page.wait_until(LABELS, f"{count + 1} labels")
    page.press("u")
    page.press("u")
    page.wait_until(LABELS, f"{count} labels")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_every_view_fits_every_screen_and_can_be_read(page, width, dark):
    page.show(width=width, dark=dark)
    for view in ("label", "teaching", "books", "data"):
        go(page, view)
        page.wait_until(
            "return document.querySelector(`#${arguments[0]}`)?.innerText", {"label": "around"}.get(view, view)
        )
        assert page.run("return document.documentElement.scrollWidth") <= width, view
        assert page.run(BEYOND_THE_SCREEN) == [], view
        assert page.run(POOR_CONTRAST) == [], view
    page.show(width=1280)


def test_everything_is_reached_and_done_by_the_keyboard(page):
    page.run("document.activeElement.blur()")
    reached = []
    for _ in range(40):
        page.press(TAB)
        reached.append(page.run("return document.activeElement.innerText || document.activeElement.tagName"))
        seen = page.run("const s = getComputedStyle(document.activeElement); return [s.outlineStyle, s.outlineWidth]")
        assert seen == ["solid", "3px"], reached[-1]
    text = " ".join(reached).replace("\n", " ")
    assert all(
        name in text for name in ("Label", "Teaching", "Books", "Data", "Previous", "Skip", "Undo", "Next", "CANVAS")
    )
    # The map by its keys, which label nothing.
    count = page.text("#labels")
    page.run("document.querySelector('.map-frame canvas').focus()")
    page.press("+", "+", RIGHT)
    page.wait_until("const {view} = window.studioMap.own.state; return view.scale > 1.9 && view.x > 0.5")
    page.press(HOME)
    page.wait_until("const {view} = window.studioMap.own.state; return view.scale === 1 && view.x === 0.5")
    assert page.text("#labels") == count
    # A class by Enter; the focus stays for the next node.
    node = page.run(NODE)
    page.run("document.querySelector('#queue .classes button').focus()")
    page.press(ENTER)
    page.wait_until(ANOTHER_NODE, node)
    assert page.run("return document.activeElement.dataset.class") == "0"
    page.press("u")
    page.wait_until(LABELS, count)


def test_teaching_is_begun_watched_and_stopped(page):
    go(page, "teaching")
    page.click("#teaching .main")
    page.wait_until("return document.querySelector('#pill').innerText.startsWith('Teaching')")
    page.wait_until("return document.querySelectorAll('#teaching .curves polyline').length", seconds=120)
    assert page.run("return Number(document.querySelector('#teaching [role=progressbar]').ariaValueNow)") >= 0
    page.click("#teaching .row button:nth-child(2)")
    page.wait_until("return document.querySelector('#teaching').innerText.includes('the model before is still there')")
    assert page.text("#pill") == "Up to date"


def test_a_browser_is_led_there_by_a_page_on_disk(browser, taught, tmp_path):
    with leading_to(taught.address, tmp_path / "open.html") as leading:
        browser.open(leading)
        browser.wait_until(NODE)
    assert browser.run("return location.href") == f"{taught.served.origin}/"


def test_nothing_is_asked_of_anybody_else(page, taught):
    asked = page.run("return performance.getEntriesByType('resource').map((one) => one.name)")
    assert asked
    assert all(address.startswith((taught.served.origin, "data:")) for address in asked)
    assert page.errors() == []


def test_20_000_nodes_are_one_canvas_that_follows_the_pointer(browser, tmp_path):
    count = 20_000
    random = np.random.default_rng(0)
    ends = np.column_stack([np.repeat(np.arange(count), 3), random.integers(0, 40, 3 * count)])
    ends[:, 1] = (ends[:, 0] // 2500) * 2500 + (ends[:, 0] * 7 + ends[:, 1] * 61) % 2500  # eight crowds
    np.savetxt(tmp_path / "edges.csv", ends, fmt="%d", delimiter=",", header="source,target", comments="")
    project = Project.open(tmp_path / "mtgcn-studio")
    project.load_files(TableOptions(edges=tmp_path / "edges.csv"))
    with studio(tmp_path) as running:
        browser.show(width=1280)
        browser.visit(running.address)
        browser.wait_until("return window.studioMap?.own.state.predicted", seconds=240)
        assert browser.run("return window.studioMap.own.state.xs.length") == count
        assert browser.run("return document.querySelectorAll('canvas').length") == 1
        assert browser.run("return document.querySelectorAll('*').length") < 1500
        browser.run("window.studioMap.zoom(4)")
        frames = browser.run("return window.studioMap.own.state.frames")
        before = browser.run("return window.studioMap.own.state.view.x")
        browser.drag((640, 400), (540, 380))
        browser.wait_until("return window.studioMap.own.state.frames > arguments[0]", frames)
        assert browser.run("return window.studioMap.own.state.view.x") > before
        assert browser.errors() == []
