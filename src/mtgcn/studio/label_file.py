"""`labels.csv`: what a person said of which node, as `mtgcn fit --labels` reads it; it may be edited by hand."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mtgcn.errors import InputError, check_names, shown
from mtgcn.io.options import TableOptions
from mtgcn.io.read import read_labels
from mtgcn.labels import UNLABELED, class_named, classes_of, is_missing

HEADER = ("id", "label")


def read_label_file(path: Path, ids: Sequence[str]) -> dict[str, str]:
    """The label of each node that has one, in the order of the nodes; read by the same reader as everywhere."""
    codes, names = read_labels(path, np.array(ids, dtype=object), TableOptions(few_labels=True))
    return {ids[node]: names[codes[node]] for node in np.flatnonzero(codes != UNLABELED).tolist()}


def label_table(labels: Mapping[str, str]) -> bytes:
    """The content of the file."""
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(HEADER)
    table.writerows(labels.items())
    return text.getvalue().encode("utf-8", "surrogateescape")


def checked_class(name: str, known: Sequence[str] = ()) -> str:
    """A class as it is written to the file, so that whoever reads it reads the same class again.

    >>> checked_class(" cat "), checked_class("2.0")
    ('cat', '2')
    """
    name = class_named(" ".join(name.split()), ())
    check_names([name], "class")
    if is_missing(name) or name == str(UNLABELED):
        raise InputError(f"class {shown(name)} is a word for no label; call it otherwise")
    if not name.isprintable():
        raise InputError(f"class {shown(name)} holds a control character; call it otherwise")
    if len(classes_of([*known, name])[1]) < len({*known, name}):
        raise InputError(f"class {shown(name)} reads like another class; call it otherwise")
    return name
