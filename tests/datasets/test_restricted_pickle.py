"""Restricted unpickling."""

import os
import pickle

import numpy as np
import pytest

from mtgcn.datasets.restricted_pickle import GRAPH_ARCHIVE, PLANETOID, unpickled
from mtgcn.errors import InputError


class Malicious:
    def __init__(self, victim):
        self.victim = victim

    def __reduce__(self):
        return os.mkdir, (str(self.victim),)


@pytest.mark.parametrize(("kind", "title"), [(PLANETOID, "a Planetoid file"), (GRAPH_ARCHIVE, "an archive of a graph")])
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_code_in_a_pickle_does_not_run(protocol, kind, title, tmp_path):
    victim = tmp_path / "made-by-the-pickle"
    content = pickle.dumps({0: [Malicious(victim)]}, protocol)
    with pytest.raises(InputError, match=rf"graph.pickle is not {title}: it asks for (posix|nt)\.mkdir, which"):
        unpickled(content, "graph.pickle", kind)
    assert not victim.exists()
    pickle.loads(content)  # the attack itself is a real one
    assert victim.exists()


def test_types_are_admitted_per_kind():
    content = b"\x80\x02ccollections\ndefaultdict\nc__builtin__\nlist\n\x85RK\x00]K\x01as."  # of Python 2
    assert unpickled(content, "ind.cora.graph", PLANETOID) == {0: [1]}
    with pytest.raises(InputError, match=r"dblp.npz is not an archive of a graph: it asks for collections.defaultdict"):
        unpickled(content, "dblp.npz", GRAPH_ARCHIVE)


@pytest.mark.parametrize("name", [b"eval", b"getattr", b"__import__", b"exec"])
def test_builtins_are_not_admitted(name):
    with pytest.raises(InputError, match=r"which graph data do not need"):
        unpickled(b"c__builtin__\n" + name + b"\n(S'1'\ntR.", "ind.cora.graph", PLANETOID)


@pytest.mark.parametrize("content", [b"", b"no pickle at all", b"\x80\x02}q\x00(K"])
def test_invalid_pickles(content):
    with pytest.raises(InputError, match=r"ind.cora.x is not a Planetoid file"):
        unpickled(content, "ind.cora.x", PLANETOID)


def test_arrays_as_python_2_wrote_them():
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    int32 = b"cnumpy\ndtype\nU\x02i4K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    numbers = b"U\x08" + np.array([7, 200], dtype="<i4").tobytes()
    content = b"\x80\x02" + array + b"(K\x01K\x02\x85" + int32 + b"\x89" + numbers + b"tb."
    np.testing.assert_array_equal(unpickled(content, "ind.cora.y", PLANETOID), [7, 200])
