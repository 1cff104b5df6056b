"""Every documented start of the studio shows a node in a real browser."""

import pytest

from browser import chromium
from mtgcn import Graph, MutualTeachingClassifier
from studio_server import studio

pytestmark = pytest.mark.long
NODE = "return document.querySelector('[data-node]')?.dataset.node"
TELLING = "return document.querySelector('.telling:not(.hidden)')?.innerText"


@pytest.fixture(scope="module")
def browser():
    with chromium() as session:
        yield session


@pytest.mark.parametrize("start", ["empty", "model", "files", "dataset"])
def test_documented_start_shows_a_node(browser, files, tmp_path, start):
    options = {
        "empty": [],
        "model": ["model"],
        "files": ["--edges", files.edges, "--nodes", files.nodes],
        "dataset": ["--dataset", "digits"],
    }[start]
    if start == "model":
        (tmp_path / "labels.csv").write_text("id,label\nn0,a\nn1,b\nn3,a\nn4,b\n")
        graph = Graph.from_csv(files.edges, files.nodes, tmp_path / "labels.csv")
        MutualTeachingClassifier("gcn", settings={"epochs": 2}, random_state=0).fit_graph(graph).save(
            tmp_path / "model"
        )
    with studio(tmp_path, *options) as running:
        browser.show(width=1280)
        browser.visit("about:blank")
        browser.errors()  # of the page before, whose server has ended
        browser.visit(running.address)
        if start == "empty":
            browser.wait_until("return document.querySelectorAll('[data-dataset]').length")
            browser.click("[data-dataset=digits]")
        browser.wait_until(NODE, seconds=120)
        browser.wait_until("return window.studioMap?.own.state.predicted", seconds=120)
        browser.wait_until("return document.querySelector('#around').innerText")
        assert browser.run(TELLING) is None
        assert browser.errors() == []
    assert (tmp_path / "errors.txt").read_text(encoding="utf-8") == ""
