"""Label encoding: class codes and class names of labels of any type, from files and arrays."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mtgcn.errors import InputError, check_names, note, shown
from mtgcn.shapes import Int

UNLABELED = -1  # the code of a node without a label, as in scikit-learn
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")  # 007 is a name
INTEGER_AS_FLOAT = re.compile(r"-?(0|[1-9][0-9]*)\.0")
MISSING_WORDS = frozenset(
    {"", "?", "-", "na", "n/a", "n.a.", "<na>", "#n/a", "nan", "nat", "null", "none", "nil", "missing"}
)
MIN_SIGNS = 20  # fewest labels 0 and 1 with which -1 may be a class
QUANTITIES = ((20, 2), (50, 10))  # more distinct numbers with fewer labels each may be quantities


def is_missing(text: str) -> bool:
    """Whether a cell holds a word for a missing value.

    >>> [is_missing(text) for text in ("", " NA ", "?", "0", "Nancy")]
    [True, True, True, False, False]
    """
    return text.strip().casefold() in MISSING_WORDS


def classes_of(
    texts: Sequence[str], known_classes: Sequence[str] = ()
) -> tuple[Int[np.ndarray, "texts"], tuple[str, ...]]:
    """The class code of each distinct text, and the class names in order.

    Words for missing values are unlabelled. If all classes and all `known_classes` are numbers, classes are sorted by
    value, otherwise as text. Names are not changed: `1` and `1.0` are two classes, and `007` is not a number. Names
    that look alike give a note.

    >>> classes_of(["10", "9", "-1", "nan"])
    (array([ 2,  1,  0, -1]), ('-1', '9', '10'))
    >>> classes_of(["b", "a", ""])
    (array([ 1,  0, -1]), ('a', 'b'))
    """
    present = {text for text in texts if not is_missing(text)}
    names = tuple(sorted(present))
    if are_numbers(present) and are_numbers(known_classes):
        names = tuple(sorted(present, key=lambda text: (float(text), text)))
    check_names(names, "class")
    looks: dict[str, str] = {}
    for name in names:
        visible = "".join(one for one in unicodedata.normalize("NFKC", name) if unicodedata.category(one) != "Cf")
        other = looks.setdefault(" ".join(visible.casefold().split()), name)
        if other != name:
            note(f"classes {ascii(other)[:60]} and {ascii(name)[:60]} look alike but are different; use one spelling")
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
    """The class for a text, given the existing classes `names`.

    >>> class_named("2.0", ["1", "2"]), class_named("2.0", ["2", "b"])
    ('2', '2.0')
    """
    return integer_text(text) if text not in names and are_numbers(names) else text


def encoded_labels(values: Any) -> tuple[Int[np.ndarray, "nodes"], tuple[str, ...]]:
    """Class codes and class names of one label per node, of any type. The number -1, None, NaN, masked values and words
    for missing values are unlabelled.

    >>> encoded_labels(["cat", None, "dog", "cat"])
    (array([ 0, -1,  1,  0]), ('cat', 'dog'))
    """
    given = _one_per_node(values)
    if given.dtype.kind in "biuf":
        note_minus_one(given)
        distinct, rows = np.unique(given, return_inverse=True)
        texts = [label_text(value) for value in distinct.tolist()]
    else:
        cells = [label_text(value) for value in (given.astype(str) if given.dtype.kind in "mM" else given).tolist()]
        place = {text: number for number, text in enumerate(dict.fromkeys(cells))}
        texts, rows = list(place), np.array([place[cell] for cell in cells], dtype=np.int64)
    codes, names = classes_of(texts)
    return codes[rows], names


def note_minus_one(given: np.ndarray) -> None:
    """Note if -1, which means unlabelled in arrays as in scikit-learn, seems to be a class."""
    if given.dtype.kind not in "if":
        return
    unlabelled = np.count_nonzero(given == UNLABELED)
    classes = np.unique(given[(given == given) & (given != UNLABELED)])
    both_signs = len(classes) > 0 and classes[0] < 0 < classes[-1]
    is_sign = classes.tolist() in ([1], [0, 1]) and MIN_SIGNS <= len(given) > 2 * unlabelled
    if unlabelled and (both_signs or is_sign):
        note(
            f"-1 means unlabelled, as in scikit-learn ({unlabelled} of {len(given)} labels); "
            "if it is a class, give the labels as text"
        )


def check_classes(names: Sequence[str], where: str) -> None:
    """Reject labels of a single class."""
    if len(names) == 1:
        raise InputError(f"{where} has one class only, {shown(names[0])}; label nodes of at least two classes")


def check_not_regression(names: Sequence[str], labelled: int, where: str) -> None:
    """Reject quantities: many different numbers with gaps or fractions, and few nodes each."""
    if not any(len(names) > max(most, labelled / each) for most, each in QUANTITIES) or not are_numbers(names):
        return
    low, high = min(map(float, names)), max(map(float, names))
    if high - low > 2 * len(names) or any(float(name) % 1 for name in names):
        raise InputError(
            f"{where} has {len(names)} different numbers from {low:g} to {high:g} for {labelled} labelled nodes, as "
            "in regression; group them into classes (or write numbers that are names as text, such as n7)"
        )


def _one_per_node(values: Any) -> np.ndarray:
    if np.ma.isMaskedArray(values):
        values = np.ma.filled(values.astype(object), None)
    if isinstance(values, list | tuple) and any(isinstance(value, str | bytes) for value in values):
        return np.fromiter(values, dtype=object, count=len(values))  # text arrays are as wide as the longest entry
    try:
        given = np.asarray(values)
    except ValueError:  # rows of different length
        raise InputError("labels are lists of different lengths; give one label per node") from None
    if given.ndim == 2 and given.shape[1] == 1:
        given = given[:, 0]
    if given.ndim != 1:
        raise InputError(f"labels of shape {given.shape}; give one label per node")
    if given.dtype.kind in "cV":
        raise InputError(f"labels have type {given.dtype}; give numbers or text")
    return given


def label_text(value: Any) -> str:
    """A label as text; empty if the node is unlabelled."""
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise InputError(f"label {value[:60]!r} is not UTF-8; give text or numbers") from None
    if isinstance(value, list | tuple | dict | set | np.ndarray):
        raise InputError(f"label {shown(value)} of a node has several values; give one label per node")
    if type(value).__name__ in ("NAType", "NaTType"):  # missing values of pandas, recognised without importing it
        return ""
    if value is None or value != value or (value == UNLABELED and not isinstance(value, str)):
        return ""
    return integer_text(str(value)) if isinstance(value, float) else str(value).strip()
