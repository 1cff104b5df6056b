"""The server of a model: answers, access, limits, log."""

import json

import numpy as np
import pytest
from starlette.testclient import TestClient

from mtgcn import MutualTeachingClassifier
from mtgcn.cli.app import main
from mtgcn.studio.api import ApiGuard, application
from mtgcn.studio.server import MAX_BODY_BYTES, Served

pytestmark = pytest.mark.filterwarnings("ignore::mtgcn.uncertainty.warnings.FitWarning")
SERVED = Served("127.0.0.1", 8000, "secret")
BEARER = {"Authorization": "Bearer secret"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    random = np.random.default_rng(0)
    truth = np.arange(60) % 2
    rows = random.normal(size=(60, 4)) + 3 * truth[:, None]
    model = MutualTeachingClassifier(random_state=0, settings={"infomax_epochs": 3, "dimensions": 8})
    model.fit(rows, np.where(np.arange(60) < 12, truth, -1))
    model.save(folder := tmp_path_factory.mktemp("served") / "model")
    return model, folder


@pytest.fixture(scope="module")
def app(model):
    return application(model[1])


def opened(app, headers=BEARER, *, needs_token=True):
    """A client of the guarded application."""
    return TestClient(ApiGuard(app, SERVED, needs_token=needs_token), base_url=SERVED.origin, headers=headers)


@pytest.fixture
def client(app):
    return opened(app)


def test_answers_are_those_of_the_model(model, client, app):
    fitted, folder = model
    row = [0.2, 1.5, 3.0, -1.0]
    for edges in (None, [3, "5"], [(3, 2.0)]):
        found = client.post("/predict", json={"features": row, "edges": edges}).json()
        expected = fitted.scorer()(row, edges)
        assert list(found["probabilities"].values()) == pytest.approx(expected.tolist(), abs=1e-6)
        assert found["predicted"] == str(fitted.classes_[expected.argmax()])
    assert client.post("/explain", json={"node": 20}).json()["sentence"] == fitted.explain(20).sentence
    assert client.get("/health").json() == client.get("/health").json() | {"status": "ok", "nodes": 60}
    again = opened(application(folder))
    body = {"features": row}
    assert again.post("/predict", json=body).json() == client.post("/predict", json=body).json()  # after a restart
    assert "/predict" in client.get("/").text
    assert {"/predict", "/explain", "/health"} == set(client.get("/openapi.json").json()["paths"])


def test_access(app, client):
    body = {"features": [0.0] * 4}
    assert client.post("/predict", json=body, headers={"Authorization": "Bearer other"}).status_code == 401
    assert client.post("/predict", json=body, headers={"Host": "evil.example"}).status_code == 403
    assert client.post("/predict", json=body, headers={"Origin": "http://evil.example"}).status_code == 403
    browser = opened(app, {})
    refusal = browser.get("/health")
    assert refusal.status_code == 401
    assert refusal.json()["detail"].startswith("the token is missing or wrong; send Authorization: Bearer")
    browser.get(SERVED.address)  # sets the cookie
    assert browser.get("/health").status_code == 200
    free = opened(app, {}, needs_token=False)
    assert free.post("/predict", json=body).status_code == 200
    assert free.post("/predict", json=body, headers={"Origin": "http://evil.example"}).status_code == 403


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/predict", {"features": [1.0]}, "1 features, but the fit has 4"),
        ("/predict", {"features": [0.0] * 4, "edges": ["x"]}, "no node 'x'"),
        ("/predict", {"features": [0.0] * 4, "more": 1}, "Extra inputs"),
        ("/predict", {"features": [0.0] * 4, "edges": list(range(10_001))}, "at most 10000"),
        ("/explain", {"node": "x"}, "no node 'x'"),
    ],
)
def test_bad_requests_are_refused_with_a_reason(client, path, body, message):
    found = client.post(path, json=body)
    assert found.status_code == 422
    assert message in found.text


def test_large_bodies_are_refused(client):
    assert client.post("/predict", content=b" " * (MAX_BODY_BYTES + 1)).status_code == 413


def test_log_is_one_line_of_json_for_each_request(client, capsys):
    client.get("/health")
    client.get("/absent?token=secret")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["method"], line["path"], line["status"]) for line in lines] == [
        ("GET", "/health", 200),
        ("GET", "/absent", 404),
    ]
    assert "secret" not in str(lines)


def test_no_token_is_refused_on_another_host(capsys):
    assert main(["serve", "model", "--no-token", "--host", "10.0.0.1"]) == 2
    assert "--no-token requires a local host, not 10.0.0.1" in capsys.readouterr().err
