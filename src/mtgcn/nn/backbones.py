"""The networks that the peers of a mutual teaching may be: by the name people type, or a person's own module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial

from torch import nn

from mtgcn.errors import InputError, unknown_name
from mtgcn.nn.appnp import APPNP
from mtgcn.nn.base import NetworkSettings, StackedNetwork
from mtgcn.nn.chebyshev import Chebyshev
from mtgcn.nn.gat import GAT
from mtgcn.nn.gcn import GCN
from mtgcn.nn.module import Factory, ModuleNetwork
from mtgcn.task import Task

Backbone = str | nn.Module | Factory

CHEBYSHEV_DEGREE = 2  # as in the paper's tables


@dataclass(frozen=True)
class _Named:
    stack: Callable[[Task, int, NetworkSettings], StackedNetwork]  # of so many peers
    bytes_per_model: Callable[[Task, int], int]  # of so many hidden channels


BACKBONES = {
    "gcn": _Named(GCN, GCN.bytes_per_model),
    "chebyshev": _Named(
        partial(Chebyshev, degree=CHEBYSHEV_DEGREE), partial(Chebyshev.bytes_per_model, degree=CHEBYSHEV_DEGREE)
    ),
    "appnp": _Named(APPNP, APPNP.bytes_per_model),
    "gat": _Named(GAT, GAT.bytes_per_model),
}
# What a person's own module decides for itself.
_OF_NAMED_ONES = ("hidden_channels", "dropout", "input_dropout", "decay_on", "bias", "init")


def check_backbone(backbone: Backbone, settings: NetworkSettings) -> None:
    """Refuse what is no backbone, and settings that a module of one's own would not heed."""
    if isinstance(backbone, str):
        if backbone not in BACKBONES:
            raise unknown_name("backbone", backbone, BACKBONES)
        return
    if not isinstance(backbone, nn.Module) and not callable(backbone):
        raise InputError(
            f"backbone is a {type(backbone).__name__}; give a name ({', '.join(BACKBONES)}), a torch module, "
            "or a function of (features, classes) that makes one"
        )
    defaults = {field.name: field.default for field in fields(NetworkSettings)}
    for name in _OF_NAMED_ONES:
        if getattr(settings, name) != defaults[name]:
            raise InputError(
                f"{name} is {getattr(settings, name)!r}, but a module of your own decides that itself; leave it out"
            )


def stacked_network(backbone: Backbone, task: Task, peers: int, settings: NetworkSettings) -> StackedNetwork:
    """The networks of all runs and peers of a task, before training."""
    if isinstance(backbone, str):
        return BACKBONES[backbone].stack(task, peers, settings)
    return ModuleNetwork(task, peers, settings, backbone)


def bytes_per_model(backbone: Backbone, task: Task, settings: NetworkSettings) -> int:
    """About what one of these networks takes in training."""
    if isinstance(backbone, str):
        return BACKBONES[backbone].bytes_per_model(task, settings.hidden_channels)
    return ModuleNetwork.bytes_per_model(task, settings, backbone)
