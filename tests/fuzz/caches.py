"""Damaged files in the cache folder, which must be detected and computed again."""

import os
import warnings
import zipfile
from random import Random

import numpy as np

from fuzz import malformed
from fuzz.case import Case, require
from mtgcn.storage.cache import cached_arrays

NAME = "0123abcd"
MADE = {"vectors": np.arange(12, dtype=np.float32).reshape(4, 3), "bias": np.ones(3, np.float32)}
SHAPES = {name: array.shape for name, array in MADE.items()}


def random_case(random):
    arrays = {name: array.copy() for name, array in MADE.items()}
    name = random.choice(list(arrays))
    arrays[name] = malformed.array(random, arrays[name])
    if random.random() < 0.2:
        del arrays[name]
    if random.random() < 0.1:
        arrays["more"] = np.zeros(3)
    byte_faults = random.getrandbits(32) if random.random() < 0.5 else None

    def damage(path):
        np.savez(path, allow_pickle=False, **arrays)
        if byte_faults is not None:
            path.write_bytes(malformed.changed_bytes(Random(byte_faults), path.read_bytes()))

    return case_of(f"{ {key: f'{one.dtype}{one.shape}' for key, one in arrays.items()} } {byte_faults}", damage)


def case_of(description, damage):
    def attempt(folder):
        os.environ["MTGCN_CACHE"] = str(folder)
        path = folder / "kind" / f"{NAME}.npz"
        path.parent.mkdir()
        damage(path)
        for _ in range(2):  # the second time from the repaired file
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "the kind arrays stored in .* computed again", RuntimeWarning)
                warnings.filterwarnings("ignore", "cannot store kind arrays", RuntimeWarning)
                found = cached_arrays("kind", NAME, SHAPES, lambda: {key: array.copy() for key, array in MADE.items()})
            require(set(found) == set(MADE), f"arrays {set(found)}")
            for key, array in found.items():
                require(array.shape == SHAPES[key], "an array of another shape")
                require(array.dtype.kind == "f", f"an array of type {array.dtype}")
                require(np.isfinite(array).all(), "numbers that are not finite")

    return Case(description, attempt)


def _of(**arrays):
    return lambda path: np.savez(path, allow_pickle=False, **MADE | arrays)


def _one_array(path):
    with path.open("wb") as file:
        np.save(file, np.ones(3))


def _inflating(path):
    path.write_bytes(malformed.archive_of_zeros({"vectors.npy": 1900, "bias.npy": 1900}))


def _no_array(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("vectors.npy", b"text")
        archive.writestr("bias.npy", b"text")


REGRESSIONS = (
    case_of("text in place of numbers", _of(bias=np.array(["a", "b", "c"]))),
    case_of("dates in place of numbers", _of(bias=np.zeros(3, "M8[s]"))),
    case_of("complex numbers", _of(bias=np.ones(3, complex))),
    case_of("numbers that are not finite", _of(bias=np.array([1, np.nan, 2], np.float32))),
    case_of("members that are no arrays", _no_array),
    case_of("an archive that unpacks to 3.7 GiB", _inflating),
    case_of("a folder in place of the file", lambda path: path.mkdir()),
    case_of("one array alone, without an archive", lambda path: _one_array(path)),
    case_of("a pickle", lambda path: path.write_bytes(b"\x80\x04K\x01.")),
)
