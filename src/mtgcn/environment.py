"""On what a run was made: device, threads, versions."""

from __future__ import annotations

import platform

import numpy
import scipy
import torch

from mtgcn._version import __version__
from mtgcn.errors import InputError, unknown_name

DEVICES = ("auto", "cpu", "cuda")
MAX_THREADS = 256  # more than that and the system may refuse to start them, which ends the program


def chosen_device(name: str | torch.device) -> torch.device:
    """The device a person asked for, by its name or as torch knows it; `auto` is the GPU where there is one."""
    if isinstance(name, torch.device):
        chosen_device(name.type)
        if name.type == "cuda" and (name.index or 0) >= torch.cuda.device_count():
            raise InputError(f"device {name} asked for, and torch finds {torch.cuda.device_count()}; give another")
        return name
    if name not in DEVICES:
        raise unknown_name("device", name, DEVICES)
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device 'cuda' asked for, but torch finds no CUDA device; use --device cpu or auto")
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)


def device_title(device: torch.device) -> str:
    """The device in words, with the model of a GPU, since times mean nothing without it."""
    return f"cuda ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else device.type


def threads() -> int:
    return torch.get_num_threads()


def versions() -> dict[str, str]:
    """What the numbers depend on besides our own source."""
    return {
        "mtgcn": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
    }
