"""The real server on loopback."""

import os
import signal
import socket
from importlib.metadata import version

import pytest

from mtgcn.studio.server import SESSION, last_start, listen, redirect_page, write_private
from studio_server import studio

pytestmark = pytest.mark.slow

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


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with studio(tmp_path_factory.mktemp("studio")) as running:
        yield running


@pytest.mark.parametrize("path", PATHS)
def test_every_path_is_guarded(server, path):
    assert server.ask(path)[0] == 401
    assert server.ask(path, server.opened | {"Origin": server.served.origin})[0] in (200, 404, 405, 409)
    assert server.ask(path, server.opened | {"Origin": "http://evil.example"})[0] == 403
    assert server.ask(path, server.opened | {"Host": f"localhost:{server.served.port}"})[0] == 403


def test_websockets_are_guarded(server):
    path, opened = f"{SOCKET}websocket", server.opened | {"Origin": server.served.origin}
    assert server.websocket(path, opened) == 101
    assert server.websocket(path, {"Host": server.served.authority, "Origin": server.served.origin}) == 403
    assert server.websocket(path, opened | {"Origin": "http://evil.example"}) == 403


def test_listens_on_one_address(server):
    for other in ("127.0.0.2", socket.gethostbyname(socket.gethostname())):
        if other != "127.0.0.1":
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((other, server.served.port), timeout=10)


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
