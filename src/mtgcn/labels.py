"""Label encoding: labels of any type to class codes and class names. Files, arrays and the estimator share it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mtgcn.errors import InputError, check_names, shown
from mtgcn.shapes import Int

UNLABELED = -1  # the code of a node without a label, as in scikit-learn
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")  # 007 is a name
INTEGER_AS_FLOAT = re.compile(r"-?(0|[1-9][0-9]*)\.0")
MISSING_WORDS = frozenset(
    {"", "?", "-", "na", "n/a", "n.a.", "<na>", "#n/a", "nan", "nat", "null", "none", "nil", "missing"}
)


def is_missing(text: str) -> bool:
    """Whether a cell holds a word for a missing value.

    >>> [is_missing(text) for text in ("", " NA ", "?", "0", "Nancy")]
    [True, True, True, False, False]
    """
    return text.strip().casefold() in MISSING_WORDS


def classes_of(texts: Sequence[str], beside: Sequence[str] = ()) -> tuple[Int[np.ndarray, "texts"], tuple[str, ...]]:
    """The class code of each distinct text, and the class names in order.

    Words for a missing value are no class. If every class is a number, classes are sorted by value and `-1` means
    unlabelled, as in scikit-learn; otherwise they are sorted as text, also if one of the existing classes, `beside`, is
    not a number. Names stay as written: `1` and `1.0` are two classes, and `007` is not a number.

    >>> classes_of(["10", "9", "-1", "nan"])
    (array([ 1,  0, -1, -1]), ('9', '10'))
    >>> classes_of(["b", "a", ""])
    (array([ 1,  0, -1]), ('a', 'b'))
    """
    present = {text for text in texts if not is_missing(text)}
    if are_numbers(present) and are_numbers(beside):
        names = tuple(sorted(present - {str(UNLABELED)}, key=lambda text: (float(text), text)))
    else:
        names = tuple(sorted(present))
    check_names(names, "class")
    code_of = {name: code for code, name in enumerate(names)}
    return np.array([code_of.get(text, UNLABELED) for text in texts], dtype=np.int64), names


def are_numbers(names: Iterable[str]) -> bool:
    """Whether all class names are numbers."""
    return all(map(NUMBER.fullmatch, names))


def integer_text(text: str) -> str:
    """A whole number without the `.0` that pandas writes for integers with gaps; any other text unchanged.

    >>> integer_text("2.0"), integer_text("2.5"), integer_text("b")
    ('2', '2.5', 'b')
    """
    return text.partition(".")[0] if INTEGER_AS_FLOAT.fullmatch(text) else text


def class_named(text: str, names: Sequence[str]) -> str:
    """The class that a typed text stands for, beside existing classes `names`.

    >>> class_named("2.0", ["1", "2"]), class_named("2.0", ["2", "b"])
    ('2', '2.0')
    """
    return integer_text(text) if text not in names and are_numbers(names) else text


def encoded_labels(values: Any) -> tuple[Int[np.ndarray, "nodes"], tuple[str, ...]]:
    """Class codes of one label per node, of any type, and the class names. -1, None, NaN and words for a missing value
    are unlabelled.

    >>> encoded_labels(["cat", None, "dog", "cat"])
    (array([ 0, -1,  1,  0]), ('cat', 'dog'))
    """
    given = _one_per_node(values)
    if given.dtype.kind in "biuf":
        distinct, rows = np.unique(given, return_inverse=True)
        codes, names = classes_of([integer_text(str(value)) for value in distinct])
        return codes[rows], names
    is_time = given.dtype.kind in "mM"
    return encoded_texts([_text(value) for value in (given.astype(str) if is_time else given).tolist()])


def encoded_texts(cells: Sequence[str]) -> tuple[Int[np.ndarray, "nodes"], tuple[str, ...]]:
    """`encoded_labels` of texts, one per node."""
    texts = list(dict.fromkeys(cells))
    codes, names = classes_of(texts)
    code_of = dict(zip(texts, codes.tolist(), strict=True))
    return np.array([code_of[cell] for cell in cells], dtype=np.int64), names


def check_classes(names: Sequence[str], where: str) -> None:
    """Reject labels of a single class."""
    if len(names) == 1:
        raise InputError(f"{where} has one class only, {shown(names[0])}; label nodes of at least two classes")


def _one_per_node(values: Any) -> np.ndarray:
    if isinstance(values, list | tuple) and any(isinstance(value, str | bytes) for value in values):
        return np.fromiter(values, dtype=object, count=len(values))  # a text array would be as wide as the longest
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


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise InputError(f"label {value[:60]!r} is not UTF-8; give text or numbers") from None
    if isinstance(value, list | tuple | dict | set | np.ndarray):
        raise InputError(f"label {shown(value)} of a node has several values; give one label per node")
    return "" if value is None or value != value else str(value).strip()
