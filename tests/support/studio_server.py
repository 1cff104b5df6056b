"""A studio in its own process, and a client with full control over its requests."""

import http.client
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import mtgcn
from mtgcn.studio.server import Served

SECONDS = 60


class Studio:
    """A running server and requests to it."""

    def __init__(self, process, folder):
        self.process, self.folder = process, folder
        self.address = process.stdout.readline().strip()
        parts = urlsplit(self.address)
        self.served = Served(parts.hostname, parts.port, parse_qs(parts.query)["token"][0])

    @property
    def opened(self):
        """The headers of a browser that has opened the page."""
        return {"Host": self.served.authority, "Cookie": f"{self.served.cookie}={self.served.token}"}

    def ask(self, path, headers=None):
        """Status, headers and content of a response. Only Host is sent by default."""
        connection = http.client.HTTPConnection(self.served.host, self.served.port, timeout=SECONDS)
        try:
            connection.putrequest("GET", path, skip_host=True, skip_accept_encoding=True)
            for name, value in ({"Host": self.served.authority} | (headers or {})).items():
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def websocket(self, path, headers):
        """The status of a websocket handshake."""
        words = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"} | headers
        words["Sec-WebSocket-Key"] = "dGhlIHNhbXBsZSBub25jZQ=="
        lines = "".join(f"{name}: {value}\r\n" for name, value in words.items())
        with socket.create_connection((self.served.host, self.served.port), timeout=SECONDS) as line:
            line.sendall(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
            return int(line.recv(64).split()[1])

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(SECONDS)


def environment(home):
    """A clean environment with this home and the tested sources."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("MTGCN_CACHE", "XDG_", "NICEGUI"))}
    return kept | {"HOME": str(home), "PYTHONPATH": str(Path(mtgcn.__file__).parent.parent)}


@contextmanager
def studio(folder, *options, broken=None):
    """Run a studio in a folder with its own home; `broken` names a function of a module that raises."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    program = ["-m", "mtgcn"]
    if broken:
        module, name = broken.split(":")
        lines = f"import {module} as module; module.{name} = lambda *_: 1 / 0; from mtgcn.cli.app import main; main()"
        program = ["-c", lines]
    command = [sys.executable, *program, "studio", "--no-browser", *map(str, options)]
    with (
        (folder / "errors.txt").open("w", encoding="utf-8") as errors,
        subprocess.Popen(
            command, cwd=folder, env=environment(home), stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            yield Studio(process, folder)
        finally:
            if process.poll() is None:
                process.terminate()
