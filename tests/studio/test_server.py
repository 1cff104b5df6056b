"""The server: the guard in front of a small application, then the studio on loopback."""

import os
import signal
import socket
from importlib.metadata import version

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from mtgcn.studio.server import (
    HEADERS,
    MAX_BODY_BYTES,
    SESSION,
    UPLOAD_PATH,
    Guard,
    Served,
    last_start,
    listen,
    redirect_page,
    write_private,
)
from studio_server import studio

SOCKET = "/_nicegui_ws/socket.io/?EIO=4&transport="
PATHS = [
    "/",
    "/studio.css",
    f"/_nicegui/{version('nicegui')}/static/nicegui.js",
    f"{SOCKET}polling",
    "/export/labels.csv",
    "/_nicegui/client/1/upload/2",
    "/nowhere",
]
SERVED = Served("127.0.0.1", 8123, "the-token")
OPENED = {"cookie": "mtgcn-studio-8123=the-token"}


async def body(request):
    return PlainTextResponse(await request.body())


async def accept(websocket):
    await websocket.accept()
    await websocket.close()


BEHIND = Starlette(routes=[Route("/{path:path}", body, methods=["GET", "POST"]), WebSocketRoute("/", accept)])


def client(served=SERVED, max_upload_bytes=10 * MAX_BODY_BYTES, origins=()):
    return TestClient(Guard(BEHIND, served, max_upload_bytes, lambda: origins), base_url=served.origin)


def status(path="/", headers=OPENED, served=SERVED, **body):
    return client(served).request("POST", path, headers=headers, **body).status_code


def websocket_status(headers):
    try:
        with client().websocket_connect(f"ws://{SERVED.authority}/", headers=dict(headers)):
            return 101
    except WebSocketDisconnect as refused:
        return refused.code


def test_every_address_has_its_own_token():
    first, second = Served("127.0.0.1", 80), Served("127.0.0.1", 80)
    assert first.token != second.token
    assert len(first.token) >= 32
    assert first.address == f"http://127.0.0.1/?token={first.token}"
    assert Served("::1", 8123).origin == "http://[::1]:8123"


def test_token_is_required():
    assert client().post("/", headers=OPENED, content=b"behind").text == "behind"
    assert status(headers={"cookie": 'a[b]=c; =; session="x; mtgcn-studio-8123=the-token; b=z'}) == 200
    for headers in ({}, {"cookie": "mtgcn-studio-8123=another"}, {"cookie": "other=the-token"}):
        assert status(headers=headers) == 401
    assert status("/?token=wrong", {}) == 401
    assert websocket_status({}) == 1008
    assert websocket_status(OPENED) == 101


def test_key_of_the_cookie_is_valid_after_a_restart_but_not_in_an_address():
    again = Served("127.0.0.1", 8123, "another-token", "the-key")
    assert status(headers={"cookie": "mtgcn-studio-8123=the-key"}, served=again) == 200
    assert status(served=again) == 401
    assert status("/?token=the-key", {}, again) == 401
    assert status(headers={"cookie": "mtgcn-studio-8123="}) == 401
    cookie = client(again).get("/?token=another-token").headers["set-cookie"]
    assert cookie.startswith("mtgcn-studio-8123=the-key; HttpOnly; SameSite=Strict")


def test_page_may_load_pictures_from_the_servers_of_the_table():
    def policy(path):
        return client(origins=["https://p.org"]).get(path, headers=OPENED).headers["content-security-policy"]

    assert "img-src 'self' data: blob: https://p.org;" in policy("/")
    assert "p.org" not in policy("/export/labels.csv")


def test_token_moves_into_a_cookie():
    answer = client().get("/?token=the-token")
    assert answer.headers["set-cookie"] == "mtgcn-studio-8123=the-token; HttpOnly; SameSite=Strict; Path=/"
    assert "location.replace" in answer.text
    assert "the-token" not in answer.text


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
    assert status(headers=OPENED | changed) == 403
    assert status("/?token=the-token", changed) == 403
    assert websocket_status(OPENED | changed) == 1008


def test_two_host_headers_are_refused():
    assert status(headers=[*OPENED.items(), ("host", "127.0.0.1:8123"), ("host", "evil.example")]) == 403


