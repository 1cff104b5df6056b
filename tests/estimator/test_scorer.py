"""The scorer gives the answers of `predict_proba`, from several threads and without growing."""

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from mtgcn import MutualTeachingClassifier
from mtgcn.errors import InputError
from mtgcn.estimator.graph_model import GraphModel
from mtgcn.estimator.inference import _nearest
from mtgcn.linalg.neighbours import neighbour_search

pytestmark = pytest.mark.filterwarnings("ignore::mtgcn.uncertainty.warnings.FitWarning")
FEW = {"infomax_epochs": 3, "dimensions": 8, "size_waves": 16}


@pytest.fixture(scope="module")
def drawn():
    """A fitted model, rows that are new to it, and its scorer."""
    random = np.random.default_rng(0)
    truth = np.arange(90) % 3
    rows = random.normal(size=(90, 6)) + 3 * np.eye(3, 6)[truth]
    model = MutualTeachingClassifier(random_state=0, neighbors=5, settings=FEW)
    model.fit(rows, np.where(np.arange(90) < 15, truth, -1))
    return model, rows + 0.1 * random.normal(size=rows.shape), model.scorer()


def test_answers_equal_predict_proba(drawn):
    model, rows, scorer = drawn
    for row in rows[:10]:
        assert scorer(row) == pytest.approx(model.predict_proba(row[None])[0], abs=1e-6)
        joined = model.predict_proba(row[None], edges=[(90, 4, 0.5), (90, 17, 2.0), (90, 17, 1.0)])[0]
        assert scorer(row.tolist(), [(4, 0.5), (17, 2.0), ("17", 1.0)]) == pytest.approx(joined, abs=1e-6)
    assert scorer(rows[0], [3, 5]) == pytest.approx(
        model.predict_proba(rows[:1], edges=[(90, 3), (90, 5)])[0], abs=1e-6
    )
    assert scorer(rows[0], []).sum() == pytest.approx(1)
    assert not np.array_equal(scorer(rows[0], []), scorer(rows[0]))


def test_mappings_are_preprocessed_as_in_the_fit():
    random = np.random.default_rng(1)
    truth = np.arange(60) % 2
    frame = pd.DataFrame({"size": random.normal(size=60) + 3 * truth, "place": np.where(truth, "north", "south")})
    frame.loc[3, "size"] = np.nan
    model = MutualTeachingClassifier(random_state=0, settings=FEW).fit(frame, np.where(np.arange(60) < 12, truth, -1))
    new = pd.DataFrame({"size": [0.4], "place": ["north"]})
    assert model.scorer()({"place": "north", "size": 0.4}) == pytest.approx(model.predict_proba(new)[0], abs=1e-6)
    missing = model.scorer()({"place": "south", "size": None})
    assert missing == pytest.approx(model.predict_proba(new.assign(size=np.nan, place="south"))[0], abs=1e-6)


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan"])
@pytest.mark.parametrize("sparse", [False, True])
def test_nearest_rows_are_those_of_the_exact_search(metric, sparse):
    random = np.random.default_rng(2)
    offset = 1000 if metric == "euclidean" and not sparse else 0.01
    table = (random.random((300, 8)) * (random.random((300, 8)) < 0.7) + offset).astype(np.float32)
    stored = sp.csr_array(table) if sparse else table
    found = _nearest(stored, 4, metric)
    search = neighbour_search(table, 4, metric)
    for row in table[:20, None] + random.random((20, 1, 8), dtype=np.float32) / 10:
        assert found(sp.csr_array(row) if sparse else row).tolist() == search(row)[0].tolist()


def test_threads_get_the_answers_of_one_thread(drawn):
    _, rows, scorer = drawn
    expected = [scorer(row) for row in rows]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            assert np.array_equal(list(pool.map(scorer, rows)), expected)


def test_calls_leave_nothing_behind(drawn):
    _, rows, scorer = drawn
    scorer(rows[0])
    gc.collect()
    before = len(gc.get_objects())
    for row in rows:
        scorer(row)
        scorer(row, [1, 2])
    gc.collect()
    assert len(gc.get_objects()) - before < len(rows) / 2


@pytest.mark.parametrize(
    ("features", "edges", "message"),
    [
        ([1.0, 2.0], None, "2 features, but the fit has 6"),
        (["a"] * 6, None, "neither numbers"),
        ([np.inf] * 6, None, "infinite"),
        ({"a": 1}, None, "no names"),
        ([0.0] * 6, ["unknown"], "no node 'unknown'"),
        ([0.0] * 6, [(1, -2.0)], "not positive"),
    ],
)
def test_bad_input_is_refused(drawn, features, edges, message):
    with pytest.raises(InputError, match=message):
        drawn[2](features, edges)


def test_models_without_parameters_or_features_have_no_scorer(make_graph):
    with pytest.raises(InputError, match="no trained parameters"):
        GraphModel("lp").fit_graph(make_graph()).scorer()
