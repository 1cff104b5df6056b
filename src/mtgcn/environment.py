"""The environment of a run: device, threads, versions."""

from __future__ import annotations

import platform

import numpy
import scipy
import torch

from mtgcn._version import __version__
from mtgcn.errors import InputError, unknown_name

DEVICES = ("auto", "cpu", "cuda")
MAX_THREADS = 256  # the system may refuse to start more


def chosen_device(name: str | torch.device) -> torch.device:
    """The torch device of a name or device; `auto` is the GPU if there is one."""
    if isinstance(name, torch.device):
        chosen_device(name.type)
        if name.type == "cuda" and (name.index or 0) >= torch.cuda.device_count():
            raise InputError(
                f"device {name} requested, but torch finds {torch.cuda.device_count()} CUDA devices; use another"
            )
        return name
    if name not in DEVICES:
        raise unknown_name("device", name, DEVICES)
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device 'cuda' requested, but torch finds no CUDA device; use --device cpu or auto")
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)


def device_title(device: torch.device) -> str:
    """The name of the device, with the model of a GPU."""
    return f"cuda ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else device.type


def threads() -> int:
    return torch.get_num_threads()


def versions() -> dict[str, str]:
    """Versions that results depend on."""
    return {
        "mtgcn": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
    }
