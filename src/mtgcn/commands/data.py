"""`mtgcn datasets` and `methods`: what there is to classify, and with what."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

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


def methods(
    name: Annotated[str | None, typer.Argument(help="Only this one, with its settings.", metavar="METHOD")] = None,
    as_json: AsJson = False,
) -> None:
    """Every method in a line; of one that is named, all settings with limits and defaults, as --set takes them."""
    from mtgcn.methods import METHODS, method_class, method_title
    from mtgcn.settings import described_settings

    chosen = sorted(METHODS) if name is None else [name]
    described = {one: described_settings(method_class(one)) for one in chosen}
    if as_json:
        content = [
            {"name": one, "title": method_title(one), "settings": [asdict(setting) for setting in settings]}
            for one, settings in described.items()
        ]
        print_json({"methods": content})
        return
    from mtgcn.report.tables import method_table, print_table, setting_table

    if name is None:
        print_table(method_table({one: method_title(one) for one in chosen}))
    else:
        print(method_title(name), "\n")
        print_table(setting_table(described[name]))
