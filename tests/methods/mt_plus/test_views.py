from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn import functional

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.linalg import pagerank
from mtgcn.methods.mt_plus import views as module
from mtgcn.methods.mt_plus.encoders import encode, trained_encoders
from mtgcn.methods.mt_plus.settings import ViewSettings
from mtgcn.methods.mt_plus.views import (
    FAR,
    FAR_EDGES,
    FEATURES,
    GRAPH_VIEWS,
    HELD_INFOMAX,
    HOPS,
    INFOMAX,
    NEAR,
    SIZE,
    VIEWS,
    Inputs,
    build_views,
    view,
    views_elsewhere,
    views_of,
)

CPU = torch.device("cpu")
QUICK = ViewSettings(dimensions=8, infomax_epochs=5)
UNSEEDED = tuple(name for name in GRAPH_VIEWS if not VIEWS[name].seeded)
TRANSFERABLE = tuple(name for name in GRAPH_VIEWS if VIEWS[name].transferable)


pytestmark = pytest.mark.usefixtures("private_cache")


def rows_of(graph, settings=QUICK, seed=0):
    return {name: table[:, :-1] for name, table in build_views(graph, settings, seed, CPU).rows.items()}


def with_features(graph, columns, seed=0):
    features = np.random.default_rng([seed, columns]).random((graph.num_nodes, columns))
    return replace(graph, features=features)


def angles(rows):
    return rows @ rows.T


def test_random_cosines_approximate_a_gaussian_kernel():
    # Random cosines stand for a Gaussian kernel: the mean of the products of two rows is half of
    # exp(-|size_frequency · difference|² / 2), whatever the sizes are counted from and in (Rahimi and Recht, 2007).
    sizes = np.random.default_rng(0).normal(3, 2, (20, 6))
    spread = np.linspace(0.5, 3, 6)
    waves, ones = np.split(
        module.random_cosines((sizes - sizes.mean(0)) / spread, 256, 0.5, CPU).numpy(), [256], axis=1
    )
    np.testing.assert_array_equal(ones, np.ones((20, 1)))
    apart = ((sizes[:, None] - sizes) / spread * 0.5) ** 2
    expected = np.exp(-apart.sum(-1) / 2) / 2
    np.testing.assert_allclose(waves @ waves.T / waves.shape[1], expected, atol=4 * 0.5 / np.sqrt(256))
    np.testing.assert_allclose(waves.mean(), 0, atol=4 * 0.5 / np.sqrt(256))


def test_rows_have_length_one(make_graph):
    graph = make_graph(unreached=True)
    found = build_views(graph, QUICK, 0, CPU).rows
    assert tuple(found) == GRAPH_VIEWS
    for name, table in found.items():
        assert table.shape[0] == graph.num_nodes
        assert (table[:, -1] == 1).all()
        lengths = table[:, :-1].norm(dim=1)
        np.testing.assert_allclose(lengths[lengths > 0], 1, rtol=1e-5, err_msg=name)
        assert lengths.count_nonzero() > 30


@pytest.mark.parametrize("name", GRAPH_VIEWS)
def test_centring(make_graph, name):
    rows = rows_of(make_graph(nodes=60))[name]
    common = rows.mean(0).norm()
    if VIEWS[name].centred:
        assert common < 0.15
    else:
        assert name == HELD_INFOMAX
        assert common > 0.5


def centred(table):
    rows = functional.normalize(table)
    return functional.normalize(rows - rows.mean(0))


def test_neighbourhood_formulas(make_graph, dense_propagation):
    graph = make_graph(weighted=True)
    features = functional.normalize(torch.from_numpy(graph.features.toarray()).double())
    smooth = dense_propagation(graph)
    far = features
    for _ in range(20):
        far = 0.9 * smooth @ far + 0.1 * features
    rows = rows_of(graph)
    for name, table in {FEATURES: features, NEAR: smooth @ smooth @ features, FAR: far}.items():
        np.testing.assert_allclose(angles(rows[name]), angles(centred(table)), atol=2e-5)


@pytest.mark.parametrize("directions", [64, 2])
def test_hops_formula(make_graph, dense_propagation, directions):
    graph = make_graph(weighted=True)
    features = functional.normalize(torch.from_numpy(graph.features.toarray()).double())
    block, smooth = features @ torch.linalg.svd(features)[2][:directions].T, dense_propagation(graph)
    powers = (torch.linalg.matrix_power(smooth, step) for step in (0, 1, 3))
    table = torch.cat([functional.normalize(power @ block) for power in powers], 1)
    rows = rows_of(graph, replace(QUICK, hop_directions=directions, hop_steps=(0, 1, 3)))[HOPS]
    np.testing.assert_allclose(angles(rows), angles(centred(table)), atol=2e-5)


