"""Any input of `fit` gives probabilities or one error, never NaN or another exception."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from mtgcn import MutualTeachingClassifier
from mtgcn.estimator.inputs import classes_and_labels

QUICK = {
    "mt-gcn": {"warmup_epochs": 3, "teaching_epochs": 3},
    "mt-plus": {"warmup_epochs": 2, "teaching_epochs": 2, "infomax_epochs": 2, "dimensions": 4},
    "gcn": {"epochs": 3},
    "self-training": {"epochs": 2},
    "lp": {},
}
EXTREMES = (0.0, -0.0, 1.0, -1.0, 1e-40, 3e38, -3e38)  # up to about the range of 32-bit floats


@pytest.fixture(autouse=True, scope="module")
def empty_cache(tmp_path_factory):
    """Keeps the user's cache unchanged."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MTGCN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@st.composite
def tables(draw, rows):
    """Features: without pattern, constant, all zero, in a few equal rows, or as extreme as numbers get."""
    kind = draw(st.sampled_from(["random", "zero", "constant", "equal rows", "extreme", "sparse"]))
    columns = draw(st.integers(1, 4))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    if kind == "zero":
        return np.zeros((rows, columns))
    if kind == "constant":
        return np.full((rows, columns), draw(st.sampled_from(EXTREMES)))
    values = random.normal(size=(rows, columns))
    if kind == "equal rows":
        return values[random.integers(0, min(rows, 2), rows)]
    if kind == "extreme":
        return random.choice(EXTREMES, (rows, columns))
    return sp.csr_matrix(values * (random.random((rows, columns)) < 0.4)) if kind == "sparse" else values


@st.composite
def edges(draw, nodes):
    """Edges with any number of components, isolated nodes, self-edges, repetitions; as an edge index or a matrix."""
    pairs = draw(st.lists(st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)), max_size=2 * nodes))
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    if draw(st.booleans()):
        return ends
    weights = draw(st.sampled_from([1.0, 1e-30, 1e30, 0.0]))
    return sp.coo_array((np.full(ends.shape[1], weights), tuple(ends)), shape=(nodes, nodes))


@st.composite
def problems(draw):
    nodes = draw(st.integers(1, 14))
    table = draw(st.none() | tables(nodes))
    graph = draw(edges(nodes) if table is None else st.none() | edges(nodes))
    classes = draw(st.integers(1, 4))
    y = draw(st.lists(st.integers(-1, classes - 1), min_size=nodes, max_size=nodes))
    return table, np.array(y), graph


def assert_distributions(probabilities, rows, classes):
    assert probabilities.shape == (rows, classes)
    assert np.isfinite(probabilities).all()
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)


@pytest.mark.filterwarnings("ignore::mtgcn.errors.GraphNote")
@settings(deadline=None, max_examples=150)
@given(problems(), st.sampled_from(sorted(QUICK)), st.integers(1, 3))
def test_fit_gives_probabilities_or_one_error(problem, method, neighbors):
    table, y, graph = problem
    model = MutualTeachingClassifier(method, settings=QUICK[method], neighbors=neighbors, random_state=0)
    try:
        model.fit(table, y, graph=graph)
    except ValueError:
        return
    known = y != -1
    assert_distributions(model.label_distributions_, len(y), len(np.unique(y[known])))
    np.testing.assert_array_equal(model.labeled_iter_ == 0, known)
    if table is not None and model.parameters_ is not None:
        new = table[:1] + table[-1:]
        try:
            probabilities = model.predict_proba(new)
        except ValueError:
            return
        assert_distributions(probabilities, 1, len(model.classes_))


LABELS = st.sampled_from([-1, 0, 1, 2.0, 2.5, float("nan"), float("inf"), None, "", "a", "b", "-1", True, (), b"x"])


@settings(deadline=None, max_examples=300)
@given(st.lists(LABELS, max_size=6), st.booleans())
def test_labels_of_any_type(labels, as_array):
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    try:
        classes, codes = classes_and_labels(array if as_array else labels)
    except ValueError:
        return
    assert len(codes) == len(labels)
    for label, code in zip(labels, codes, strict=True):
        is_missing = label is None or label in ("", -1) or label != label
        assert is_missing if code == -1 else classes[code] == label
