"""Around the shown node: its neighbours, what is believed of them, and who taught it to the model."""

from __future__ import annotations

from functools import partial

from mtgcn.studio.answers import NodeAnswer
from mtgcn.studio.components import Neighbourhood
from mtgcn.studio.elements import emptied, swatch, tag
from mtgcn.studio.neighbourhood import Neighbour
from mtgcn.studio.neighbourhood import Neighbourhood as Around
from mtgcn.studio.window import NodeFacts, Window

LONGEST_NAME = 12  # letters beside a point


class AroundPane:
    """Right: the neighbourhood as a picture and as a list, and the story of the node's label."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self._drawn: object = None
        self.pane = tag("section", classes="pane", aria_label="Around the node", id="around")

    def update(self) -> None:
        now = (self.window.facts, self.window.desk.seen)
        if self._drawn != now:
            self._drawn = now
            with emptied(self.pane):
                if self.window.facts is not None:
                    self._draw(self.window.facts)

    def _draw(self, facts: NodeFacts) -> None:
        around = facts.around
        if around is None:
            return
        count = len(around.neighbours) + around.left_out
        tag("h3", f"{count} neighbour{'' if count == 1 else 's'}" if count else "No neighbours")
        if count:
            picture = Neighbourhood(f"{facts.node} and its neighbours", self._pressed)
            picture.show(*self._picture_of(around))
        self._draw_story(facts)
        if count:
            with tag("ul", classes="neighbours"):
                for one in around.neighbours:
                    with tag("li"):
                        self._draw_neighbour(one, facts.pictures.get(one.node))
            if around.left_out:
                tag("p", f"and {around.left_out} more", "soft small")

    def _draw_neighbour(self, one: Neighbour, picture: str | None) -> None:
        made = tag("button", type="button")
        made.on("click", partial(self._show, one.node), [])
        with made:
            if picture is not None:
                tag("img", classes="small-picture", src=picture, alt="")
            swatch(self._number(one))
            tag("span", one.node, "name")
            tag("span", words_of(one), "said")

    def _draw_story(self, facts: NodeFacts) -> None:
        answer, given = facts.answer, self.window.desk.seen.labels.get(facts.node)
        if answer is None:
            return
        with tag("div", classes="stack"):
            tag("h3", "Who taught whom")
            for line in story(answer, given):
                tag("p", line, "small")
            others = {peer: name for peer, name in answer.peers.items() if name != answer.predicted}
            if others:
                with tag("dl", classes="facts"):
                    for peer, name in others.items():
                        tag("dt", peer)
                        tag("dd", f"says {name}")
            around = [] if facts.around is None else facts.around.neighbours
            taught = [one for one in around if one.taught_at is not None and one.given is None]
            if taught:
                first = min(taught, key=lambda one: one.taught_at or 0)
                tag(
                    "p",
                    f"Of its neighbours {len(taught)} became pseudo labels, {first.node} first, in epoch "
                    f"{first.taught_at}; in the picture they have a dashed ring.",
                    "small soft",
                )

    def _number(self, one: Neighbour) -> int | None:
        name, classes = one.given or one.predicted, self.window.desk.seen.classes
        return classes.index(name) if name in classes else None

    def _picture_of(self, around: Around) -> tuple[list[dict[str, object]], list[tuple[int, int]]]:
        """Points and edges as the script draws them; neighbours of one class side by side."""
        ordered = sorted(around.neighbours, key=lambda one: (self._number(one) is None, self._number(one) or 0))
        everybody = [around.middle, *ordered]
        place = {one.node: number for number, one in enumerate(everybody)}
        index = self.window.desk.project.loaded.place
        points: list[dict[str, object]] = [
            {
                "node": index[one.node],
                "class": self._number(one),
                "given": one.given is not None,
                "taught": one.taught_at is not None and one.given is None,
                "short": one.node if len(one.node) <= LONGEST_NAME else one.node[: LONGEST_NAME - 1] + "…",
                "words": f"{one.node}: {words_of(one)}",
            }
            for one in everybody
        ]
        return points, [(place[one], place[other]) for one, other, _ in around.edges if one != other]

    async def _pressed(self, index: int) -> None:
        ids = self.window.desk.project.loaded.ids
        if 0 <= index < len(ids):
            await self._show(ids[index])

    async def _show(self, node: str) -> None:
        await self.window.step(lambda: self.window.show(node))


def words_of(one: Neighbour) -> str:
    """What is said or believed of a neighbour."""
    if one.given is not None:
        return f"{one.given}, as you said"
    if one.predicted is None:
        return "not predicted yet"
    return f"{one.predicted}, {100 * (one.confidence or 0):.0f} %"


def story(answer: NodeAnswer, given: str | None) -> list[str]:
    """How the model came by its answer."""
    lines = []
    if answer.role == "given":
        lines.append("You taught it, and all peers learned from it from the first epoch on.")
    elif answer.taught_at is not None:
        lines.append(
            f"From epoch {answer.taught_at} on peers that were sure of it taught it to the others, as a pseudo label."
        )
    else:
        lines.append("Nobody taught it: the peers tell it from what it is like and from its neighbours.")
    if given is not None and answer.role != "given":
        lines.append("Your label is newer than the model, which will learn it with the next teaching.")
    if len(answer.peers) > 1:
        same = sum(name == answer.predicted for name in answer.peers.values())
        lines.append(
            f"All {len(answer.peers)} peers agree on {answer.predicted}."
            if same == len(answer.peers)
            else f"{same} of {len(answer.peers)} peers say {answer.predicted}; the others:"
        )
    return lines
