"""`mtgcn datasets`: what there is to classify."""

from __future__ import annotations

from dataclasses import asdict

from mtgcn.commands.shared import AsJson, print_json


def datasets(as_json: AsJson = False) -> None:
    """The paper's table 1 from the data themselves, other graphs beside it, and where they lie. Fetches nothing."""
    from mtgcn.datasets import NAMES, describe, where

    descriptions = [describe(name) for name in NAMES if where(name)]
    absent = [name for name in NAMES if not where(name)]
    if as_json:
        print_json({"datasets": [asdict(description) for description in descriptions], "absent": absent})
    else:
        from mtgcn.report.tables import dataset_table, print_table

        print_table(dataset_table(descriptions, absent))