def test_edges_formula(make_graph, dense_propagation):
    graph = make_graph(nodes=70, weighted=True)
    looped = replace(graph, adjacency=graph.adjacency.toarray() + np.diag(np.arange(70) % 2))  # self-loops are ignored
    adjacency = torch.from_numpy(graph.adjacency.toarray()).double()
    scaled = adjacency / adjacency.sum(1, keepdim=True).sqrt()
    vectors = torch.linalg.svd(scaled)[2][: 70 - module.OVERSAMPLING].T
    edges = scaled @ vectors
    for given in (graph, looped):
        smooth, far = dense_propagation(given), functional.normalize(edges)
        for _ in range(20):
            far = 0.9 * smooth @ far + 0.1 * functional.normalize(edges)
        np.testing.assert_allclose(angles(rows_of(given)[FAR_EDGES]), angles(centred(far)), atol=5e-3)


def sizes_of(graph, device):
    return Inputs(graph, QUICK, device).sizes()


@pytest.mark.parametrize("find", [sizes_of, module.sizes_on_device])
@pytest.mark.parametrize("kind", [np.array, sp.csr_array])
def test_sizes(kind, find):
    path = np.array([[0, 6, 0], [6, 9, 2], [0, 2, 0]])  # weights 1.5 and 0.5 of their mean; the self-loop is ignored
    sizes = np.asarray(find(Graph(path, kind([[1.0, -2], [0, 0], [4, 0]])), CPU))
    own = np.log1p([[1.5, 3], [2, 0], [0.5, 4]])
    around = np.array([own[1], (3 * own[0] + own[2]) / 4, own[1]])
    beyond = np.array([around[1], (3 * around[0] + around[2]) / 4, around[1]])
    np.testing.assert_allclose(sizes, np.concatenate([own, around, beyond], axis=1), rtol=1e-6)


@pytest.mark.parametrize("sparse", [True, False])
def test_sizes_on_device(make_graph, monkeypatch, sparse):
    monkeypatch.setattr("mtgcn.linalg.normalisation.ENTRIES_AT_ONCE", 16)
    graph = make_graph(sparse=sparse, weighted=True, unreached=True)
    np.testing.assert_allclose(module.sizes_on_device(graph, CPU).numpy(), sizes_of(graph, CPU), rtol=1e-6, atol=1e-6)


def test_size_view_depends_on_sizes_alone(make_graph):
    # Two copies of a graph, the second with its columns of features in another order.
    one = make_graph()
    adjacency, features = one.adjacency.toarray(), one.features.toarray()
    both = Graph(np.kron(np.eye(2), adjacency), np.concatenate([features, features[:, ::-1]]))
    rows = rows_of(both)
    np.testing.assert_allclose(rows[SIZE][:40], rows[SIZE][40:], atol=1e-3)
    assert (rows[SIZE][1:40] - rows[SIZE][:39]).norm(dim=1).min() > 0.05
    assert (rows[FEATURES][:40] - rows[FEATURES][40:]).norm(dim=1).median() > 0.5


def test_embeddings_depend_on_the_seed(make_graph):
    graph = make_graph()
    encoders = QUICK.encoders(graph)
    assert encoders.weight_decays == (0, QUICK.held_decay)
    rows, again, other = rows_of(graph), rows_of(make_graph()), rows_of(graph, seed=1)
    assert not torch.equal(rows[INFOMAX], rows[HELD_INFOMAX])
    for name in GRAPH_VIEWS:
        assert torch.equal(rows[name], again[name])
        assert torch.equal(rows[name], other[name]) == (name in UNSEEDED)
    trained = trained_encoders(graph, QUICK.encoder_input, encoders, 0, CPU)
    free, held = (
        encode(graph, QUICK.encoder_input, weight, bias, encoders.slope, CPU)[:, :-1]
        for weight, bias in zip(trained["weight"], trained["bias"], strict=True)
    )
    torch.testing.assert_close(rows[HELD_INFOMAX], held)
    torch.testing.assert_close(rows[INFOMAX], centred(free))


@pytest.mark.parametrize("name", UNSEEDED)
@pytest.mark.parametrize("columns", [12, 60])
def test_views_are_order_invariant(make_graph, name, columns):
    graph = with_features(make_graph(nodes=60, weighted=True), columns)
    settings = replace(QUICK, directions=20, edge_directions=10)
    order = np.random.default_rng(0).permutation(60)
    shuffled = Graph(graph.adjacency[order][:, order], graph.features[order])
    rows, moved = rows_of(graph, settings)[name], rows_of(shuffled, settings)[name]
    # A basis may turn, and what lies between the directions is found to a few digits.
    np.testing.assert_allclose(angles(moved), angles(rows[order]), atol=2e-3)


@pytest.mark.parametrize("columns", [12, 60])
def test_views_elsewhere(make_graph, columns):
    graph = with_features(make_graph(unreached=True), columns)
    settings = replace(QUICK, directions=20)
    found = build_views(graph, settings, 0, CPU)
    elsewhere = dict(views_elsewhere(found.parameters, settings, Graph(graph.adjacency, graph.features), CPU))
    assert sorted(elsewhere) == sorted(TRANSFERABLE)
    for name, table in elsewhere.items():
        torch.testing.assert_close(table, found.rows[name], rtol=1e-4, atol=1e-4)


