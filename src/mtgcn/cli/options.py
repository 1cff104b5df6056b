"""Options that several commands share, groups of options, shell completion, and how commands print."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass
from functools import update_wrapper
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints, overload

import typer
from typer.models import ParameterInfo

from mtgcn.errors import InputError, printable

if TYPE_CHECKING:
    from mtgcn.io.options import TableOptions

QUIET: ContextVar[bool] = ContextVar("quiet", default=False)


def option(
    text: str,
    metavar: str,
    *names: str,
    default: Any = None,
    shown: str | bool = True,
    complete: Callable[[str], list[str]] | None = None,
) -> Any:
    """A typer option: help text, metavar, names, its default, and the default shown in the help."""
    return typer.Option(default, *names, help=text, metavar=metavar, show_default=shown, autocompletion=complete)


def flag(text: str, *names: str) -> Any:
    """An option without a value: help text and names."""
    return option(text, "", *names, default=False)


SEED = option("Seed of the splits and of all randomness in the methods.", "N", default=0)
DEVICE = option("Device to compute on; auto uses a GPU if available.", "auto|cpu|cuda", default="auto")
SCORE = option(
    "Score to compare; the last two need two classes, and the rarer one is the positive class.",
    "accuracy|balanced-accuracy|macro-f1|roc-auc|average-precision",
    default="accuracy",
)
AS_JSON = flag("Print one JSON object and nothing else.", "--json")
SETTINGS = option("A setting of the method, see mtgcn methods NAME; may be repeated.", "KEY=VALUE", "--set")
COLUMNS = option(
    "The role of a column (id, label or name of rows; source, target or weight of edges; id=none numbers the rows) or "
    "its kind (number, category, date, text, picture, feature for any of these, or ignore). May be repeated.",
    "ROLE|KIND=NAME",
    "--column",
)
HEADER = option("Whether the first line of a table names the columns.", "yes|no", shown="detected")


class OptionGroup:
    """Base of dataclasses of options; a field that is not given has the default of its option."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            given = getattr(self, field.name)
            if isinstance(given, ParameterInfo):
                object.__setattr__(self, field.name, given.default)


