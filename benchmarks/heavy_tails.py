"""What a heavy tail costs a table without a graph, and what the logarithm of `mtgcn.io.preprocessing` gets back.

    python benchmarks/heavy_tails.py --seeds 3

Three made-up classes in five columns, 600 rows, 5 labels of each class, gcn on the nearest neighbours. The numbers are
in docs/columns.md.
"""

import argparse

import numpy as np

from mtgcn import MutualTeachingClassifier

ROWS, COLUMNS, CLASSES, LABELS = 600, 5, 3, 5


def tables(seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The same classes under columns of several shapes, and the classes."""
    random = np.random.default_rng(seed)
    truth = random.integers(CLASSES, size=ROWS)
    normal = 1.2 * random.normal(size=(CLASSES, COLUMNS))[truth] + random.normal(size=(ROWS, COLUMNS))
    odd = random.random((ROWS, COLUMNS)) < 0.01
    return {
        "normal": normal,
        "lognormal": np.exp(normal + 5),
        "very lognormal": np.exp(1.5 * normal + 8),
        "1 % outliers": np.where(odd, 1000, 1) * (10 * normal + 50),
    }, truth


def accuracy(rows: np.ndarray, truth: np.ndarray, seed: int, **parameters: object) -> float:
    random = np.random.default_rng(seed)
    y = np.full(ROWS, -1)
    for number in range(CLASSES):
        y[random.choice(np.flatnonzero(truth == number), LABELS, replace=False)] = number
    model = MutualTeachingClassifier("gcn", random_state=seed, device="cpu", **parameters).fit(rows, y)
    return float((model.transduction_ == truth)[y == -1].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    seeds = range(parser.parse_args().seeds)
    found: dict[str, list[tuple[float, float]]] = {}
    for seed in seeds:
        shapes, truth = tables(seed)
        for name, rows in shapes.items():
            standardised = (rows - rows.mean(axis=0)) / rows.std(axis=0)
            both = accuracy(standardised, truth, seed, scale=False), accuracy(rows, truth, seed)
            found.setdefault(name, []).append(both)
    for name, pairs in found.items():
        alone, prepared = np.mean(pairs, axis=0)
        print(f"{name}: {alone:.1%} standardised, {prepared:.1%} as mtgcn prepares it")


if __name__ == "__main__":
    main()
