"""The real server on loopback."""

import os
import signal
import socket
from importlib.metadata import version

import pytest

from mtgcn.studio.server import redirect_page
from mtgcn.studio.storage import MAX_UPLOAD_BYTES
from studio_server import studio

pytestmark = pytest.mark.slow

SOCKET = "/_nicegui_ws/socket.io/?EIO=4&transport="
PATHS = [
    "/",
    "/studio.css",
    f"/_nicegui/{version('nicegui')}/static/nicegui.js",
    f"{SOCKET}polling",
    "/export/labels.csv",
    "/upload/edges.csv",
    "/nowhere",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with studio(tmp_path_factory.mktemp("studio")) as running:
        yield running


def test_page_opens_with_token_then_cookie(server):
    status, headers, content = server.ask(f"/?token={server.served.token}")
    assert status == 200
    assert b'location.replace("/")' in content
    cookie, *flags = headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict"} <= set(flags)
    status, headers, content = server.ask("/", {"Cookie": cookie})
    assert status == 200
    assert b"<title>mtgcn studio</title>" in content
    assert "default-src 'self'" in headers["content-security-policy"]


@pytest.mark.parametrize("path", PATHS)
def test_every_path_needs_token_host_and_origin(server, path):
    port, opened = server.served.port, server.opened
    assert server.ask(path)[0] == 401
    assert server.ask(path, {"Cookie": f"{server.served.cookie}=guess"})[0] == 401
    for own in ({}, {"Origin": server.served.origin}):
        assert server.ask(path, opened | own)[0] in (200, 400, 404, 405)
    foreign = [{"Origin": "http://evil.example"}, {"Origin": "null"}]
    for other in (*foreign, {"Host": f"evil.example:{port}"}, {"Host": f"localhost:{port}"}):
        assert server.ask(path, opened | other)[0] == 403


def test_websockets_are_guarded(server):
    path = f"{SOCKET}websocket"
    opened = server.opened | {"Origin": server.served.origin}
    assert server.websocket(path, opened) == 101
    assert server.websocket(path, {"Host": server.served.authority, "Origin": server.served.origin}) == 403
    assert server.websocket(path, opened | {"Origin": "http://evil.example"}) == 403
    assert server.websocket(path, opened | {"Host": "evil.example"}) == 403
    assert server.websocket(path, opened | {"Cookie": f"{server.served.cookie}=guess"}) == 403


def test_listens_on_one_address(server):
    for other in ("127.0.0.2", socket.gethostbyname(socket.gethostname())):
        if other != "127.0.0.1":
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((other, server.served.port), timeout=10)


def test_upload(server):
    headers = server.opened | {"Origin": server.served.origin}
    status, _, content = server.ask("/upload/my%20edges.csv", headers, method="PUT", body=b"a,b\nb,c\n")
    assert status == 200
    assert b'"name":"my edges.csv"' in content
    (taken,) = (server.folder / "mtgcn-studio" / "uploads").glob("*/my edges.csv")
    assert taken.read_bytes() == b"a,b\nb,c\n"


def test_endless_upload_is_cut_off_and_removed(server):
    part = bytes(1 << 20)
    body = (part for _ in range((MAX_UPLOAD_BYTES >> 20) + 2))
    before = sorted((server.folder / "mtgcn-studio").rglob("*"))
    status, _, content = server.ask("/upload/endless.csv", server.opened, method="PUT", body=body)
    assert status == 413
    assert f"{MAX_UPLOAD_BYTES:,}".encode() in content
    assert sorted((server.folder / "mtgcn-studio").rglob("*")) == before


def test_announced_large_upload_is_refused(server):
    headers = server.opened | {"Content-Length": str(MAX_UPLOAD_BYTES + 1)}
    assert server.ask("/upload/huge.csv", headers, method="PUT")[0] == 413
    assert server.ask("/export/labels.csv", server.opened, method="PUT", body=bytes((1 << 20) + 1))[0] == 413


@pytest.mark.parametrize(
    "name",
    ["../outside.csv", "..%2Foutside.csv", "..%5Coutside.csv", "%2Fetc%2Fpasswd", ".hidden", "a%00b.csv", "%0Ab"],
)
def test_unsafe_upload_names_are_refused(server, name):
    before = sorted(server.folder.rglob("*"))
    assert server.ask(f"/upload/{name}", server.opened, method="PUT", body=b"a,b\n")[0] in (400, 404, 405)
    assert sorted(server.folder.rglob("*")) == before


def test_downloads_without_a_model(server):
    assert server.ask("/export/model.zip", server.opened)[0] == 409
    assert server.ask("/export/labels.csv", server.opened)[2] == b"id,label\n"


def test_redirect_page_is_private(tmp_path):
    page = tmp_path / "open.html"
    page.write_text("left by a server that was killed", encoding="utf-8")
    with redirect_page("http://127.0.0.1:1/?token=a&b", page) as redirect:
        assert redirect.stat().st_mode & 0o777 == 0o600
        assert "url=http://127.0.0.1:1/?token=a&amp;b" in redirect.read_text(encoding="utf-8")
    assert not page.exists()


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
