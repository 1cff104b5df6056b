"""The classifier from Python: any method, any parameters, tables, labels and graphs of every kind."""

import traceback
from dataclasses import fields

import networkx as nx
import numpy as np
import pandas as pd
import polars
import scipy.sparse as sp
import torch

from fuzz import malformed
from fuzz.case import require, require_sound_probabilities
from mtgcn import Graph, MutualTeachingClassifier
from mtgcn.errors import InputError
from mtgcn.methods import METHODS

# Short fits of every method.
SHORT = {
    **dict.fromkeys(("epochs", "warmup_epochs", "teaching_epochs", "infomax_epochs", "iterations"), 3),
    **dict.fromkeys(("label_batches", "walks_per_node", "rounds", "embeddings", "stages"), 2),
    "walk_length": 5,
    "dimensions": 8,
    "hidden_channels": 4,
    "clusters": 5,
    "others": 10,
}
PARAMETERS = {
    "neighbors": (0, -1, 1, 3, 1.5, "3", None, 10**9, True, np.int64(2)),
    "metric": ("cosine", "manhattan", "correlation", "chebyshev", None, 5, "no such", "precomputed", ""),
    "mutual_neighbors": (True, None, "yes"),
    "scale": (False, None, 0),
    "settings": (None, {}, "a", 5, {"no such": 1}, {5: 1}, [("epochs", 3)]),
    "device": ("cpu", "auto", torch.device("cpu"), None, 5, "cuda:0", "no such", torch.device("meta")),
    "random_state": (None, 0, -1, 1.5, "a", 2**70, np.random.RandomState(0), np.random.default_rng(0)),
    "backbone": (None, "no such", "gat", "appnp", 5, torch.nn.Linear(3, 2)),
    "method": (None, "no such", "", 5, METHODS["gcn"], METHODS["lp"]()),
}


def short_settings(method):
    return {field.name: SHORT[field.name] for field in fields(METHODS[method]) if field.name in SHORT}


def random_case(random):
    method = random.choice(list(METHODS))
    nodes = random.choice((3, 6, 6, 12, 12, 20))
    # Most cases have one or two odd parts: where all parts are odd, only the first check runs.
    odd = random.sample(("features", "labels", "graph", "parameters"), random.choice((1, 1, 1, 2, 2, 4)))
    features = _features(random, nodes) if "features" in odd else _plain_features(random, nodes)
    labels = _labels(random, nodes) if "labels" in odd else _plain_labels(random, nodes)
    graph = _graph(random, nodes) if "graph" in odd else _ring(nodes)
    parameters = {"settings": short_settings(method), "random_state": 0}
    if "parameters" in odd:
        name = random.choice(list(PARAMETERS))
        parameters[name] = random.choice(PARAMETERS[name])
    return case_of(method, features, labels, graph, parameters, later=random.random() < 0.4)


def case_of(method, features, labels, graph, parameters, *, later=False):
    def case(folder):
        model = MutualTeachingClassifier(**{"method": method} | parameters)
        try:
            model.fit(features, labels, graph=graph)
        except (ValueError, TypeError) as refusal:
            _require_meant(refusal)
            raise InputError("refused, as scikit-learn does") from None
        nodes = model.graph_.num_nodes
        require_sound_probabilities(model.predict_proba(), nodes, len(model.classes_))
        require(np.isin(model.transduction_, model.classes_).all(), "classes that are none")
        require(all(not np.isinf(values).any() for values in model.history_.values()), "an infinite history")
        if later:
            _used_later(model, features, folder)

    return case


def _used_later(model, features, folder):
    """A model predicts the same after it is saved and loaded."""
    model.suggest(1)
    model.save(folder / "model")
    loaded = MutualTeachingClassifier.load(folder / "model")
    require(np.array_equal(loaded.predict_proba(), model.predict_proba()), "other predictions after loading")
    if features is not None:
        require_sound_probabilities(model.predict_proba(features), model.graph_.num_nodes, len(model.classes_))


def _require_meant(refusal):
    """Accept our own errors, and those of scikit-learn's checks of X and y."""
    if isinstance(refusal, InputError):
        raise refusal
    last = traceback.extract_tb(refusal.__traceback__)[-1]
    checks = ("sklearn/utils/validation.py", "sklearn/utils/multiclass.py", "sklearn/utils/_array_api.py")
    if not last.filename.endswith(checks):
        raise refusal


def _plain_features(random, nodes):
    return np.array([[random.gauss(0, 1) for _ in range(4)] for _ in range(nodes)])


