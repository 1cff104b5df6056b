"""Your own files: an edge list, a node table and a few labels, from CSV to predictions.

    python examples/own_csv.py

The files are made up here: 120 people who mostly know people of their own club; nine are labelled.
"""

import csv
import random
import tempfile
from pathlib import Path

from mtgcn import MutualTeachingClassifier, read_graph

CLUBS = ("chess", "rowing", "theatre")
PEOPLE = 120


def write_table(path: Path, header: list[str], rows: list[list]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def made_up_files(folder: Path) -> tuple[Path, Path, Path, dict[str, str]]:
    """edges.csv, nodes.csv and labels.csv; and everybody's club, which a real case would not know."""
    chance = random.Random(0)
    club_of = {f"person-{number:03}": CLUBS[number % 3] for number in range(PEOPLE)}
    people = list(club_of)
    edges = set()
    while len(edges) < 4 * PEOPLE:
        one, other = chance.sample(people, 2)
        if club_of[one] == club_of[other] or chance.random() < 0.1:
            edges.add((min(one, other), max(one, other)))
    hours = {"chess": (2, 6, 3), "rowing": (7, 2, 1), "theatre": (1, 3, 6)}  # outdoors, at a table, on a stage
    nodes = [[name, *(round(max(0.0, chance.gauss(mean, 2)), 1) for mean in hours[club_of[name]])] for name in people]
    labels = [[name, club_of[name]] for name in people[:9]]
    return (
        write_table(folder / "edges.csv", ["source", "target"], sorted(map(list, edges))),
        write_table(folder / "nodes.csv", ["id", "outdoors", "at_a_table", "on_a_stage"], nodes),
        write_table(folder / "labels.csv", ["id", "label"], labels),
        club_of,
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        edges, nodes, labels, truth = made_up_files(folder)

        graph = read_graph(edges, nodes=nodes, labels=labels)
        print(graph)

        model = MutualTeachingClassifier(random_state=0).fit_graph(graph)
        model.save(folder / "model")

        model = MutualTeachingClassifier.load(folder / "model")
        for node in range(9, 15):
            club, probability = model.transduction_[node], model.label_distributions_[node].max()
            print(f"{graph.node_ids[node]}: {club} ({probability:.0%})")

    right = sum(truth[person] == club for person, club in zip(graph.node_ids, model.transduction_, strict=True))
    print(f"{right} of {PEOPLE} are right")


if __name__ == "__main__":
    main()
