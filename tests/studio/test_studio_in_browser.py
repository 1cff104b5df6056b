"""The studio as a person has it: a real server, a real browser, a keyboard; and a power cut."""

import csv
import io
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from browser import chromium
from mtgcn.datasets import load
from studio_server import environment, studio

pytestmark = pytest.mark.long

NODE = "return document.querySelector('[data-node]')?.dataset.node"
ANOTHER_NODE = "return document.querySelector('[data-node]')?.dataset.node !== arguments[0]"
PILL = "return document.querySelector('#pill').innerText"
STATE_IS = f"return ({PILL.removeprefix('return ')}).startsWith(arguments[0])"
PATIENCE = 240  # seconds that a teaching may take where others use the machine too
WHERE = """
    const map = window.studioMap, canvas = map.$refs.canvas, box = canvas.getBoundingClientRect();
    const [x, y] = map.place(arguments[0]), shrink = box.width / canvas.width;
    return [box.left + x * shrink, box.top + y * shrink];
"""
COLOURED_PIXELS = """
    const canvas = document.querySelector(".map-frame canvas");
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    let count = 0;
    for (let at = 0; at < data.length; at += 4) {
        const [red, green, blue, alpha] = data.slice(at, at + 4);
        count += alpha > 200 && Math.max(red, green, blue) - Math.min(red, green, blue) > 60;
    }
    return count;
"""
ARROW_LEFT, ARROW_RIGHT, TAB = "\ue012", "\ue014", "\ue004"


@pytest.fixture(scope="module")
def browser():
    with chromium() as session:
        yield session


@pytest.fixture(scope="module")
def digits():
    """The digit that each picture shows, by the id of its node."""
    graph = load("digits")
    return dict(zip(map(str, graph.node_ids.tolist()), graph.labels.tolist(), strict=True))


def labels_of(folder):
    with (folder / "mtgcn-studio" / "labels.csv").open(encoding="utf-8", newline="") as file:
        return {row["id"]: row["label"] for row in csv.DictReader(file)}


def shown_node(browser):
    return browser.wait_until(NODE)


def label_by_key(browser, digits, count):
    """Answer the queue truly, so many times: class 0 has the key 1, and class 9 the key 0."""
    for _ in range(count):
        node = shown_node(browser)
        browser.press(str((digits[node] + 1) % 10))
        browser.wait_until(ANOTHER_NODE, node)


def wait_for_model(browser):
    browser.wait_until(STATE_IS, "Up to date", seconds=PATIENCE)


def go(browser, view):
    browser.click(f"[data-view={view}]")


def label_on_the_map(browser, digits, place):
    """Click at a node, and say what the one that is then shown is: one lies above another here and there."""
    before = shown_node(browser)
    browser.point_at(*browser.run(WHERE, place), click=True)
    browser.wait_until(ANOTHER_NODE, before)
    label_by_key(browser, digits, 1)


def write_by_hand(folder, digits, per_class):
    """Add to the file what makes so many labels of each class, as an editor would."""
    labels = labels_of(folder)
    for node, digit in digits.items():
        if list(labels.values()).count(str(digit)) < per_class:
            labels.setdefault(node, str(digit))
    lines = "".join(f"{node},{label}\n" for node, label in labels.items())
    (folder / "mtgcn-studio" / "labels.csv").write_text(f"id,label\n{lines}", encoding="utf-8")


def map_state(browser):
    """What the map's own script holds."""
    return browser.run(
        "const s = window.studioMap.own.state;"
        "return {predicted: Array.from(s.predicted), given: Array.from(s.given), chosen: s.chosen, frames: s.frames}"
    )


def test_from_no_label_to_a_model_and_through_a_power_cut(browser, digits, tmp_path):
    with studio(tmp_path, "--dataset", "digits") as running:
        browser.show(width=1280)
        browser.visit(running.address)
        # Ten classes by ten keys.
        while len(set(labels_of(tmp_path).values())) < 10:
            label_by_key(browser, digits, 1)
            assert len(labels_of(tmp_path)) < 60, "the queue does not find the classes"
        given = labels_of(tmp_path)
        assert all(int(label) == digits[node] for node, label in given.items())
        # It begins to teach by itself; labelling goes on meanwhile.
        browser.wait_until(STATE_IS, "Teaching")
        label_by_key(browser, digits, 2)
        label_on_the_map(browser, digits, 1500)
        assert len(labels_of(tmp_path)) == len(given) + 3
        browser.wait_until("return !document.querySelector('#pill').innerText.startsWith('Teaching')", seconds=PATIENCE)
        # With five labels of each class, most of them written by hand, the accuracy can be told.
        write_by_hand(tmp_path, digits, per_class=5)
        given = labels_of(tmp_path)
        browser.wait_until(STATE_IS, "Teaching")
        wait_for_model(browser)
        go(browser, "teaching")
        assert "expected accuracy, between" in browser.text("#teaching")
        assert f"for {len(given)} labels" in browser.text("#teaching")
        # The map has what was learned, and the canvas its colours.
        go(browser, "label")
        drawn = map_state(browser)
        truth = np.array(list(digits.values()))
        assert np.mean(np.array(drawn["predicted"]) == truth) > 0.8
        assert sum(drawn["given"]) == len(given)
        browser.wait_until(
            "const map = studioMap; return map.$refs.canvas.width > 100 && !map.own.state.frame"
        )  # drawn
        assert browser.run(COLOURED_PIXELS) > 1000
        # One back, then a look at everything again.
        node = shown_node(browser)
        label_by_key(browser, digits, 1)
        assert len(labels_of(tmp_path)) == len(given) + 1
        browser.press("u")
        browser.wait_until("return document.querySelector('[data-node]').dataset.node === arguments[0]", node)
        assert labels_of(tmp_path) == given
        browser.reload()
        browser.wait_until(
            "return document.querySelector('#labels')?.innerText === arguments[0]", f"{len(given)} labels"
        )
        wait_for_model(browser)
        browser.wait_until("return window.studioMap?.own.state.predicted")
        assert np.mean(np.array(map_state(browser)["predicted"]) == truth) > 0.8
        predictions, archive = (
            running.ask(path, running.opened)[2] for path in ("/export/predictions.csv", "/export/model.zip")
        )
        assert browser.errors() == []
        # The power goes in the middle of teaching.
        label_by_key(browser, digits, 5)
        browser.wait_until(STATE_IS, "Teaching")
        before = labels_of(tmp_path)
        running.kill()
    assert labels_of(tmp_path) == before
    with studio(tmp_path) as again:
        browser.visit(again.address)
        browser.wait_until(
            "return document.querySelector('#labels')?.innerText === arguments[0]", f"{len(before)} labels"
        )
        browser.wait_until("return window.studioMap?.own.state.predicted")
        drawn = map_state(browser)
        assert sum(drawn["given"]) == len(before)
        assert np.mean(np.array(drawn["predicted"]) == truth) > 0.8  # the model before is still there
        browser.errors()  # the browser missed the server that was killed
    # What was taken away is a model like any other.
    zipfile.ZipFile(io.BytesIO(archive)).extractall(tmp_path / "taken")
    command = [sys.executable, "-m", "mtgcn", "predict", "taken/model", "--out", "again.csv"]
    subprocess.run(command, cwd=tmp_path, env=environment(tmp_path / "home"), check=True, capture_output=True)
    assert (tmp_path / "again.csv").read_bytes() == predictions
    rows = list(csv.DictReader(io.StringIO(predictions.decode())))
    assert len(rows) == len(digits)
    assert np.mean([int(row["predicted"]) == digits[row["id"]] for row in rows]) > 0.8