def _plain_labels(random, nodes):
    classes = random.choice((2, 2, 3, 4))
    return np.array([place % classes if place < max(2 * classes, nodes // 2) else -1 for place in range(nodes)])


def _ring(nodes):
    return np.eye(nodes, k=1) + np.eye(nodes, k=-1)


def _features(random, nodes):
    plain, texts = _plain_features(random, nodes), [malformed.text(random)[:50] for _ in range(nodes)]
    scale = random.choice((1e-45, 1e-40, 1e-30, 1e14, 1e30, 0))
    scales = 10.0 ** np.array([random.randint(-40, 15) for _ in range(4)])
    kinds = (
        *(plain, plain, plain * scale, plain * scales, plain.tolist(), torch.from_numpy(plain), None),
        *(sp.csr_array(plain * (plain > 0)), sp.csr_array(plain * 1e14), sp.csr_array(0 * plain), sp.coo_matrix(plain)),
        *(malformed.array(random, plain), malformed.array(random, plain), malformed.json_value(random)),
        *(np.ones((nodes, 1)), np.zeros((nodes, 0)), [[text, text] for text in texts]),
        *(pd.DataFrame({"a": plain[:, 0], "b": texts}), polars.DataFrame({"a": plain[:, 0], "b": texts})),
        pd.DataFrame({"a": pd.Categorical(list("ab" * nodes)[:nodes]), "b": pd.Timestamp("2020-01-01")}),
    )
    return random.choice(kinds)


def _labels(random, nodes):
    plain = _plain_labels(random, nodes)
    named = [None if label < 0 else "abcd"[label] for label in plain]
    kinds = (
        *(plain, plain, plain, plain.tolist(), plain * 10**9, plain.astype(float), plain[:, None], np.arange(nodes)),
        *(named, np.array(named, dtype=object), pd.Series(named), [label and label.encode() for label in named]),
        *([make(random) for _ in range(nodes)] for make in (malformed.text, malformed.number)),
        *(malformed.array(random, plain), malformed.json_value(random), np.full(nodes, -1), np.zeros(nodes), None),
    )
    return random.choice(kinds)


def _graph(random, nodes):
    ring = _ring(nodes)
    edges = np.array([[random.randrange(nodes) for _ in range(2 * nodes)] for _ in range(2)])
    spread = np.triu(10.0 ** np.array([[random.randint(-40, 15) for _ in range(nodes)] for _ in range(nodes)]))
    both_ways, scale = spread + spread.T, random.choice((1e-45, 1e-44, 1e-30, 1e10, 1e15, 1e30))
    kinds = (
        *(None, None, ring, sp.csr_array(ring), Graph.from_scipy(ring), torch.from_numpy(ring).to_sparse()),
        *(ring * scale, both_ways, both_ways * (ring > 0), edges, torch.from_numpy(edges), edges.tolist()),
        *(np.eye(nodes), sp.eye_array(nodes), np.ones((nodes, nodes)), np.ones((nodes,) * 3)),
        *(nx.path_graph(nodes), nx.star_graph(nodes - 1), nx.Graph(), malformed.json_value(random)),
        *(malformed.array(random, plain) for plain in (ring, ring, edges, edges)),
    )
    return random.choice(kinds)


RANDOM = np.random.default_rng(0)
TABLE = RANDOM.normal(size=(20, 6)).astype(np.float32)
GIVEN = np.array([0, 1, 2, 0, 1, 2] + [-1] * 14)
EDGES = np.triu(RANDOM.random((20, 20)) < 0.2, 1).astype(float)
EDGES += EDGES.T


def _case(method, features=TABLE, labels=GIVEN, graph=EDGES, *, later=False, **parameters):
    settings = short_settings(method) if isinstance(method, str) else None
    return case_of(method, features, labels, graph, {"settings": settings, "random_state": 0} | parameters, later=later)


def _unit_case(method, unit):
    """Predictions do not depend on the unit of edge weights; powers of two change no digit of a weight."""

    def case(folder):
        weights = EDGES * np.random.default_rng(1).random(EDGES.shape)
        found = [
            MutualTeachingClassifier(method, settings=short_settings(method), random_state=0)
            .fit(TABLE, GIVEN, graph=scale * (weights + weights.T))
            .predict_proba()
            for scale in (1.0, unit)
        ]
        require(np.allclose(*found, atol=1e-6), f"probabilities that differ by {np.abs(found[0] - found[1]).max():.2g}")

    return case


HALVES = np.array([0, 1] * 5 + [-1] * 140)
REGRESSIONS = {
    "mt-plus, weights times 2^-7": _unit_case("mt-plus", 2.0**-7),
    "gcn, weights times 2^-40": _unit_case("gcn", 2.0**-40),
    "ica, features of 1e15": _case("ica", np.where(np.arange(6) == 2, 1e15, TABLE), scale=False),
    "chebyshev on self-loops alone": _case("chebyshev", graph=np.eye(20)),
    "chebyshev on many self-loops alone": _case("chebyshev", np.ones((150, 2)), HALVES, sp.eye_array(150)),
    "semi-emb with weights of 1e-44": _case("semi-emb", graph=EDGES * np.float32(1e-44)),
    "no metric": _case("gcn", graph=None, metric=None),
    "a metric that is a number": _case("gcn", graph=None, metric=5),
    **{f"device {device!r}": _case("gcn", device=device) for device in PARAMETERS["device"]},
    **{f"settings {settings!r}": _case("gcn", settings=settings) for settings in ("a", 5, {5: 1})},
    **{f"random_state {state!r}": _case("gcn", random_state=state) for state in (-1, 1.5, "a")},
    "a method that is a number": _case(5),
    "a method that is a class": _case(METHODS["gcn"]),
    "suggestions where weights are 1e-44": _case("ppr", graph=EDGES * np.float32(1e-44), later=True),
    "bytes as labels": _case("gcn", labels=[b"a", b"b", *[None] * 18]),
    "an adjacency of three axes": _case("gcn", graph=np.ones((20, 20, 20))),
    "a node numbered 10^12": _case("gcn", graph=np.array([[0, 10**12], [1, 2]])),
}