def test_own_origin_passes():
    assert status(headers=OPENED | {"origin": "http://127.0.0.1:8123"}) == 200


def test_every_response_has_the_security_headers():
    for path, headers in (("/", OPENED), ("/", {"host": "evil.example"}), ("/?token=the-token", {})):
        found = client().get(path, headers=headers).headers
        assert all(found[name] == value for name, value in HEADERS.items())


def test_large_body_is_refused():
    half = b"x" * (MAX_BODY_BYTES // 2)
    assert status(headers=OPENED | {"content-length": str(MAX_BODY_BYTES + 1)}, content=half) == 413
    assert status(headers=OPENED | {"content-length": "-1"}) == 413
    for parts, path, expected in (
        ([half, half], "/", 200),
        ([half, half, b"x"], "/", 413),
        ([half, half, b"x"], UPLOAD_PATH, 200),
    ):
        assert status(path, content=iter(parts)) == expected  # without a content length
    assert client(max_upload_bytes=4).post(UPLOAD_PATH, headers=OPENED, content=iter([b"12345"])).status_code == 413


# The studio on loopback


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with studio(tmp_path_factory.mktemp("studio")) as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_every_path_is_guarded(server, path):
    assert server.ask(path)[0] == 401
    assert server.ask(path, server.opened | {"Origin": server.served.origin})[0] in (200, 404, 405, 409)
    assert server.ask(path, server.opened | {"Origin": "http://evil.example"})[0] == 403
    assert server.ask(path, server.opened | {"Host": f"localhost:{server.served.port}"})[0] == 403


@pytest.mark.slow
def test_websockets_are_guarded(server):
    path, opened = f"{SOCKET}websocket", server.opened | {"Origin": server.served.origin}
    assert server.websocket(path, opened) == 101
    assert server.websocket(path, {"Host": server.served.authority, "Origin": server.served.origin}) == 403
    assert server.websocket(path, opened | {"Origin": "http://evil.example"}) == 403


@pytest.mark.slow
def test_listens_on_one_address(server):
    for other in ("127.0.0.2", socket.gethostbyname(socket.gethostname())):
        if other != "127.0.0.1":
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((other, server.served.port), timeout=10)


@pytest.mark.slow
def test_downloads_without_a_graph(server):
    status, _, content = server.ask("/export/labels.csv", server.opened)
    assert (status, content) == (409, b"No graph is loaded; load one under Data.")


def test_redirect_page_is_private(tmp_path):
    page = tmp_path / "open.html"
    page.write_text("left by a server that was killed", encoding="utf-8")
    with redirect_page("http://127.0.0.1:1/?token=a&b", page) as redirect:
        assert redirect.stat().st_mode & 0o777 == 0o600
        assert "url=http://127.0.0.1:1/?token=a&amp;b" in redirect.read_text(encoding="utf-8")
    assert not page.exists()


def test_last_port_is_taken_again_if_it_is_free(tmp_path):
    port, key = last_start(tmp_path)
    assert (port, len(key)) == (0, 32)
    with listen("127.0.0.1", 0) as first:
        taken = first.getsockname()[1]
        write_private(tmp_path / SESSION, f"{taken} {key}")
        assert (tmp_path / SESSION).stat().st_mode & 0o777 == 0o600
        assert last_start(tmp_path) == (taken, key)
        with listen("127.0.0.1", 0, taken) as other:
            assert other.getsockname()[1] != taken
    with listen("127.0.0.1", 0, taken) as again:
        assert again.getsockname()[1] == taken


@pytest.mark.long
def test_prints_one_line_and_writes_only_the_project(tmp_path):
    with studio(tmp_path) as running:
        assert running.address.startswith("http://127.0.0.1:")
        running.ask("/", running.opened)
        running.process.send_signal(signal.SIGINT)
        rest = running.process.stdout.read()
        assert running.process.wait(60) == 0
    assert rest == ""
    assert (tmp_path / "errors.txt").read_text(encoding="utf-8") == ""
    assert sorted(os.listdir(tmp_path)) == ["errors.txt", "home", "mtgcn-studio"]
    assert list((tmp_path / "home").rglob("*")) == []
