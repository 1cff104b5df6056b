"""`mtgcn datasets`, `methods` and `cache`: what is available and what is stored."""

from __future__ import annotations

from dataclasses import asdict

import typer

from mtgcn.cli import options as cli


def datasets(
    name: str | None = typer.Argument(
        None, help="Only this dataset, with all its statistics.", metavar="DATASET", autocompletion=cli.dataset_names
    ),
    as_json: bool = cli.AS_JSON,
) -> None:
    """List graphs and tables with the statistics of the paper's table 1 and where they are cached. Without a name
    nothing is downloaded."""
    from mtgcn import datasets as known
    from mtgcn.datasets import catalogue

    if name is not None:
        known.load(name)
    asked = list(known.NAMES) if name is None else [name]
    descriptions = [known.describe(one) for one in asked if known.where(one)]
    absent = [one for one in asked if not known.where(one)]
    if as_json:
        cli.print_json({"datasets": [asdict(description) for description in descriptions], "absent": absent})
        return
    from mtgcn.report.tables import Table, print_table

    if name is not None:
        [one] = descriptions
        facts = {
            "nodes": one.nodes,
            "edges listed": f"{one.edges_listed}, with repeated edges and self-loops, as in the paper",
            "edges": f"{one.edges} between two different nodes, each once",
            "self-loops": one.self_loops,
            "classes": one.classes,
            "features": one.features,
            "components": one.components,
            "nodes without a label": one.nodes_without_label,
            "repeated nodes": f"{one.repeated_nodes} with the neighbours and the class of an earlier node",
            "location": one.location or "not cached",
        }
        cli.show(name, "")
        print_table(Table.of_text(["", ""], [(fact, str(value)) for fact, value in facts.items()], prose=True))
        return
    columns = ["name", "nodes", "edges_listed", "edges", "classes", "features"]
    groups = dict.fromkeys(known.NAMES, "graph") | dict.fromkeys(catalogue.TABLES, "table")
    groups |= dict.fromkeys(catalogue.FINAL_TABLES, "table for final figures")
    for group in dict.fromkeys(groups.values()):
        rows = [[str(getattr(one, name)) for name in columns] for one in descriptions if groups[one.name] == group]
        if rows:
            print_table(Table.of_text([group, *(column.replace("_", " ") for column in columns[1:])], rows))
            cli.show("")
    for folder in dict.fromkeys(description.location for description in descriptions):
        names = ", ".join(description.name for description in descriptions if description.location == folder)
        cli.show(f"{names}: in {folder}")
    if absent:
        cli.show(f"{', '.join(absent)}: not here; fetched when first used")


def cache(
    clear: bool = cli.flag("Remove stored encoders; datasets stay.", "--clear"), as_json: bool = cli.AS_JSON
) -> None:
    """Show the cache of trained encoders, or clear it. Above its limit, the least recently used ones are removed."""
    from mtgcn.memory import readable
    from mtgcn.storage.cache import MAX_CACHE_BYTES, cache_folder, stored_arrays, trim_cache

    removed = trim_cache(0) if clear else 0
    stored = stored_arrays()
    size, folder = sum(stored.values()), cache_folder()
    content = {"folder": folder, "files": len(stored), "bytes": size, "limit": MAX_CACHE_BYTES, "removed": removed}
    line = f"{folder}: {len(stored)} stored encoders, {readable(size)} of at most {readable(MAX_CACHE_BYTES)}"
    cli.print_result(content, [f"removed {removed} stored encoders"] * clear + [line], as_json)


def methods(
    name: str | None = typer.Argument(
        None, help="Only this method, with its settings.", metavar="METHOD", autocompletion=cli.method_names
    ),
    as_json: bool = cli.AS_JSON,
) -> None:
    """List the methods with the names of their settings; for a named method, all settings with limits, defaults and
    meaning, as accepted by --set. module:Class is a user-defined method."""
    from mtgcn.methods import METHODS, method_title, typed_method_class
    from mtgcn.settings import described_settings

    chosen = sorted(METHODS) if name is None else [name]
    described = {one: described_settings(typed_method_class(one)) for one in chosen}
    titles = {one: method_title(one) for one in chosen}
    if as_json:
        content = [
            {"name": one, "title": titles[one], "settings": [asdict(setting) for setting in settings]}
            for one, settings in described.items()
        ]
        cli.print_json({"methods": content})
        return
    from mtgcn.report.tables import Table, print_table

    if name is None:
        rows = [(one, titles[one], ", ".join(setting.name for setting in described[one])) for one in chosen]
        print_table(Table.of_text(["method", "description", "settings"], rows, prose=True))
        cli.show("", "mtgcn methods NAME describes the settings of a method; --set KEY=VALUE changes them.")
    else:
        cli.show(titles[name], "")
        limits = [(one.name, one.default, one.limits, one.meaning) for one in described[name]]
        print_table(Table.of_text(["setting", "default", "limits", "meaning"], limits, prose=True))
