"""The guard alone, request by request."""

import asyncio

import pytest

from mtgcn.studio.guard import HEADERS, MAX_BODY_BYTES, UPLOAD_PATH, Guard, Served

SERVED = Served("127.0.0.1", 8123, "the-token")
HOST = {"host": "127.0.0.1:8123"}
OPENED = HOST | {"cookie": "mtgcn-studio-8123=the-token"}
REFUSED_SOCKET = {"type": "websocket.close", "code": 1008, "reason": ""}


class Behind:
    """An application that reads the body and responds with 200."""

    read = None

    async def __call__(self, scope, receive, send):
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            return
        self.read, more = b"", True
        while more:
            message = await receive()
            self.read, more = self.read + message["body"], message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"behind"})


def respond(
    headers,
    *,
    path="/",
    query="",
    kind="http",
    body=(b"",),
    max_upload_bytes=10 * MAX_BODY_BYTES,
    served=SERVED,
    origins=(),
):
    """The messages sent, and the guarded application."""
    behind, sent, parts = Behind(), [], list(body)

    async def receive():
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def send(message):
        sent.append(message)

    pairs = headers.items() if isinstance(headers, dict) else headers
    listed = [(name.encode(), value.encode()) for name, value in pairs]
    scope = {"type": kind, "path": path, "query_string": query.encode(), "headers": listed}
    asyncio.run(Guard(behind, served, max_upload_bytes, lambda: origins)(scope, receive, send))
    return sent, behind


def status(*arguments, **settings):
    return respond(*arguments, **settings)[0][0]["status"]


def headers_of(sent):
    return {name.decode(): value.decode() for name, value in sent[0]["headers"]}


def test_every_address_has_its_own_token():
    first, second = Served("127.0.0.1", 80), Served("127.0.0.1", 80)
    assert first.token != second.token
    assert len(first.token) >= 32
    assert first.address == f"http://127.0.0.1/?token={first.token}"
    assert Served("::1", 8123).origin == "http://[::1]:8123"


def test_token_is_required():
    assert respond(OPENED)[1].read == b""
    wrong = ({}, {"cookie": "mtgcn-studio-8123=another"}, {"cookie": "other=the-token"})
    for headers, query in (*((HOST | one, "") for one in wrong), (HOST, "token=wrong")):
        sent, behind = respond(headers, query=query)
        assert sent[0]["status"] == 401
        assert behind.read is None
    assert respond(HOST, kind="websocket")[0] == [REFUSED_SOCKET]


def test_key_of_the_cookie_is_valid_after_a_restart_but_not_in_an_address():
    again = Served("127.0.0.1", 8123, "another-token", "the-key")
    kept = HOST | {"cookie": "mtgcn-studio-8123=the-key"}
    assert status(kept, served=again) == 200
    assert status(OPENED, served=again) == 401
    assert status(HOST, query="token=the-key", served=again) == 401
    assert status(HOST | {"cookie": "mtgcn-studio-8123="}) == 401
    sent, _ = respond(HOST, query="token=another-token", served=again)
    assert headers_of(sent)["set-cookie"].startswith("mtgcn-studio-8123=the-key; HttpOnly; SameSite=Strict")


def test_page_may_load_pictures_from_the_servers_of_the_table():
    def policy(path):
        return headers_of(respond(OPENED, path=path, origins=["https://p.org"])[0])["content-security-policy"]

    assert "img-src 'self' data: blob: https://p.org;" in policy("/")
    assert "p.org" not in policy("/export/labels.csv")


def test_token_moves_into_a_cookie():
    sent, behind = respond(HOST, query="token=the-token")
    assert headers_of(sent)["set-cookie"] == "mtgcn-studio-8123=the-token; HttpOnly; SameSite=Strict; Path=/"
    assert behind.read is None
    assert b"the-token" not in sent[1]["body"]


@pytest.mark.parametrize(
    "changed",
    [
        *({"host": host} for host in ("evil.example", "evil.example:8123", "127.0.0.1", "127.0.0.1:8124", "")),
        *({"host": host} for host in ("localhost:8123", "127.0.0.1:8123.")),
        *({"origin": origin} for origin in ("http://evil.example", "null", "https://127.0.0.1:8123")),
        *({"origin": origin} for origin in ("http://127.0.0.1:8124", "http://127.0.0.1")),
    ],
)
def test_other_host_or_origin_is_refused(changed):
    assert status(OPENED | changed) == 403
    assert status(OPENED | changed, query="token=the-token") == 403
    assert respond(OPENED | changed, kind="websocket")[0] == [REFUSED_SOCKET]


def test_two_host_headers_are_refused():
    assert status([*OPENED.items(), ("host", "evil.example")]) == 403


def test_own_requests_pass():
    own = {"origin": "http://127.0.0.1:8123", "cookie": 'a[b]=c; =; session="x; mtgcn-studio-8123=the-token; b=z'}
    assert status(OPENED | own) == 200
    assert respond(OPENED, kind="websocket")[0] == [{"type": "websocket.accept"}]


def test_every_response_has_the_security_headers():
    for headers, query in ((OPENED, ""), ({"host": "evil.example"}, ""), (HOST, "token=the-token")):
        names = headers_of(respond(headers, query=query)[0])
        assert all(names[name.lower()] == value for name, value in HEADERS.items())


def test_large_body_is_refused():
    whole = b"x" * (MAX_BODY_BYTES // 2)
    assert status(OPENED | {"content-length": str(MAX_BODY_BYTES + 1)}, body=[whole]) == 413
    assert status(OPENED | {"content-length": "-1"}) == 413
    assert status(OPENED, body=[whole, whole]) == 200
    assert status(OPENED, body=[whole, whole, b"x"]) == 413
    assert status(OPENED, body=[whole, whole, b"x"], path=UPLOAD_PATH) == 200
    assert status(OPENED, body=[b"12345"], path=UPLOAD_PATH, max_upload_bytes=4) == 413
