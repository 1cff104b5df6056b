import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn.graph import Graph
from mtgcn.linalg import random_walks as module
from mtgcn.linalg.random_walks import AbsorbingWalk, conjugate_gradients, random_walks
from mtgcn.task import Nodes


def test_steps_are_proportional_to_weights():
    # A hub with weights 1, 3, 0 and 6.
    weights = np.zeros((5, 5))
    weights[1, [0, 2, 3, 4]] = weights[[0, 2, 3, 4], 1] = 1, 3, 0, 6
    walks = random_walks(sp.csr_array(weights), np.full(20_000, 1), 2, np.random.default_rng(0))
    shares = np.bincount(walks[:, 1], minlength=5) / 20_000
    np.testing.assert_allclose(shares, [0.1, 0, 0.3, 0, 0.6], atol=0.015)  # four standard errors
    assert shares[3] == 0


def test_largest_random_number_stays_in_the_row():
    class Highest:
        def random(self, count):
            return np.full(count, np.nextafter(1, 0))

    path = sp.csr_array(np.array([[0, 1, 0], [1, 0, 1e-9], [0, 1e-9, 0]]))
    assert random_walks(path, np.array([0, 1, 2]), 3, Highest()).tolist() == [[0, 1, 2], [1, 2, 1], [2, 1, 2]]


def dense_absorption(graph, alpha):
    """(L + αI)^-1 by the eigenvectors of L, which is exact also where it is nearly singular."""
    weights = graph.adjacency.toarray().astype(np.float64)
    weights /= weights[weights > 0].mean()
    laplacian = np.diag(weights.sum(1)) - weights
    values, vectors = np.linalg.eigh(laplacian)
    values[values < 1e-9] = 0  # one for each component
    return (vectors / (values + alpha)) @ vectors.T


@pytest.fixture(params=["factored", "conjugate gradients"])
def solver(request, monkeypatch):
    if request.param == "conjugate gradients":
        monkeypatch.setattr(module, "FACTORED_WEIGHTS", 0)
    else:
        monkeypatch.setattr(module, "FEW_ITERATIONS", -1)
    return request.param


@pytest.mark.parametrize("alpha", [1.0, 1e-3, 1e-6])
@pytest.mark.parametrize("kind", [{}, {"weighted": True}, {"unreached": True}])
def test_columns_match_the_inverse(make_graph, solver, kind, alpha):
    graph = make_graph(nodes=60, **kind)
    expected, walk = dense_absorption(graph, alpha), AbsorbingWalk(graph, alpha)
    found = walk.columns(np.arange(60))
    assert walk.factored == (solver == "factored")
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-9 / alpha)
    # Columns differ by a millionth; the differences must be exact as well.
    centred = [values - values.mean(0) for values in (found[:55, :55], expected[:55, :55])]
    if "unreached" not in kind:
        np.testing.assert_allclose(*centred, rtol=1e-5, atol=1e-7)


def test_self_loops_have_no_effect(make_graph):
    graph = make_graph()
    adjacency = graph.adjacency.toarray()
    adjacency[3, 3] = 5
    with_loop = AbsorbingWalk(Graph(adjacency=adjacency), 1e-6)
    np.testing.assert_allclose(with_loop.columns(np.array([3])), AbsorbingWalk(graph, 1e-6).columns(np.array([3])))


@pytest.mark.parametrize("at_once", [1, 80, 2**23])
def test_by_class_combines_columns(make_graph, monkeypatch, at_once):
    monkeypatch.setattr(module, "SOLVED_AT_ONCE", at_once)
    graph = make_graph()
    inverse = dense_absorption(graph, 0.1)
    given = Nodes.of([np.array([3, 8, 5]), np.array([8])], np.array([0] * 8 + [1] + [0] * 31))
    walk = AbsorbingWalk(graph, 0.1)
    for combine in (np.add, np.maximum):
        found = walk.by_class(given, 3, combine)
        np.testing.assert_allclose(found[0, 0], combine(inverse[:, 3], inverse[:, 5]), rtol=1e-9)
        np.testing.assert_allclose(found[:, 1], np.stack([inverse[:, 8]] * 2), rtol=1e-9)
        assert not found[1, 0].any()  # no label of this class
        assert not found[:, 2].any()


