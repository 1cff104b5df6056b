"""Features as the peers see them: in the fit, for new rows, for another graph, and after a model was stored."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits, load_wine

from mtgcn import Graph, MutualTeachingClassifier, load, read_graph
from mtgcn.errors import InputError
from mtgcn.estimator.model_folder import save_model
from mtgcn.estimator.preparing import prepared_graph

QUICK = {"settings": {"epochs": 30}, "random_state": 0, "device": "cpu"}
ROWS = 60


def gcn(**parameters):
    return MutualTeachingClassifier("gcn", **QUICK | parameters)


def people():
    """Two kinds of people in mixed columns, every column but the last two with something to tell."""
    random = np.random.default_rng(0)
    kind = np.arange(ROWS) % 2
    columns = {
        "income": np.where(random.random(ROWS) < 0.1, np.nan, random.normal(30000 + 30000 * kind, 6000)),
        "rating": random.normal(2 + kind, 0.3),
        "city": [("Köln", "Ulm", None)[int(place)] for place in (kind + (random.random(ROWS) < 0.2)) % 3],
        "joined": [
            datetime.date(2020 + int(one), 1, 1) + datetime.timedelta(int(day))
            for one, day in zip(kind, random.integers(300, size=ROWS), strict=True)
        ],
        "member": (kind == 1) ^ (random.random(ROWS) < 0.1),
        "notes": [f"note {number}" for number in range(ROWS)],
        "country": ["DE"] * ROWS,
    }
    return columns, kind, np.where(np.arange(ROWS) < 8, kind, -1)


@pytest.mark.parametrize("package", [pd, pl])
def test_frames_of_mixed_columns(package, tmp_path):
    columns, kind, y = people()
    frame = package.DataFrame(columns)
    model = gcn().fit(frame, y)
    assert (model.transduction_ == kind).mean() > 0.9
    assert model.n_features_in_ == 7
    assert model.feature_names_in_.tolist() == list(columns)
    assert model.graph_.preprocessing.lines()[-2:] == [
        "notes: left out, 60 different values",
        "country: left out, always 'DE'",
    ]
    np.testing.assert_array_equal(model.predict_proba(frame), model.label_distributions_)
    new = frame[8:20] if package is pl else frame.iloc[8:20]
    np.testing.assert_array_equal(model.predict_proba(new), model.label_distributions_[8:20])
    save_model(model, tmp_path / "model")
    loaded = MutualTeachingClassifier.load(tmp_path / "model")
    assert loaded.graph_.preprocessing == model.graph_.preprocessing
    assert loaded.n_features_in_ == 7
    np.testing.assert_array_equal(loaded.predict_proba(new), model.predict_proba(new))
    unseen = package.DataFrame(
        {"income": [float("nan")], "rating": [9.0], "city": ["Paris"], "joined": [None], "member": [None]}
        | {"notes": ["x"], "country": ["FR"]}
    )
    assert np.isfinite(loaded.predict_proba(unseen)).all()


def test_arrays_are_standardised_unless_they_are_counts_or_sparse_or_it_is_turned_off():
    random = np.random.default_rng(0)
    y = np.where(np.arange(40) < 6, np.arange(40) % 2, -1)
    measured = random.normal(0, 1, (40, 3)) * [1, 100, 10000]
    features = gcn().fit(measured, y).graph_.features
    np.testing.assert_allclose(features.std(axis=0), 1, atol=1e-5)
    for left in (
        gcn(scale=False).fit(measured, y),
        gcn().fit(sp.csr_array(measured), y),
        gcn().fit(random.poisson(2, (40, 3)), y),
        gcn().fit(load_digits().data[:40] / 16, y),
    ):
        assert left.graph_.preprocessing is None
    np.testing.assert_array_equal(gcn(scale=False).fit(measured, y).graph_.features, measured.astype(np.float32))


def test_missing_numbers_of_arrays_are_filled_unless_scaling_is_off():
    rows = np.random.default_rng(0).normal(size=(30, 2))
    rows[3, 1] = np.nan
    y = np.where(np.arange(30) < 6, np.arange(30) % 2, -1)
    model = gcn().fit(rows, y)
    assert (model.n_features_in_, model.graph_.num_features) == (2, 3)
    np.testing.assert_array_equal(model.predict_proba(rows[2:5]), model.label_distributions_[2:5])
    with pytest.raises(ValueError, match="contains NaN"):
        gcn(scale=False).fit(rows, y)


def test_a_graph_that_was_prepared_on_its_own_is_refused(write_files):
    folder = write_files
    model = gcn().fit_graph(read_graph(folder / "edges.csv", nodes=folder / "nodes.csv", labels=folder / "labels.csv"))
    other = folder / "other.csv"
    other.write_text("id,size,city\nx,40,Ulm\ny,90,Hof\nz,10,Ulm\n")
    (folder / "links.csv").write_text("source,target\nx,y\ny,z\n")
    alone = read_graph(folder / "links.csv", nodes=other)
    with pytest.raises(InputError, match=r"prepared on their own.*preprocessing=model.graph_.preprocessing"):
        model.predict_proba(graph=alone)
    alike = read_graph(folder / "links.csv", nodes=other, preprocessing=model.graph_.preprocessing)
    assert model.predict_proba(graph=alike).shape == (3, 2)


@pytest.fixture
def write_files(tmp_path):
    rows = [f"n{row},{row * 1.5},{('Ulm', 'Hof')[row % 2]}" for row in range(12)]
    (tmp_path / "nodes.csv").write_text("id,size,city\n" + "\n".join(rows))
    (tmp_path / "edges.csv").write_text("source,target\n" + "\n".join(f"n{row},n{(row + 2) % 12}" for row in range(12)))
    (tmp_path / "labels.csv").write_text("id,label\nn0,even\nn1,odd\n")
    return tmp_path


def test_features_of_a_graph_are_prepared_too_and_those_of_another_alike(ring_of_measurements):
    graph = ring_of_measurements
    model = gcn().fit_graph(graph)
    assert model.graph_.features.std() == pytest.approx(1, abs=1e-4)
    renamed = Graph(graph.adjacency, graph.features, node_ids=[f"m{node}" for node in range(20)])
    np.testing.assert_allclose(model.predict_proba(graph=renamed), model.label_distributions_, atol=1e-5)
    with pytest.raises(InputError, match="1 features for each node of the graph and 2 in training"):
        model.predict_proba(graph=Graph(graph.adjacency, graph.features[:, :1]))


@pytest.fixture
def ring_of_measurements():
    nodes = np.arange(20)
    adjacency = sp.coo_array((np.ones(20), (nodes, (nodes + 1) % 20)), shape=(20, 20)).tocsr()
    features = np.random.default_rng(0).normal(size=(20, 2)) * [1, 1000]
    return Graph(adjacency + adjacency.T, features, np.where(nodes < 4, nodes % 2, -1), class_names=("a", "b"))


def test_columns_that_tell_nothing_are_refused():
    with pytest.raises(InputError, match=r"nothing can be learned from these columns .a: left out, always 'x'"):
        gcn().fit(pd.DataFrame({"a": ["x"] * 6}), [0, 1, -1, -1, -1, -1])


@pytest.mark.slow
def test_wine_as_it_is_poured():
    """Columns from 0.1 to 1700: 64 % where they are not standardised."""
    rows, truth = load_wine(return_X_y=True)
    shares = []
    for seed in range(5):
        random = np.random.default_rng(seed)
        y = np.full(len(truth), -1)
        for number in range(3):
            y[random.choice(np.flatnonzero(truth == number), 5, replace=False)] = number
        model = MutualTeachingClassifier(random_state=seed, device="cpu").fit(rows, y)
        shares.append((model.transduction_ == truth)[y == -1].mean())
    assert np.mean(shares) > 0.93


@pytest.mark.data
@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed", "digits"])
def test_named_datasets_are_left_as_they_are(name):
    graph = load(name)
    assert prepared_graph(graph, scale=True) is graph


cells = st.one_of(
    st.none(),
    st.text(max_size=4),
    st.sampled_from(["NA", "1,5", "2024-01-01", "ja", "nein", "Ulm"]),
    st.integers(-3, 3),
    st.floats(-1e6, 1e6),
    st.booleans(),
)
frames = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(cells, min_size=12, max_size=12), min_size=width, max_size=width)
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(columns=frames, data=st.data())
def test_any_frame_is_fitted_and_predicted_or_refused_in_one_line(columns, data):
    names = [f"c{number}" for number in range(len(columns))]
    fitted = pd.DataFrame(dict(zip(names, columns, strict=True)))
    new = pd.DataFrame({name: data.draw(st.lists(cells, min_size=3, max_size=3)) for name in names})
    message = ""
    try:
        model = gcn(settings={"epochs": 2}, neighbors=3).fit(fitted, [0, 1] + [-1] * 10)
        answers = model.predict_proba(new)
    except InputError as error:
        message = str(error)
    assert message.count("\n") == 0
    if not message:
        assert np.isfinite(model.label_distributions_).all()
        assert np.isfinite(answers).all()
