"""`mtgcn datasets`: what there is to classify."""

from __future__ import annotations

from dataclasses import asdict

from mtgcn.commands.shared import AsJson, print_json
from mtgcn.errors import InputError


def datasets(as_json: AsJson = False) -> None:
    """The paper's table 1 from the data themselves, and where they lie."""
    from mtgcn.datasets import NAMES, SourceUnreachable, describe

    descriptions, missing = [], []
    for name in NAMES:
        try:
            descriptions.append(describe(name))
        except SourceUnreachable as error:  # what is there is still worth showing
            missing.append(str(error))
    if as_json:
        print_json({"datasets": [asdict(description) for description in descriptions]})
    else:
        from mtgcn.report.tables import dataset_table, print_table

        print_table(dataset_table(descriptions))
    if missing:
        raise InputError("; ".join(missing))
