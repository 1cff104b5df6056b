"""Gzip, archives of arrays and restricted unpickling."""

import gzip
import io
import os
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn import memory
from mtgcn.errors import InputError
from mtgcn.io.archives import npz_arrays, suffix_of, unpacked_size, unpickled

DENSE = [[0, 2.5, 0], [1, 0, 0]]


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "A.CSV.GZ", "b.c.csv"])
def test_suffix(tmp_path, name):
    assert suffix_of(tmp_path / name) == ".csv"


@pytest.mark.parametrize("damage", [lambda packed: packed[:-9], lambda packed: b"no gzip", lambda packed: packed[:12]])
def test_damaged_gzip(tmp_path, damage):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(damage(gzip.compress(bytes(range(256)) * 10)))
    with pytest.raises(InputError, match=r"a.txt.gz is not a complete gzip file .*; download or write it again"):
        unpacked_size(path)


def test_gzip_bomb(tmp_path, monkeypatch):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(bytes(10_000_000)))
    monkeypatch.setattr(memory, "free_bytes", lambda: 1_000_000)
    with pytest.raises(InputError, match=r"a.txt.gz, unpacked so far, takes about 10 MiB and 1 MiB of memory are free"):
        unpacked_size(path)


def saved(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    file.seek(0)
    return file


@pytest.mark.parametrize("build", [sp.csr_matrix, sp.csc_matrix, sp.csr_array, sp.csc_array])
def test_pickled_matrix(build):
    found = npz_arrays(saved(A=build(np.array(DENSE)), other=[1]), "a.npz", ["A"])
    assert (found["A"].format, found["A"].toarray().tolist(), found["other"]) == ("csr", DENSE, None)


@pytest.mark.parametrize("protocol", [3, 4])  # those of numpy.save
def test_pickled_arrays(protocol):
    arrays = {
        "column order": np.asfortranarray([[1, 2], [3, 4]]),
        "big-endian": np.array([1, 256], ">i2"),
        "texts": np.array(["a", "bcd"]),
        "truth": np.array([True, False]),
        "empty": np.empty((0, 3)),
    }
    found = unpickled(pickle.dumps(arrays, protocol))
    assert {name: part.tolist() for name, part in found.items()} == {name: a.tolist() for name, a in arrays.items()}


def test_arrays_as_python_2_wrote_them():
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    int32 = b"cnumpy\ndtype\nU\x02i4K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    numbers = b"U\x08" + np.array([7, 200], dtype="<i4").tobytes()
    content = b"\x80\x02" + array + b"(K\x01K\x02\x85" + int32 + b"\x89" + numbers + b"tb."
    np.testing.assert_array_equal(unpickled(content), [7, 200])
    lists = b"\x80\x02ccollections\ndefaultdict\nc__builtin__\nlist\n\x85RK\x00]K\x01as."
    assert unpickled(lists) == {0: [1]}


class Malicious:
    def __init__(self, victim):
        self.victim = victim

    def __reduce__(self):
        return os.mkdir, (str(self.victim),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_code_in_a_pickle_does_not_run(protocol, tmp_path):
    victim = tmp_path / "made-by-the-pickle"
    content = pickle.dumps({0: [Malicious(victim)]}, protocol)
    with pytest.raises(pickle.UnpicklingError, match=r"it asks for (posix|nt)\.mkdir, which graph data do not need"):
        unpickled(content)
    assert not victim.exists()
    pickle.loads(content)  # the attack itself is a real one
    assert victim.exists()


class Pointer:
    """An array of objects at an address of the attacker's choice: NumPy would crash the process."""

    def __reduce__(self):
        return np.ndarray, ((1,), np.dtype(object), bytes(range(8)))


@pytest.mark.parametrize(
    "content",
    [
        *(b"c__builtin__\n" + name + b"\n(S'1'\ntR." for name in (b"eval", b"getattr", b"__import__", b"exec")),
        pickle.dumps(Pointer(), protocol=4),
        pickle.dumps(np.array([1], "M8[s]"), protocol=4),
        pickle.dumps(np.zeros(1, "i4,f8"), protocol=4),
        b"",
        b"no pickle at all",
        b"\x80\x02}q\x00(K",
    ],
)
def test_invalid_pickles(content):
    with pytest.raises((pickle.UnpicklingError, ValueError, TypeError, EOFError)):
        unpickled(content)


def test_matrix_out_of_bounds():
    matrix = sp.csr_matrix(np.array(DENSE))
    matrix.indices[0] = 1_000_000
    with pytest.raises(ValueError, match="an index beyond 3"):
        unpickled(pickle.dumps(matrix, protocol=4))