def test_shared_labels_are_solved_once(make_graph, monkeypatch):
    walk, solved = AbsorbingWalk(make_graph(), 1e-6), []
    columns = walk.columns
    monkeypatch.setattr(walk, "columns", lambda nodes: solved.extend(nodes.tolist()) or columns(nodes))
    walk.by_class(Nodes.of([np.array([3, 8]), np.array([8, 5]), np.array([3, 5])], np.zeros(40, int)), 1, np.add)
    assert solved == [3, 5, 8]


def test_no_convergence_warns(make_graph, monkeypatch):
    monkeypatch.setattr(module, "FACTORED_WEIGHTS", 0)
    monkeypatch.setattr(module, "MAX_ITERATIONS", 2)
    monkeypatch.setattr(module, "MAX_ITERATIONS_32", 2)
    with pytest.warns(RuntimeWarning, match="not converged after 2 iterations"):
        AbsorbingWalk(make_graph(), 1e-6).columns(np.array([0]))


def test_slow_convergence_chooses_factorisation():
    ring = np.roll(np.eye(300), 1, axis=1)
    close = np.random.default_rng(0).random((300, 300)) < 0.05
    assert AbsorbingWalk(Graph(adjacency=ring + ring.T), 1e-6).factored
    assert not AbsorbingWalk(Graph(adjacency=np.triu(close, 1) | np.triu(close, 1).T), 1e-6).factored


@pytest.mark.parametrize("unit", [1e-12, 1e-3, 1e10, 1e15])
def test_unit_of_weights_has_no_effect(make_graph, solver, unit):
    graph = make_graph(weighted=True)
    scaled = Graph(adjacency=graph.adjacency.astype(np.float64) * unit)
    nodes = np.arange(40)
    expected = AbsorbingWalk(graph, 1e-6).columns(nodes)
    np.testing.assert_allclose(AbsorbingWalk(scaled, 1e-6).columns(nodes), expected, rtol=1e-5)


def test_extreme_weights_are_finite(solver):
    weights = np.array([[0, 1e14, 0, 0], [1e14, 0, 1, 0], [0, 1, 0, 1e-3], [0, 0, 1e-3, 0]])
    assert np.isfinite(AbsorbingWalk(Graph(adjacency=weights), 1e-6).columns(np.arange(4))).all()


def test_refinement_reaches_64_bit_accuracy(make_graph, monkeypatch):
    monkeypatch.setattr(module, "FACTORED_WEIGHTS", 0)
    bits = []

    def recorded(product, diagonal, right, *args):
        bits.append(right.element_size() * 8)
        return conjugate_gradients(product, diagonal, right, *args)

    monkeypatch.setattr(module, "conjugate_gradients", recorded)
    walk = AbsorbingWalk(make_graph(nodes=60, weighted=True), 1e-6)
    right = walk._right_hand_side(np.arange(5))
    found = module.refined(
        walk.matrix, walk._in_32_bits, right, lambda values, columns: walk._centred(values, walk.component[columns])
    )
    assert set(bits) == {32}
    assert len(bits) > 1
    left = np.linalg.norm(right - walk.matrix @ found, axis=0) / np.linalg.norm(right, axis=0)
    assert left.max() < 2 * module.RESIDUAL


@pytest.mark.parametrize("changed", [{"COLUMNS_AT_ONCE": 7}, {"MAX_ITERATIONS_32": 0}], ids=["blocks", "64 bits"])
def test_conjugate_gradients_in_blocks_or_in_64_bits(make_graph, monkeypatch, changed):
    for name, value in {"FACTORED_WEIGHTS": 0, **changed}.items():
        monkeypatch.setattr(module, name, value)
    graph = make_graph(nodes=60, weighted=True)
    found = AbsorbingWalk(graph, 1e-3).columns(np.arange(60))
    np.testing.assert_allclose(found, dense_absorption(graph, 1e-3), rtol=1e-5)


def test_weights_that_grow_tenfold(solver):
    weights = 10.0 ** np.arange(9)
    chain = Graph(adjacency=sp.diags_array([weights, weights], offsets=[1, -1]).toarray())
    found = AbsorbingWalk(chain, 1e-3).columns(np.arange(10))
    np.testing.assert_allclose(found, dense_absorption(chain, 1e-3), rtol=1e-5, atol=1e-9)
