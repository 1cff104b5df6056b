"""The page of comparisons: everything on it, nothing from elsewhere, whatever methods are called."""

import re
from html.parser import HTMLParser

from mtgcn.report.comparison_page import comparison_page

VOID = {"meta"}


class Checked(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attributes):
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def assert_whole(page):
    checked = Checked()
    checked.feed(page)
    assert checked.open == []
    assert not re.search(r"(?:src|href)\s*=\s*[\"']?(?:http|//)", page)  # it needs nothing but itself


def test_a_comparison_stands_on_one_page(compared):
    notes = ["2 edges were listed twice"]
    page = comparison_page([compared()], command="mtgcn compare --edges edges_1.csv", notes=notes)
    assert_whole(page)
    assert "<h1>Methods compared on edges_1.csv</h1>" in page
    assert "<code>mtgcn compare --edges edges_1.csv</code>" in page
    assert "<li>2 edges were listed twice</li>" in page
    assert "120 nodes, 300 edges, 5 features, 3 classes; 100 nodes scored in a run" in page
    assert re.search(r'class="cell-start best">70\.0<span class="range">70\.0 to 70\.0', page)
    assert "−20.0" in page
    assert "<dd>alpha=1</dd>" in page
    assert "my_gcn &lt;b&gt;" in page
    assert "my_gcn <b>" not in page
    assert "Warning" not in page
    assert "Accuracy against label rate" not in page


def test_few_scored_nodes_are_warned_of_on_the_page(compared):
    assert "<strong>Warning:</strong> a run is scored on 9 nodes" in comparison_page([compared(scored=9)])


def test_a_method_alone_has_no_differences(compared):
    page = comparison_page([compared((("lp", 0.5),))])
    assert_whole(page)
    assert "<h1>lp measured on edges_1.csv</h1>" in page
    assert "minus" not in page


def test_several_label_rates_are_drawn_together(compared):
    page = comparison_page([compared(), compared(labels_per_class=20)])
    assert_whole(page)
    assert "Accuracy on edges_1.csv against labels per class" in page
    assert len(re.findall(r"<h2>edges_1\.csv, ", page)) == 2
