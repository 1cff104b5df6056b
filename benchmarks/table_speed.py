"""What a person with a table waits for: `mtgcn fit TABLE.csv --target class` on mixed columns, the whole command.

    OMP_NUM_THREADS=2 python benchmarks/table_speed.py                     # 54 000 and 100 000 rows
    python benchmarks/table_speed.py --rows 54000 --source /path/to/other/src   # the same table, read by other sources

The table is written by another process than the one measured, and nothing is in the cache when the fit begins. With
`--source`, each table is fitted by those sources, too, first one and then the other, and the ratio is given.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import measuring
import numpy as np

CLASSES, LABELS_PER_CLASS = 5, 20
CITIES = ("Ulm", "Hof", "Kiel", "Bonn", "Trier", "Jena", "Gera")


def main() -> None:
    arguments = measuring.arguments(__doc__, rows="54000,100000", source=(str, "another src folder to compare with"))
    _, facts = measuring.start(arguments)
    rows = []
    for count in map(int, arguments.rows.split(",")):
        with tempfile.TemporaryDirectory() as name:
            table = Path(name) / "table.csv"
            write_table(table, count)
            row = {"rows": count, **measured(table, os.environ.get("PYTHONPATH", ""))}
            if arguments.source:
                other = measured(table, arguments.source)
                row |= {f"other, {name}": other[name] for name in ("s", "CPU s")}
                row["ratio"], row["ratio of CPU"] = row["s"] / other["s"], row["CPU s"] / other["CPU s"]
            rows.append(row)
    measuring.show_table(rows)
    measuring.write_json(arguments.json, {"machine": facts, "rows": rows})


def write_table(path: Path, rows: int) -> None:
    """Numbers, categories, a yes/no column, dates and gaps; classes are known for a few rows."""
    random = np.random.default_rng(0)
    truth = random.integers(CLASSES, size=rows)
    numbers = random.normal(size=(rows, 6)) + random.normal(size=(CLASSES, 6))[truth]
    numbers[:, 5] = np.exp(numbers[:, 5])  # a heavy tail
    city = np.where(random.random(rows) < 0.5, truth, random.integers(len(CITIES), size=rows))
    day = np.datetime64("2020-01-01") + random.integers(1000, size=rows)
    labelled = np.zeros(rows, dtype=bool)
    for number in range(CLASSES):
        labelled[random.choice(np.flatnonzero(truth == number), LABELS_PER_CLASS, replace=False)] = True
    gap = random.random(rows) < 0.05
    with path.open("w", encoding="utf-8") as file:
        file.write("width,depth,height,weight,age,price,city,grade,member,since,class\n")
        for row in range(rows):
            cells = [f"{value:.3f}" for value in numbers[row]]
            cells[4] = "" if gap[row] else cells[4]
            cells += [CITIES[city[row]], "ABCD"[truth[row] % 4 if row % 2 else row % 4], "yes" if row % 3 else "no"]
            file.write(",".join([*cells, str(day[row]), f"c{truth[row]}" if labelled[row] else ""]) + "\n")


def measured(table: Path, source: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, "-m", "mtgcn", "fit", table, "--target", "class", "--out", Path(cache) / "model"]
        started, before = perf_counter(), processor_seconds()
        found = subprocess.run(
            [*map(str, command), "--json"],
            check=True,
            env=os.environ | {"MTGCN_CACHE": cache, "PYTHONPATH": source},
            stdout=subprocess.PIPE,
        )
        seconds = perf_counter() - started
    processor = processor_seconds() - before
    return {"s": seconds, "CPU s": processor, "seconds of the JSON": json.loads(found.stdout)["seconds"]}


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
