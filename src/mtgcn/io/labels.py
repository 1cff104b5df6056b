"""Labels of any kind as numbers, and the classes they name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from mtgcn.errors import InputError
from mtgcn.io.paths import shown
from mtgcn.io.preprocessing.missing import is_missing
from mtgcn.io.texts import check_names
from mtgcn.shapes import Int

UNKNOWN = -1
WHOLE_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.0*)?")  # as Python or pandas writes it


def classes_of(texts: Sequence[str], beside: Sequence[str] = ()) -> tuple[Int[np.ndarray, "texts"], tuple[str, ...]]:
    """The class of each of some different texts, and the classes' names in order.

    A word for a missing value (empty, NaN, NA, ? and the like) is no class. Whole numbers are sorted as numbers, `1.0`
    is `1`, and `-1` is no class among them; but where one is written as no number is (007, 1_23), all are names. They
    also are where a class that there is already, `beside`, is no number.

    >>> classes_of(["10", "9.0", "-1", "nan"])
    (array([ 1,  0, -1, -1]), ('9', '10'))
    >>> classes_of(["b", "a", ""])
    (array([ 1,  0, -1]), ('a', 'b'))
    """
    present = [text for text in texts if not is_missing(text)]
    numbers = {text: _whole_number(text) for text in present}
    if all(number is not None for number in numbers.values()) and are_numbers(beside):
        order = sorted({number for number in numbers.values() if number is not None and number != UNKNOWN})
        place: dict[int | None, int] = {number: code for code, number in enumerate(order)}
        codes = [place.get(numbers.get(text), UNKNOWN) for text in texts]
        return np.array(codes, dtype=np.int64), tuple(str(number) for number in order)
    names = tuple(sorted(set(present)))
    check_names(names, "class")
    code_of = {name: code for code, name in enumerate(names)}
    return np.array([code_of.get(text, UNKNOWN) for text in texts], dtype=np.int64), names


def are_numbers(names: Sequence[str]) -> bool:
    """Whether the names of classes are whole numbers, all of them."""
    return all(_whole_number(name) is not None for name in names)


def class_named(text: str, names: Sequence[str]) -> str:
    """What a person who types this text calls one of these classes, or a new one beside them.

    >>> class_named("2.0", ["1", "2"]), class_named("2.0", ["2", "b"])
    ('2', '2.0')
    """
    number = _whole_number(text) if are_numbers(names) else None
    return text if number is None else str(number)


def encoded_labels(values: Any) -> tuple[Int[np.ndarray, "nodes"], tuple[str, ...]]:
    """One label per node, of any type: -1, None, NaN and words for a missing value are unknown.

    >>> encoded_labels(["cat", None, "dog", "cat"])
    (array([ 0, -1,  1,  0]), ('cat', 'dog'))
    """
    given = _one_per_node(values)
    if given.dtype.kind in "biuf":
        different, rows = np.unique(given, return_inverse=True)
        codes, names = classes_of([str(value) for value in different])
        return codes[rows], names
    times = given.dtype.kind in "mM"
    cells = [_text(value) for value in (given.astype(str) if times else given).tolist()]
    texts = list(dict.fromkeys(cells))
    codes, names = classes_of(texts)
    code_of = dict(zip(texts, codes.tolist(), strict=True))
    return np.array([code_of[cell] for cell in cells], dtype=np.int64), names


def _one_per_node(values: Any) -> np.ndarray:
    if isinstance(values, list | tuple) and any(isinstance(value, str | bytes) for value in values):
        return np.fromiter(values, dtype=object, count=len(values))  # of texts, it would be as wide as the longest
    try:
        given = np.asarray(values)
    except ValueError:  # rows of different length
        raise InputError("labels are lists of different length; give one label per node") from None
    if given.ndim == 2 and given.shape[1] == 1:
        given = given[:, 0]
    if given.ndim != 1:
        raise InputError(f"labels of shape {given.shape}; give one label per node")
    if given.dtype.kind in "cV":
        raise InputError(f"labels of type {given.dtype}; give numbers or text")
    return given


def check_classes(names: Sequence[str], where: str) -> None:
    """Complain of labels that leave nothing to learn."""
    if len(names) == 1:
        raise InputError(f"{where} knows one class only, {shown(names[0])}; label nodes of at least two classes")


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise InputError(f"label {value[:60]!r} is bytes that are no UTF-8; give text or numbers") from None
    if isinstance(value, list | tuple | dict | set | np.ndarray):
        raise InputError(f"label {shown(value)} of a node is several values; give one label per node")
    return "" if value is None or value != value else str(value).strip()


def _whole_number(text: str) -> int | None:
    number = int(text.split(".")[0]) if WHOLE_NUMBER.fullmatch(text) else None
    return None if number is None or abs(number) >= 2**53 else number
