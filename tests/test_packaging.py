"""The wheel: it installs into an empty environment with the pinned versions, and its command runs."""

import subprocess
import sys
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import mtgcn

ROOT = Path(__file__).parent.parent


def test_metadata():
    found = metadata.metadata("mtgcn")
    assert found["Author"] == "mtgcn developers"
    assert found["License-Expression"] == "MIT"
    assert {"deepwalk", "networkx", "neighbors", "pyg", "ray", "studio"} <= set(found.get_all("Provides-Extra"))


@pytest.mark.long
def test_wheel_installs_in_an_empty_environment(tmp_path):
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path], cwd=ROOT, check=True)
    [wheel] = tmp_path.glob("*.whl")
    assert {"mtgcn/py.typed", "mtgcn/cli/app.py"} <= set(zipfile.ZipFile(wheel).namelist())
    venv.create(tmp_path / "env", with_pip=True)
    binaries = tmp_path / "env" / "bin"
    lock = ROOT / "requirements.lock"
    subprocess.run([binaries / "python", "-m", "pip", "install", "--quiet", "-c", lock, wheel], check=True)
    done = subprocess.run([binaries / "mtgcn", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"mtgcn {mtgcn.__version__}\n"
