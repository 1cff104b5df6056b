"""A table of texts: 300 support requests, of which 24 have a topic.

    python examples/text_table.py [FOLDER]

Writes made-up requests with a customer, a text and a topic that is empty where it is unknown. Then two commands without
preparation; the target is guessed and named:

    mtgcn fit requests.csv --out model
    mtgcn predict model new.csv --out predictions.csv
"""

import csv
import random
import subprocess
import sys
import tempfile
from pathlib import Path

TOPICS = {
    "billing": ("invoice", "refund", "payment", "charged twice", "credit card", "receipt", "price"),
    "login": ("password", "sign in", "account locked", "reset link", "two-factor code", "username"),
    "delivery": ("parcel", "courier", "tracking number", "arrived late", "damaged box", "wrong address"),
    "product": ("battery", "screen", "update", "does not charge", "manual", "broken button"),
}
OPENINGS = ("Hello, I have a question about the", "Please help with my", "Since yesterday there is a problem with the")
MIDDLES = ("and the", "as well as the", "; it concerns the")
ENDINGS = ("Thank you!", "Can you call me?", "This is the second time I write.", "Regards")
REQUESTS, LABELS = 300, 6  # labels per topic


def made_up_text(topic: str, chance: random.Random) -> str:
    one, other = chance.sample(TOPICS[topic], 2)
    return f"{chance.choice(OPENINGS)} {one} {chance.choice(MIDDLES)} {other}. {chance.choice(ENDINGS)}"


def write_tables(folder: Path) -> tuple[Path, Path, list[str]]:
    """requests.csv, new.csv without topics, and the topics of the latter."""
    chance = random.Random(0)
    topics = [list(TOPICS)[number % len(TOPICS)] for number in range(REQUESTS)]
    rows = [[f"customer {chance.randrange(90)}", made_up_text(topic, chance)] for topic in topics]
    known = LABELS * len(TOPICS)
    shown = [*topics[:known], *[""] * (REQUESTS - known)]
    new = [list(TOPICS)[number % len(TOPICS)] for number in range(40)]
    paths = folder / "requests.csv", folder / "new.csv"
    tables = (
        [["customer", "text", "topic"], *([*row, topic] for row, topic in zip(rows, shown, strict=True))],
        [["customer", "text"], *([f"customer {number}", made_up_text(one, chance)] for number, one in enumerate(new))],
    )
    for path, table in zip(paths, tables, strict=True):
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(table)
    return *paths, new


def mtgcn(*arguments: object) -> None:
    """Print and run a command."""
    print("\n$ mtgcn", *arguments, flush=True)
    subprocess.run([sys.executable, "-m", "mtgcn", *map(str, arguments)], check=True)


def run(folder: Path) -> None:
    table, new, truth = write_tables(folder)
    model, predictions = folder / "model", folder / "predictions.csv"
    mtgcn("fit", table, "--out", model)
    mtgcn("predict", model, new, "--out", predictions)
    with predictions.open(encoding="utf-8") as file:
        right = [row["predicted"] == topic for row, topic in zip(csv.DictReader(file), truth, strict=True)]
    print(f"\n{sum(right)} of {len(right)} new requests have their topic predicted correctly")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        run(Path(sys.argv[1] if len(sys.argv) > 1 else name))
