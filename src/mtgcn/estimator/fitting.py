"""From an estimator's parameters and a graph to what a method is fitted with: the method, the seed, the task."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mtgcn.errors import InputError, shown
from mtgcn.linalg.structural_features import with_structural_features
from mtgcn.methods import Method, create, method_class, name_of
from mtgcn.methods.plugins import as_method
from mtgcn.splits import Split, check_seed
from mtgcn.task import PeerReport, Task, observe

if TYPE_CHECKING:
    import torch

    from mtgcn.estimator.graph_model import GraphModel
    from mtgcn.graph import Graph
    from mtgcn.shapes import Int

DEFAULT_METHOD = "mt-plus"
METHOD_WITH_BACKBONE = "mt-gcn"  # where a backbone is given and no method is named
VALIDATION_SHARE = 3  # of this many labels of a class, one goes to a method that chooses by validation

_NOBODY: Int[np.ndarray, "0"] = np.empty(0, dtype=np.int64)


def chosen_method(model: GraphModel) -> Method:
    """The method that the estimator's parameters name, with its settings."""
    if not isinstance(model.settings, Mapping | None) or not all(isinstance(key, str) for key in model.settings or ()):
        raise InputError(f"settings are {shown(model.settings)}; give a dictionary, such as {{'per_class': 60}}")
    settings = dict(model.settings or {})
    method = model.method
    if method is None:
        method = DEFAULT_METHOD if model.backbone is None else METHOD_WITH_BACKBONE
    if not isinstance(method, str):
        if settings or model.backbone is not None:
            raise InputError(f"{type(method).__name__} has its settings already; give backbone and others to it")
        return as_method(method)
    if model.backbone is not None:
        if "backbone" not in method_class(method).__dataclass_fields__:
            raise InputError(f"method {method!r} has no backbone to choose; use {METHOD_WITH_BACKBONE!r}")
        settings["backbone"] = model.backbone
    return create(method, **settings)


def seed_of(random_state: Any) -> int:
    """The number itself where one is given, so that it means here what it means at the command line."""
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return check_seed(int(random_state))
    from sklearn.utils import check_random_state

    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError:
        raise InputError(f"random_state is {shown(random_state)}; give a whole number >= 0, or None") from None


def task_of(graph: Graph, method: Method, seed: int, device: torch.device) -> Task:
    """All that the method may see of a graph: its labels, and features made from its edges where it has none."""
    seen = with_structural_features(graph, seed) if method.uses_features and graph.features is None else graph
    split = _with_validation(graph) if method.uses_validation else Split(graph.known, _NOBODY, _NOBODY)
    return observe(seen, [split], seed, with_validation=method.uses_validation, device=device)


def shown_progress(method: Method) -> AbstractContextManager[None]:
    """What is fitted while this lasts is shown on standard error, stage by stage."""
    from mtgcn.report.progress import fitting_progress

    return fitting_progress(f"fitting {name_of(method)}", every_stage=True)


def in_words_for(graph: Graph, report: PeerReport | None) -> PeerReport | None:
    """What was made from the edges of a graph without features is not called its features."""
    if report is None or graph.features is not None:
        return report
    return replace(report, names=tuple("structure" if name == "features" else name for name in report.names))


def _with_validation(graph: Graph) -> Split:
    """Of each class's labels a share to choose by, the others to learn from."""
    members = [np.flatnonzero(graph.labels == number) for number in range(graph.num_classes)]
    chosen = np.concatenate([nodes[1::VALIDATION_SHARE] for nodes in members])
    if not len(chosen):
        raise InputError(
            "the method chooses its epoch by labels it does not learn from, and no class has 2; label more nodes, or "
            "use a method without validation"
        )
    return Split(np.setdiff1d(graph.known, chosen), chosen, _NOBODY)
