"""The options for files, declared once for every command that reads a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, get_type_hints

from mtgcn.cli.options import (
    Columns,
    Edges,
    Exclude,
    Features,
    GraphFile,
    Header,
    Knn,
    Labels,
    Metric,
    Nodes,
    UnknownNodes,
    listed,
)

if TYPE_CHECKING:
    from mtgcn.io.options import TableOptions

FILES = "files"  # the parameter of a command that is replaced by these options


@dataclass(frozen=True)
class FileOptions:
    """The options for files, with help and defaults."""

    edges: Edges = None
    nodes: Nodes = None
    labels: Labels = None
    graph: GraphFile = None
    knn: Knn = None
    metric: Metric = "euclidean"
    columns: Columns = None
    features: Features = None
    exclude: Exclude = None
    unknown_nodes: UnknownNodes = "error"
    header: Header = None

    def files(self) -> TableOptions:
        """The same as `TableOptions`, which checks them."""
        from mtgcn.io.options import TableOptions, parsed_columns

        columns, kinds = parsed_columns(self.columns or ())
        texts = {
            "columns": columns,
            "kinds": kinds,
            "features": None if self.features is None else listed(self.features, "features"),
            "exclude": () if self.exclude is None else listed(self.exclude, "exclude"),
        }
        return TableOptions(**vars(self) | texts)


def takes_graph_files(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter `files: TableOptions` of a command by the options of these names, or by all.

        @takes_graph_files()
        def fit(out: Out, files: TableOptions, seed: Seed = 0) -> None: ...

    Called from Python, the command takes the options by name, as typer passes them.
    """
    hints = get_type_hints(FileOptions, include_extras=True)
    options = [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])
        for field in fields(FileOptions)
        if field.name in names or not names
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def with_options(**given: Any) -> None:
            chosen = {option.name: given.pop(option.name) for option in options if option.name in given}
            command(**given, **{FILES: FileOptions(**chosen).files()})

        # Importing `TableOptions` would import numpy for every --help.
        written = signature(command, locals={"TableOptions": object}, eval_str=True)
        parameters: list[Parameter] = []
        for parameter in written.parameters.values():
            own = parameter.replace(kind=Parameter.KEYWORD_ONLY)
            parameters += options if parameter.name == FILES else [own]
        with_options.__name__, with_options.__doc__ = command.__name__, command.__doc__
        with_options.__module__, with_options.__qualname__ = command.__module__, command.__qualname__
        with_options.__signature__ = written.replace(parameters=parameters)  # type: ignore[attr-defined]
        with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return with_options

    return decorate
