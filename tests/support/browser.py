"""A real browser without a window: Debian's chromium, driven by its chromedriver in the W3C WebDriver's own words.

A package for that would bring a dozen others and a downloader of drivers; what tests need of the protocol is here.
"""

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

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key that the WebDriver standard gives elements in answers
SECONDS = 60
_direct = build_opener(ProxyHandler({}))  # whatever proxy the environment names, the driver is on this machine


class Browser:
    """One session: a page that can be looked at, pointed at, typed into and asked."""

    def __init__(self, address):
        self._address = address

    def open(self, path: Path):
        self.visit(path.as_uri())

    def visit(self, address):
        self._call("POST", "/url", {"url": address})

    def reload(self):
        self._call("POST", "/refresh", {})

    def run(self, script, *arguments):
        """What a piece of JavaScript returns; elements found before may be its arguments."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def find(self, selector):
        return self._call("POST", "/element", {"using": "css selector", "value": selector})

    def click(self, selector):
        self._call("POST", f"/element/{self.find(selector)[ELEMENT]}/click", {})

    def type(self, selector, text):
        element = self.find(selector)[ELEMENT]
        self._call("POST", f"/element/{element}/clear", {})
        self._call("POST", f"/element/{element}/value", {"text": text})

    def choose_file(self, selector, path: Path):
        """As if a person had picked a file in the dialogue."""
        self._call("POST", f"/element/{self.find(selector)[ELEMENT]}/value", {"text": str(path)})

    def press(self, *keys):
        """One key after the other, wherever the focus is; those without a letter by their code in the standard."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def wait_until(self, script, *arguments, seconds=SECONDS):
        """Until a piece of JavaScript returns something true, which is given back."""
        end = monotonic() + seconds
        while not (found := self.run(script, *arguments)):
            assert monotonic() < end, f"waited {seconds} s for: {script} {arguments}"
            sleep(0.05)
        return found

    def text(self, selector):
        return self._call("GET", f"/element/{self.find(selector)[ELEMENT]}/text")

    def texts(self, selector):
        return self.run("return Array.from(document.querySelectorAll(arguments[0]), one => one.innerText)", selector)

    def point_at(self, x, y, *, click=False):
        """Move the pointer to a place in the window, in pixels of the page."""
        moves = [{"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)}]
        if click:
            moves += [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        actions = [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": moves}]
        self._call("POST", "/actions", {"actions": actions})

    def drag(self, start, end):
        """Press the button in one place and let go of it in another."""
        places = [{"type": "pointerMove", "duration": 100, "x": x, "y": y} for x, y in (start, end)]
        moves = [places[0], {"type": "pointerDown", "button": 0}, places[1], {"type": "pointerUp", "button": 0}]
        actions = [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": moves}]
        self._call("POST", "/actions", {"actions": actions})

    def show(self, *, width, height=900, dark=False):
        """As on a screen of this size, of somebody who likes light or dark pages."""
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._tools("Emulation.setDeviceMetricsOverride", screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._tools("Emulation.setEmulatedMedia", {"features": [scheme]})

    def scripts(self, allowed):
        """Whether pages opened from now on may run their scripts."""
        self._tools("Emulation.setScriptExecutionDisabled", {"value": not allowed})

    def screenshot(self, path: Path, *, whole=False):
        taken = self._tools("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": whole})
        path.write_bytes(base64.b64decode(taken["data"]))

    def errors(self):
        """What went wrong in the page's scripts, or was asked of the network and refused."""
        log = self._call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in log if entry["level"] in ("SEVERE", "WARNING")]

    def close(self):
        self._call("DELETE", "")

    def _tools(self, command, parameters):
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def _call(self, verb, path, content=None):
        return _answer(verb, f"{self._address}{path}", content)


@contextmanager
def chromium():
    """A session in a profile of its own; skipped where there is no browser, but not where CI is set, which must have
    one."""
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
            # Inside a container its root has no sandbox of its own to give, and /dev/shm is small.
            arguments = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
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