def test_views_of_a_component(make_graph):
    graph = make_graph(unreached=True)
    found = build_views(graph, QUICK, 0, CPU)
    part = Graph(graph.adjacency[:35, :35], graph.features[:35])
    for name, table in views_elsewhere(found.parameters, QUICK, part, CPU):
        torch.testing.assert_close(table, found.rows[name][:35], rtol=1e-4, atol=1e-4)


def test_views_of_a_single_node(make_graph):
    graph = make_graph()
    lonely = Graph(np.zeros((1, 1)), graph.features[:1])
    for _, table in views_elsewhere(build_views(graph, QUICK, 0, CPU).parameters, QUICK, lonely, CPU):
        assert table.shape[0] == 1
        np.testing.assert_allclose(table[:, :-1].norm(), 1, rtol=1e-5)
        assert table[0, -1] == 1


def test_number_of_directions(make_graph, monkeypatch):
    graph = with_features(make_graph(nodes=60), 50)
    rows = rows_of(graph, replace(QUICK, directions=10, edge_directions=6))
    assert [rows[name].shape[1] for name in UNSEEDED] == [10, 50, 10, 10, 6, QUICK.size_waves]
    monkeypatch.setattr(pagerank, "MAX_TABLE", 60 * 7)
    monkeypatch.setattr(pagerank, "MIN_COMPONENTS", 2)
    rows = rows_of(with_features(make_graph(nodes=60), 50))
    assert [rows[name].shape[1] for name in UNSEEDED] == [7, 35, 7, 7, 7, QUICK.size_waves]


def test_leading_directions_keep_angles(make_graph):
    graph = make_graph(nodes=60)
    hidden = np.random.default_rng(0).normal(size=(60, 4)) @ np.random.default_rng(1).normal(size=(4, 90))
    graph = replace(graph, features=hidden)
    few, all_of_them = rows_of(graph, replace(QUICK, directions=6)), rows_of(graph, replace(QUICK, directions=90))
    assert all_of_them[FEATURES].shape[1] == 90
    for name in (FEATURES, NEAR, FAR):
        np.testing.assert_allclose(angles(few[name]), angles(all_of_them[name]), atol=1e-3)


def test_narrow_features_are_not_projected(make_graph):
    graph = with_features(make_graph(), 3)
    found = build_views(graph, QUICK, 0, CPU)
    assert torch.equal(torch.from_numpy(found.parameters[f"{FEATURES}/basis"]), torch.eye(3))
    np.testing.assert_allclose(
        found.rows[FEATURES][:, :-1], centred(torch.from_numpy(graph.features.copy())), atol=1e-5
    )


@pytest.mark.parametrize("sparse", [True, False])
def test_dense_and_sparse_features_agree(make_graph, sparse):
    graph = make_graph(sparse=sparse)
    other = make_graph(sparse=not sparse)
    rows, others = rows_of(graph), rows_of(other)
    for name in UNSEEDED:
        np.testing.assert_allclose(angles(rows[name]), angles(others[name]), atol=1e-4)


def test_graph_without_edges(make_graph):
    graph = replace(make_graph(), adjacency=np.zeros((40, 40)))
    rows = rows_of(graph)
    for table in rows.values():
        assert table.isfinite().all()
    assert not rows[FAR_EDGES].any()
    for name in (NEAR, FAR):
        np.testing.assert_allclose(rows[name], rows[FEATURES], atol=1e-5)


@pytest.mark.parametrize("nodes", [1, 2, 17])
def test_small_graphs(nodes):
    graph = Graph(np.ones((nodes, nodes)) - np.eye(nodes), np.random.default_rng(0).random((nodes, 5)))
    found = build_views(graph, QUICK, 0, CPU)
    for table in (*found.rows.values(), *dict(views_elsewhere(found.parameters, QUICK, graph, CPU)).values()):
        assert table.shape[0] == nodes
        assert table.isfinite().all()


@pytest.mark.parametrize("columns", [np.ones(7), np.array([1, 2, 0.3])], ids=["all ones", "multiples"])
def test_constant_rows_become_zero(make_graph, columns):
    graph = make_graph(nodes=60)
    sizes = 1 + np.random.default_rng(0).random((60, 1))
    rows = rows_of(replace(graph, features=sizes * columns))
    for name in (FEATURES, NEAR, FAR):
        assert rows[name].abs().max() == 0


def test_other_features_are_refused(make_graph):
    graph = make_graph()
    found = build_views(graph, QUICK, 0, CPU)
    with pytest.raises(InputError, match="the model was trained on 12"):
        views_elsewhere(found.parameters, QUICK, make_graph(features=graph.num_features + 1), CPU)


def test_a_registered_view_is_built(make_graph, monkeypatch):
    monkeypatch.setattr(module, "VIEWS", dict(VIEWS))

    @view("degree")
    def degree(inputs):
        return module.with_ones(torch.from_numpy(inputs.sizes()[:, :2]).float())

    found = views_of(Inputs(make_graph(), QUICK, CPU), ["degree"])
    assert found.rows["degree"].shape == (40, 3)
    assert "degree/centre" in found.parameters
