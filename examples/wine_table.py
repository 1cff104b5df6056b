"""One table, one target: 178 wines, of which 15 have a cultivar.

    python examples/wine_table.py [FOLDER]

Writes scikit-learn's wines as a table without ids, the cultivar empty where it is unknown. Then two commands:

    mtgcn fit wines.csv --target cultivar --out model
    mtgcn predict model --keep-columns all --out predictions.csv
"""

import csv
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine

CULTIVARS = np.array(["Barolo", "Grignolino", "Barbera"])
LABELS = 5  # per cultivar


def write_table(path: Path) -> list[str]:
    """The wines in random order, as a CSV file; returns the cultivar of each."""
    wines, order = load_wine(), np.random.default_rng(0).permutation(178)
    kinds = wines.target[order]
    labelled = np.concatenate([np.flatnonzero(kinds == kind)[:LABELS] for kind in range(3)])
    shown = np.where(np.isin(np.arange(178), labelled), CULTIVARS[kinds], "")
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow([*wines.feature_names, "cultivar"])
        table.writerows([*row, kind] for row, kind in zip(wines.data[order].tolist(), shown, strict=True))
    return CULTIVARS[kinds].tolist()


def mtgcn(*arguments: object) -> None:
    """Print and run a command."""
    print("\n$ mtgcn", *arguments, flush=True)
    subprocess.run([sys.executable, "-m", "mtgcn", *map(str, arguments)], check=True)


def run(folder: Path) -> None:
    table, model, predictions = folder / "wines.csv", folder / "model", folder / "predictions.csv"
    truth = write_table(table)
    mtgcn("fit", table, "--target", "cultivar", "--out", model)
    mtgcn("predict", model, "--keep-columns", "all", "--out", predictions)
    with predictions.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    right = [row["predicted"] == kind for row, kind in zip(rows, truth, strict=True) if not row["cultivar"]]
    print(f"\n{sum(right)} of {len(right)} wines without a cultivar are predicted correctly")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        run(Path(sys.argv[1] if len(sys.argv) > 1 else name))
