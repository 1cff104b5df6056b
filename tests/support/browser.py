"""Headless chromium, driven through the W3C WebDriver protocol of chromedriver, without further packages."""

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import pytest

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # key of elements in WebDriver responses
SECONDS = 60
_direct = build_opener(ProxyHandler({}))  # no proxy: the driver is local


class Browser:
    """One browser session."""

    def __init__(self, address):
        self._address = address

    def open(self, path: Path):
        self.visit(path.as_uri())

    def visit(self, address):
        self._call("POST", "/url", {"url": address})

    def reload(self):
        self._call("POST", "/refresh", {})

    def run(self, script, *arguments):
        """The result of a JavaScript function body."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def element(self, selector):
        """The path of an element in the protocol."""
        return f"/element/{self._call('POST', '/element', {'using': 'css selector', 'value': selector})[ELEMENT]}"

    def click(self, selector):
        self._call("POST", f"{self.element(selector)}/click", {})

    def type(self, selector, text):
        self._call("POST", f"{self.element(selector)}/clear", {})
        self.choose_file(selector, text)

    def choose_file(self, selector, path):
        """Choose a file in a file input."""
        self._call("POST", f"{self.element(selector)}/value", {"text": str(path)})

    def press(self, *keys):
        """Press keys one after the other; special keys by their WebDriver code."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def wait_until(self, script, *arguments, seconds=SECONDS):
        """Wait until a script returns a true value, and return it."""
        end = monotonic() + seconds
        while not (found := self.run(script, *arguments)):
            assert monotonic() < end, f"waited {seconds} s for: {script} {arguments}"
            sleep(0.05)
        return found

    def text(self, selector):
        return self._call("GET", f"{self.element(selector)}/text")

    def texts(self, selector):
        return self.run("return Array.from(document.querySelectorAll(arguments[0]), one => one.innerText)", selector)

    def point_at(self, x, y, *, click=False):
        """Move the pointer to a position in CSS pixels."""
        self._move([(x, y)], ["pointerDown", "pointerUp"] if click else [])

    def drag(self, *places):
        """Drag from one position to others."""
        self._move(places, ["pointerDown", "pointerUp"])

    def print(self):
        """The page as a PDF."""
        return base64.b64decode(self._call("POST", "/print", {}))

    def _move(self, places, presses):
        moves = [{"type": "pointerMove", "duration": 100, "x": round(x), "y": round(y)} for x, y in places]
        moves[1:1] = [{"type": kind, "button": 0} for kind in presses[:1]]
        moves += [{"type": kind, "button": 0} for kind in presses[1:]]
        actions = [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": moves}]
        self._call("POST", "/actions", {"actions": actions})

    def show(self, *, width, height=900, dark=False):
        """Emulate a screen size and colour scheme."""
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._tools("Emulation.setDeviceMetricsOverride", screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._tools("Emulation.setEmulatedMedia", {"features": [scheme]})

    def scripts(self, allowed):
        """Allow or forbid scripts of pages opened from now on."""
        self._tools("Emulation.setScriptExecutionDisabled", {"value": not allowed})

    @contextmanager
    def before_pages(self, script):
        """Run a script in every page before its own ones."""
        added = self._tools("Page.addScriptToEvaluateOnNewDocument", {"source": script})
        yield
        self._tools("Page.removeScriptToEvaluateOnNewDocument", added)

    def errors(self):
        """Errors and warnings of the browser log since the last call."""
        log = self._call("POST", "/se/log", {"type": "browser"})
        serious = [entry["message"] for entry in log if entry["level"] in ("SEVERE", "WARNING")]
        return [message for message in serious if "GL Driver Message (OpenGL, Performance" not in message]

    def close(self):
        self._call("DELETE", "")

    def _tools(self, command, parameters):
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def _call(self, verb, path, content=None):
        return _answer(verb, f"{self._address}{path}", content)


@contextmanager
def chromium():
    """A session with its own profile; skipped without a browser, except in CI."""
    driver, browser = shutil.which("chromedriver"), shutil.which("chromium")
    if not (driver and browser):
        missing = "chromium and chromedriver are not both installed (Debian: chromium, chromium-driver)"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process,
    ):
        try:
            address = f"http://127.0.0.1:{_port(process.stdout)}/session"
            # In a container there is no sandbox for root, /dev/shm is small, and WebGL runs in software.
            arguments = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
            arguments.append("--enable-unsafe-swiftshader")
            options = {"binary": browser, "args": [*arguments, f"--user-data-dir={profile}"]}
            wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
            session = _answer("POST", address, {"capabilities": {"alwaysMatch": wanted}})
            browser = Browser(f"{address}/{session['sessionId']}")
            yield browser
            browser.close()
        finally:
            process.terminate()


def _port(output):
    for line in output:
        if found := re.search(r"started successfully on port (\d+)", line):
            return int(found[1])
    raise AssertionError("chromedriver ended before it listened")


def _answer(verb, address, content):
    body = None if content is None else json.dumps(content).encode()
    request = Request(address, body, {"Content-Type": "application/json"}, method=verb)
    try:
        with _direct.open(request, timeout=SECONDS) as answer:
            return json.load(answer)["value"]
    except HTTPError as error:
        raise AssertionError(json.load(error)["value"]["message"]) from None
