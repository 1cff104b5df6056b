"""Where a person has been in the queue: back and forth as in a browser, and at the end whoever is asked for next."""

from __future__ import annotations

from collections.abc import Container, Iterable


class Trail:
    """The nodes that one window has come by, and the one it shows.

    >>> trail = Trail()
    >>> trail.forward(["a", "b"]), trail.forward(["a", "b"]), trail.back()
    ('a', 'b', 'a')
    """

    def __init__(self) -> None:
        self._nodes: list[str] = []
        self._place = -1

    @property
    def node(self) -> str | None:
        """The one that is shown."""
        return self._nodes[self._place] if self._nodes else None

    def go(self, node: str) -> None:
        """Show a node that nobody asked for; the way back is kept."""
        if node != self.node:
            self._nodes.append(node)
            self._place = len(self._nodes) - 1

    def back(self) -> str | None:
        self._place = max(self._place - 1, min(0, len(self._nodes) - 1))
        return self.node

    def forward(self, queue: Iterable[str], done: Container[str] = ()) -> str | None:
        """Along the way that was gone before, and beyond its end to the first of the queue that was not shown yet and
        is not done; None, and no step, where there is none."""
        if self._place < len(self._nodes) - 1:
            self._place += 1
            return self.node
        shown = set(self._nodes)
        node = next((one for one in queue if one not in shown and one not in done), None)
        if node is not None:
            self.go(node)
        return node

    def forget(self) -> None:
        """Begin anew, with another graph."""
        self._nodes.clear()
        self._place = -1
