"""Damaged files in the cache folder, which must be detected and computed again."""

import os
import warnings
import zipfile

import numpy as np

from fuzz import malformed
from fuzz.case import require
from mtgcn.storage.cache import cached_arrays

NAME = "0123abcd"
MADE = {"vectors": np.arange(12, dtype=np.float32).reshape(4, 3), "bias": np.ones(3, np.float32)}
SHAPES = {name: array.shape for name, array in MADE.items()}


def random_case(random):
    name = random.choice(list(MADE))
    arrays = MADE | {name: malformed.array(random, MADE[name])}
    if random.random() < 0.2:
        del arrays[name]
    if random.random() < 0.1:
        arrays["more"] = np.zeros(3)

    def write(path):
        np.savez(path, allow_pickle=False, stored_as=np.array(NAME), **arrays)
        malformed.damage(random, path, 0.5)

    return _case(write)


def _case(write):
    def case(folder):
        os.environ["MTGCN_CACHE"] = str(folder)
        path = folder / "kind" / f"{NAME}.npz"
        path.parent.mkdir()
        write(path)
        for _ in range(2):  # the second time from the repaired file
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "stored kind arrays in .* recomputed", RuntimeWarning)
                warnings.filterwarnings("ignore", "cannot store kind arrays", RuntimeWarning)
                found = cached_arrays("kind", NAME, SHAPES, lambda: {key: array.copy() for key, array in MADE.items()})
            require(set(found) == set(MADE), f"arrays {set(found)}")
            for key, array in found.items():
                require(array.shape == SHAPES[key], "an array of another shape")
                require(array.dtype.kind == "f", f"an array of type {array.dtype}")
                require(np.isfinite(array).all(), "numbers that are not finite")

    return case


def _no_array(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("vectors.npy", b"text")
        archive.writestr("bias.npy", b"text")


# More are in tests/storage/test_cache.py.
REGRESSIONS = {
    "members that are no arrays": _case(_no_array),
    "a folder in place of the file": _case(lambda path: path.mkdir()),
}
