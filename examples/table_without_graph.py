"""A table without a graph: handwritten digits, two labels per class, against scikit-learn's LabelSpreading.

    python examples/table_without_graph.py --splits 10

Both edge each image to its ten nearest; both get the same twenty labels in each split.
"""

import argparse

import numpy as np
from sklearn.datasets import load_digits
from sklearn.semi_supervised import LabelSpreading

from mtgcn import MutualTeachingClassifier

NEIGHBOURS = 10
LABELS_PER_CLASS = 2


def few_labels(truth: np.ndarray, seed: int) -> np.ndarray:
    """The truth about two images of each class, -1 for all others."""
    generator = np.random.default_rng(seed)
    y = np.full(len(truth), -1)
    for digit in np.unique(truth):
        chosen = generator.choice(np.flatnonzero(truth == digit), LABELS_PER_CLASS, replace=False)
        y[chosen] = digit
    return y


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--method", default=None, help="any of mtgcn's methods; the default is mt-plus")
    arguments = parser.parse_args()

    pixels, truth = load_digits(return_X_y=True)
    pixels = pixels / 16
    accuracies = []
    for split in range(arguments.splits):
        y = few_labels(truth, seed=split)
        hidden = y == -1
        spreading = LabelSpreading(kernel="knn", n_neighbors=NEIGHBOURS).fit(pixels, y)
        teaching = MutualTeachingClassifier(arguments.method, neighbors=NEIGHBOURS, random_state=split).fit(pixels, y)
        accuracies.append([(model.transduction_ == truth)[hidden].mean() for model in (spreading, teaching)])
        print(f"split {split}: LabelSpreading {accuracies[-1][0]:.1%}, mutual teaching {accuracies[-1][1]:.1%}")
    spreading_mean, teaching_mean = np.mean(accuracies, axis=0)
    print(f"mean of {arguments.splits}: LabelSpreading {spreading_mean:.1%}, mutual teaching {teaching_mean:.1%}")
    if arguments.splits > 1:
        gains = 100 * np.diff(accuracies, axis=1)
        error = gains.std(ddof=1) / np.sqrt(arguments.splits)
        print(f"mutual teaching gains {gains.mean():+.1f} points, give or take {1.96 * error:.1f} (95 %)")


if __name__ == "__main__":
    main()
