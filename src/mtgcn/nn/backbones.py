"""Backbones of the peers: built-in networks by name, or a user-defined torch module."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.parameter import is_lazy

from mtgcn.errors import InputError, unknown_name
from mtgcn.linalg.normalisation import relative_adjacency, scaled_features
from mtgcn.nn.base import NetworkSettings, NodeValues, StackedNetwork
from mtgcn.nn.networks import APPNP, GAT, GCN, Chebyshev
from mtgcn.shapes import Float
from mtgcn.task import Task

Factory = Callable[[int, int], nn.Module]  # called with the numbers of features and classes
Backbone = str | nn.Module | Factory

BACKBONES: dict[str, type[StackedNetwork]] = {"gcn": GCN, "chebyshev": Chebyshev, "appnp": APPNP, "gat": GAT}
# Settings that have no effect on a user-defined module.
_NAMED_ONLY = ("hidden_channels", "dropout", "input_dropout", "decay_on", "bias", "init")


def check_backbone(backbone: Backbone, settings: NetworkSettings) -> None:
    """Raise an `InputError` for an invalid backbone, or for settings that a user-defined module ignores."""
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
    for name in _NAMED_ONLY:
        if getattr(settings, name) != defaults[name]:
            raise InputError(f"{name} has no effect on a user-defined module; omit it")


def network_class(backbone: Backbone) -> type[StackedNetwork]:
    """The class of the stacked networks of a backbone."""
    return BACKBONES[backbone] if isinstance(backbone, str) else ModuleNetwork


_INITIAL, _DROPOUT = 0xA0, 0xA1  # streams of a run's seed


class ModuleNetwork(StackedNetwork):
    """The module `settings.backbone` for every run and peer, initialised from the seed of the run. Models are evaluated
    one after the other.

    `forward(x, edge_index)` or `forward(x, edge_index, edge_weight)`, as in PyTorch Geometric, returns logits or
    log-probabilities, nodes x classes. Dropout draws from torch's global generator, which is seeded by run, peer and
    epoch and restored afterwards.
    """

    can_be_recorded: ClassVar[bool] = False  # a module may synchronise, which cannot be recorded

    def __init__(self, task: Task, peers: int, settings: Any) -> None:
        super().__init__(task, peers, settings)
        self.epoch = 0
        features = scaled_features(task.graph, settings.feature_scaling)
        dense = features if isinstance(features, np.ndarray) else features.toarray()
        edges = relative_adjacency(task.graph).tocoo()
        self.features = torch.from_numpy(np.array(dense, dtype=np.float32)).to(task.device)
        self.edge_index = torch.from_numpy(np.stack([edges.row, edges.col]).astype(np.int64)).to(task.device)
        self.edge_weight = torch.from_numpy(edges.data.astype(np.float32)).to(task.device)
        drawn = [[self._drawn(settings.backbone, seed, peer) for peer in range(peers)] for seed in task.seeds]
        template = drawn[0][0]
        # In a list, so that torch does not register its parameters: the stacked ones replace them.
        self._template = [template]
        self._names = {name: name.replace(".", "/") for name in _numbers(template)}
        trained = {name for name, parameter in template.named_parameters() if parameter.requires_grad}
        for name, stacked in self._names.items():
            values = torch.stack([torch.stack([_numbers(one)[name].detach() for one in row]) for row in drawn])
            self.add_parameter(stacked, values, run_axis=0, trained=name in trained)

    @classmethod
    def bytes_per_model(cls, task: Task, settings: Any) -> int:
        """Measured memory: parameters with gradient and Adam's moments, and the tensors saved by a forward pass."""
        network = cls(task.select(np.arange(1)), 1, settings).train()
        saved: dict[int, int] = {}

        def count(tensor: Tensor) -> Tensor:
            saved[tensor.data_ptr()] = tensor.nbytes
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
            network.logits()
        numbers = list(_numbers(network).values())
        for shared in (network.features, network.edge_index, network.edge_weight, *numbers):
            saved.pop(shared.data_ptr(), None)
        weights = sum(values.nbytes for values in numbers)
        return 4 * weights + sum(saved.values()) + 4 * 12 * task.num_nodes * task.num_classes  # and of the losses

    def logits(self) -> NodeValues:
        [module] = self._template
        module.train(self.training)
        found = []
        for run, seed in enumerate(self.task.seeds):
            for peer in range(self.peers):
                own = {name: getattr(self, stacked)[run, peer] for name, stacked in self._names.items()}
                with _seeded((_DROPOUT, seed, peer, self.epoch), self.device):
                    found.append(self._call(module, own))
        answers = torch.stack(found, -1).unflatten(-1, (self.runs, self.peers))
        if self.training and torch.is_grad_enabled() and not answers.requires_grad:
            raise InputError(f"{type(module).__name__} has no trainable parameter that affects its output; add one")
        return answers

    def new_epoch(self) -> None:
        self.epoch += 1

    def _call(self, module: nn.Module, numbers: dict[str, Tensor] | None = None) -> Float[Tensor, "nodes classes"]:
        """Calls the module with the arguments of its `forward`, and checks the result."""
        signature = inspect.signature(module.forward)
        try:
            signature.bind_partial(None, None)
        except TypeError:
            raise InputError(
                f"forward of {type(module).__name__} takes ({', '.join(signature.parameters)}); "
                "give a module that takes (x, edge_index) or (x, edge_index, edge_weight)"
            ) from None
        weights = {"edge_weight": self.edge_weight} if "edge_weight" in signature.parameters else {}
        answer = functional_call(module, numbers or {}, (self.features, self.edge_index), weights)
        wanted = (self.task.num_nodes, self.task.num_classes)
        if not isinstance(answer, Tensor) or answer.shape != wanted:
            found = f"a tensor of {tuple(answer.shape)}" if isinstance(answer, Tensor) else f"a {type(answer).__name__}"
            raise InputError(
                f"{type(module).__name__} returned {found}, expected {wanted[0]} nodes x {wanted[1]} classes; "
                "give a module with one output per class"
            )
        return answer

    def _drawn(self, backbone: nn.Module | Factory, seed: int, peer: int) -> nn.Module:
        """A module on the task's device, initialised from the seed of the run and the number of the peer."""
        sizes = self.task.graph.num_features, self.task.num_classes
        with _seeded((_INITIAL, seed, peer), self.device):
            if made := isinstance(backbone, nn.Module):
                module = deepcopy(backbone)
            else:
                signature = inspect.signature(backbone)
                try:
                    signature.bind(*sizes)
                except TypeError:
                    raise InputError(
                        f"backbone {getattr(backbone, '__name__', 'given')} takes ({', '.join(signature.parameters)}); "
                        "give a function of (features, classes) that makes the module"
                    ) from None
                module = backbone(*sizes)
            if not isinstance(module, nn.Module):
                raise InputError(f"backbone(features, classes) made a {type(module).__name__}; return a torch module")
            module = module.to(self.device, torch.float32)
            if any(is_lazy(one) for one in module.parameters()):
                with torch.no_grad():
                    self._call(module.eval())  # initialises lazy parameters
            if made:
                _reset_parameters(module)
        return module


def _numbers(module: nn.Module) -> dict[str, Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _reset_parameters(module: nn.Module) -> None:
    if callable(reset := getattr(module, "reset_parameters", None)):
        reset()
        return
    for name, _ in module.named_parameters(recurse=False):
        raise InputError(
            f"{type(module).__name__} has a parameter {name!r} but no reset_parameters() to initialise it for every "
            "peer; give it one, or pass a function of (features, classes) that makes the module"
        )
    for child in module.children():
        _reset_parameters(child)


@contextmanager
def _seeded(key: tuple[int, ...], device: torch.device) -> Iterator[None]:
    """Seed torch's generators by the key within this context, and restore them afterwards."""
    seed = int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