@dataclass(frozen=True)
class FileOptions(OptionGroup):
    """The files of a graph, for every command that reads one."""

    table: Path | None = typer.Argument(
        None,
        help="A table with one row per node, and an empty target for unknown classes; the same as --nodes. - is "
        "standard input.",
        metavar="TABLE",
        show_default=False,
    )
    target: str | None = option("The class column; the same as --column label=NAME.", "NAME", shown="guessed")
    edges: Path | None = option(
        "Edges, one per line: two node ids and optionally a weight. CSV, Parquet, JSON or mtx.", "FILE"
    )
    nodes: Path | None = option("Nodes: id, features and optionally the label. CSV, Parquet or JSON.", "FILE")
    labels: Path | None = option("Labels of some nodes: id and class. CSV, Parquet or JSON.", "FILE")
    graph: Path | None = option(
        "Everything in one file: GraphML, GML, node-link JSON, npz, mat, mtx, or pt with a PyG Data.", "FILE", "--graph"
    )
    knn: int | None = option("Without edges: link each row to its N nearest neighbours.", "N", shown="10")
    metric: str = option("Distance for --knn.", "euclidean|cosine|…", default="euclidean")
    columns: list[str] | None = COLUMNS
    features: str | None = option("Use only these columns as features.", "NAME,NAME…", shown="all others")
    exclude: str | None = option("Columns that are not features.", "NAME,NAME…", shown="none")
    text_encoder: str = option(
        "Features of text columns: TF-IDF, or a local sentence encoder.", "tfidf|FOLDER|PACKAGE", default="tfidf"
    )
    unknown_nodes: str = option(
        "Edges and labels with ids missing from --nodes: raise an error, drop them, or add the ids as nodes.",
        "error|drop|add",
        default="error",
    )
    header: str | None = HEADER

    def table_options(self) -> TableOptions:
        """These options as checked `TableOptions`."""
        from mtgcn.io.options import TableOptions, parsed_columns

        given = vars(self).copy()
        table, target = given.pop("table"), given.pop("target")
        if table is not None:
            if self.nodes is not None:
                raise InputError(f"{table} and --nodes {self.nodes} are two tables of nodes; give one of them")
            given["nodes"] = table
        columns, kinds = parsed_columns([*(self.columns or ()), *([] if target is None else [f"label={target}"])])
        lists = {"features": listed(self.features, "features"), "exclude": listed(self.exclude, "exclude") or ()}
        return TableOptions(**given | lists | {"columns": columns, "kinds": kinds})


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter that is a dataclass of options by an option per field.

    `files: FileOptions` stands for all its fields, `files: Annotated[FileOptions, "edges", "nodes"]` for these two.
    """
    options: list[Parameter] = []
    groups: dict[str, tuple[Any, list[str]]] = {}
    for parameter in signature(command, eval_str=True).parameters.values():
        kind, *names = get_args(parameter.annotation) or (parameter.annotation,)
        if not is_dataclass(kind):
            options.append(parameter)
            continue
        defaults = {field.name: field.default for field in fields(kind) if not names or field.name in names}
        groups[parameter.name] = kind, list(defaults)
        for name, annotation in get_type_hints(kind).items():
            if name in defaults:
                options.append(parameter.replace(name=name, default=defaults[name], annotation=annotation))

    def run(**given: Any) -> None:
        for name, (kind, names) in groups.items():
            given[name] = kind(**{option: given.pop(option) for option in names})
        command(**given)

    return with_signature(run, command, options)


def with_signature(
    run: Callable[..., None], command: Callable[..., None], options: Iterable[Parameter]
) -> Callable[..., None]:
    """Give a function the name and help of a command, and the signature of these options for typer."""
    update_wrapper(run, command)
    named = [option.replace(kind=Parameter.KEYWORD_ONLY) for option in options]
    run.__signature__ = Signature(named)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in named}
    return run


# Names for shell completion, written out because importing the registries would delay completion. A test compares
# them with the registries.
DATASETS = (
    *("cora", "citeseer", "pubmed", "digits", "amazon-photo", "blogcatalog", "coauthor-cs", "dblp"),
    *("chameleon", "minesweeper", "facebook-pages", "twitch-de", "airports-usa", "fgl", "wine"),
    *("crabs", "survey", "affect", "Pima.te", "pbc", "Salaries", "midwest", "Mode", "breast_cancer", "vote92", "Chile"),
    *("Workinghours", "azpro", "movies", "Computers", "flchain", "Tuna", "rwm5yr"),
)
METHODS = (
    *("appnp", "chebyshev", "co-training", "correct-and-smooth", "deepwalk", "gcn", "gcn+v", "gcnii", "gcnii+v"),
    *("gradient-boosting", "grand", "grand+v", "ica", "iceberg", "iceberg+v", "intersection", "krylov"),
    *("label-spreading", "logistic", "logistic-self", "lp", "m3s", "mani-reg", "mt-gcn", "mt-plus", "multi-stage"),
    *("planetoid", "poisson", "ppr", "ppr-self", "random-forest", "self-training", "semi-emb", "sgc", "sgc-self"),
    *("sklearn-logistic", "sklearn-logistic-self", "union"),
)


def dataset_names(incomplete: str) -> list[str]:
    return [name for name in DATASETS if name.startswith(incomplete)]


def method_names(incomplete: str) -> list[str]:
    return [name for name in METHODS if name.startswith(incomplete)]


def method_lists(incomplete: str) -> list[str]:
    """Completions of the last name in a comma-separated list.

    >>> method_lists("gcn,mt-")
    ['gcn,mt-gcn', 'gcn,mt-plus']
    """
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [f"{before}{comma}{name}" for name in method_names(last) if name not in taken]


def show(*lines: object) -> None:
    """Print lines on standard output."""
    for line in lines:
        print(printable(str(line)))


def remark(message: str) -> None:
    """Print a message on standard error."""
    print("mtgcn:", printable(" ".join(message.split())), file=sys.stderr, flush=True)


def print_json(content: dict[str, Any]) -> None:
    print(json.dumps(content, allow_nan=False, default=str))  # str: paths


def print_result(
    content: dict[str, Any], lines: Iterable[object], as_json: bool, remarks: Iterable[str] = (), written: object = None
) -> None:
    """Print the result of a command as JSON, or as lines of text with remarks on standard error. With --quiet, no text
    is printed about `written` files."""
    if as_json:
        print_json(content)
        return
    for message in remarks:
        remark(message)
    if written is None or not QUIET.get():
        show(*lines)


@overload
def listed(text: str, option: str) -> list[str]: ...
@overload
def listed(text: None, option: str) -> None: ...
def listed(text: str | None, option: str) -> list[str] | None:
    """The parts of a comma-separated list, each of which must occur once; None if it is not given."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise InputError(f"{option} {text!r} has an empty name; remove the extra comma")
    for part in parts:
        if parts.count(part) > 1:
            raise InputError(f"{option} names {part!r} twice; name it once")
    return parts
