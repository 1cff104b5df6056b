"""Parses an HTML page strictly, for tests of pages."""

from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "input", "link"}


class HtmlPage(HTMLParser):
    """Every element must be closed in order; collects tags, ids, links, text and the rows of tables."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.ids, self.links, self.texts, self.rows = [], [], [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append(tag)
        self.links += [attributes[name] for name in ("href", "src", "xlink:href") if name in attributes]
        self.ids += [attributes["id"]] if "id" in attributes else []
        if tag == "tr":
            self.rows.append([])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert "svg" in self.open, f"<{tag}/> is not HTML"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.texts.append(data)
            if "tr" in self.open and data.strip():
                self.rows[-1].append(data.strip())

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def assert_self_contained(self):
        assert not {"link", "img", "iframe", "object", "use"} & set(self.tags)
        assert all(link.startswith("#") and link[1:] in self.ids for link in self.links)
        assert len(self.ids) == len(set(self.ids))
