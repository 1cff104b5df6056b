"""What is wrong with a file: faults of one kind are told together, how many there are and where the first stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mtgcn.errors import InputError

PLACES_NAMED = 3


@dataclass(frozen=True)
class FaultKind:
    """Faults that are told and mended alike."""

    what: str  # "values are not numbers", after their number
    remedy: str


class Faults:
    """The faults found in a file so far. One is told at length; of several, how many there are and the first places."""

    def __init__(self, title: str) -> None:
        self._title = title  # of the file
        self._counts: dict[FaultKind, int] = {}
        self._places: dict[FaultKind, list[str]] = {}
        self._alone: dict[FaultKind, str] = {}

    def __bool__(self) -> bool:
        return bool(self._counts)

    def add(self, kind: FaultKind, alone: str, places: Sequence[str], count: int | None = None) -> None:
        """Faults at these places, of which the first few will do where `count` tells how many; `alone` is what to say
        if there is but the first of them."""
        self._alone.setdefault(kind, alone)
        self._counts[kind] = self._counts.get(kind, 0) + (len(places) if count is None else count)
        known = self._places.setdefault(kind, [])
        known.extend(places[: PLACES_NAMED - len(known)])

    def raise_first_kind(self) -> None:
        """Complain of all faults of the kind that was found first, if there is any."""
        for kind, count in self._counts.items():
            if count == 1:
                raise InputError(self._alone[kind])
            more = ", …" if count > PLACES_NAMED else ""
            places = ", ".join(self._places[kind])
            raise InputError(f"{self._title}: {count} {kind.what} ({places}{more}); {kind.remedy}")
