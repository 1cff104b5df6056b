"""`python -m fuzz`: the attack on one surface or all, and a table of what came of it."""

from __future__ import annotations

import argparse
import sys

from fuzz.attack import SURFACES, Outcome, Task, attacked


def main() -> int:
    """0 if nothing broke."""
    arguments = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    arguments.add_argument("--surface", choices=SURFACES, action="append", help="only this one; may be repeated")
    arguments.add_argument("--seconds", type=float, default=600, help="for all surfaces together")
    arguments.add_argument("--seed", type=int, default=0, help="decides which cases are drawn")
    arguments.add_argument("--case", type=int, help="this one alone, of one surface")
    given = arguments.parse_args()
    surfaces = given.surface or SURFACES
    if given.case is not None and len(surfaces) > 1:
        arguments.error("--case needs --surface")
    outcomes = []
    for surface in surfaces:
        task = Task(surface, given.seed, seconds=given.seconds / len(surfaces), only=given.case)
        outcomes += attacked([task])
        _tell_breaks(outcomes[-1])
        print(f"{surface}: {outcomes[-1].tried} cases, {len(outcomes[-1].breaks)} breaks", file=sys.stderr, flush=True)
    print(table(outcomes))
    return int(any(outcome.breaks for outcome in outcomes))


def table(outcomes: list[Outcome]) -> str:
    """The outcomes in Markdown."""
    lines = ["| surface | cases tried | answered | refused in a line | breaks |", "| --- | --- | --- | --- | --- |"]
    for one in outcomes:
        refused = one.tried - one.answered - len(one.breaks)
        lines.append(f"| {one.surface} | {one.tried} | {one.answered} | {refused} | {len(one.breaks)} |")
    return "\n".join(lines)


def _tell_breaks(outcome: Outcome) -> None:
    for title, what in outcome.breaks:
        print(f"BREAK {title}\n{what}\n", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
