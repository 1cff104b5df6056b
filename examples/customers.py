"""Files from practice: 2000 customers, columns of every kind, gaps, umlauts, 12 labels, and edges to unknown ids.

    python examples/customers.py [FOLDER]

Writes three untidy files, then goes from them to predictions with two commands and no preparation:

    mtgcn fit --edges links.csv --nodes customers.csv --labels segments.csv --unknown-nodes drop --out model
    mtgcn predict model --out predictions.csv

The tables are as a spreadsheet writes them in Germany: semicolons, decimal commas, and letters of Windows-1252.
"""

import csv
import subprocess
import sys
import tempfile
from datetime import date, timedelta
from pathlib import Path

import numpy as np

CUSTOMERS = 2000
SEGMENTS = ("Sparfüchse", "Familien", "Genießer")
CITIES = (
    *("Köln", "München", "Düsseldorf", "Berlin", "Görlitz", "Zürich"),
    *("Bremen", "Kiel", "Ulm", "Fürth", "Gera", "Hof"),
)
LABELS_PER_SEGMENT = 4
UNKNOWN = 20  # ids in the edges that are in no table


def german(number: float, digits: int = 2) -> str:
    return f"{number:.{digits}f}".replace(".", ",")


def write_table(path: Path, header: list[str], rows: list[list[str]]) -> Path:
    with path.open("w", newline="", encoding="cp1252") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(header)
        writer.writerows(rows)
    return path


def made_up_files(folder: Path, seed: int = 0) -> tuple[Path, Path, Path, dict[str, str]]:
    """links.csv, customers.csv and segments.csv; and the segment of each customer, which is unknown in practice."""
    chance = np.random.default_rng(seed)
    segment = chance.integers(len(SEGMENTS), size=CUSTOMERS)
    names = [f"K{number:05}" for number in chance.permutation(99999)[:CUSTOMERS]]

    def drawn(means: tuple[float, ...], spread: float) -> np.ndarray:
        return np.array(means)[segment] + spread * chance.standard_normal(CUSTOMERS)

    columns = {
        "Einkommen": [german(value) for value in np.exp(drawn((10.2, 10.7, 11.1), 0.35))],
        "Alter": [str(int(value)) for value in np.clip(drawn((29, 42, 57), 9), 18, 95)],
        "Bewertung": [german(value, 1) for value in np.clip(drawn((2.6, 3.4, 4.1), 0.6), 1, 5)],
        "Umsatz": [german(value) for value in np.exp(drawn((3.5, 5.0, 5.8), 1.1))],
        "Bestellungen": [str(int(value)) for value in chance.poisson(np.array([2, 9, 5])[segment])],
        "Stadt": [CITIES[(4 * kind + chance.integers(7)) % 12] for kind in segment],
        "seit": [
            (date(2024, 1, 1) - timedelta(days=int(value))).strftime("%d.%m.%Y")
            for value in np.clip(drawn((300, 900, 1800), 350), 1, None)
        ],
        "Newsletter": ["ja" if chance.random() < share else "nein" for share in np.array([0.7, 0.5, 0.2])[segment]],
        "Notiz": [f"Anruf {chance.integers(10**6)}, später zurückrufen" for _ in range(CUSTOMERS)],
        "Land": ["DE"] * CUSTOMERS,
    }
    for name, gap in (("Einkommen", "n/a"), ("Alter", ""), ("Stadt", "?"), ("seit", "-"), ("Bewertung", "NA")):
        for row in np.flatnonzero(chance.random(CUSTOMERS) < 0.06):
            columns[name][row] = gap
    links = set()
    while len(links) < 3 * CUSTOMERS:
        one, other = chance.integers(CUSTOMERS, size=2)
        if one != other and (segment[one] == segment[other] or chance.random() < 0.25):
            links.add((names[min(one, other)], names[max(one, other)]))
    unknown = [(f"X{number}", names[int(chance.integers(CUSTOMERS))]) for number in range(UNKNOWN)]
    labelled = [
        place for kind in range(len(SEGMENTS)) for place in np.flatnonzero(segment == kind)[:LABELS_PER_SEGMENT]
    ]
    return (
        write_table(folder / "links.csv", ["Kunde", "kennt"], [list(link) for link in sorted(links) + unknown]),
        write_table(
            folder / "customers.csv",
            ["Kunde", *columns],
            [list(row) for row in zip(names, *columns.values(), strict=True)],
        ),
        write_table(
            folder / "segments.csv",
            ["Kunde", "Segment"],
            [[names[place], SEGMENTS[segment[place]]] for place in labelled],
        ),
        {name: SEGMENTS[kind] for name, kind in zip(names, segment, strict=True)},
    )


def mtgcn(*arguments: object) -> None:
    """Print and run a command."""
    print("\n$ mtgcn", *arguments, flush=True)
    subprocess.run([sys.executable, "-m", "mtgcn", *map(str, arguments)], check=True)


def run(folder: Path) -> None:
    links, customers, segments, truth = made_up_files(folder)
    model, predictions = folder / "model", folder / "predictions.csv"
    files = ("--edges", links, "--nodes", customers, "--labels", segments, "--unknown-nodes", "drop")
    mtgcn("fit", *files, "--out", model)
    mtgcn("predict", model, "--out", predictions)
    with predictions.open(encoding="utf-8") as file:
        right = [row["predicted"] == truth[row["id"]] for row in csv.DictReader(file)]
    print(f"\n{sum(right)} of {len(right)} customers are in their segment ({sum(right) / len(right):.1%})")


def main() -> None:
    if len(sys.argv) > 1:
        folder = Path(sys.argv[1])
        folder.mkdir(parents=True, exist_ok=True)
        run(folder)
    else:
        with tempfile.TemporaryDirectory() as name:
            run(Path(name))


if __name__ == "__main__":
    main()
