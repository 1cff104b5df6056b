"""Infrastructure of mt-plus: shared encoders, application to other graphs, memory estimates."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.graph import Graph
from mtgcn.linalg.node_keys import node_keys
from mtgcn.linalg.pagerank import num_components
from mtgcn.linalg.softmax_regression import are_many, probabilities_of
from mtgcn.methods.base import CPU, Method
from mtgcn.methods.mt_plus.cross_validation import Peer, average
from mtgcn.methods.mt_plus.explanation import Explainer
from mtgcn.methods.mt_plus.forest import FOREST_PARTS, Forest
from mtgcn.methods.mt_plus.new_nodes import FittedInputs, views_of_new
from mtgcn.methods.mt_plus.settings import MTPlusSettings
from mtgcn.methods.mt_plus.views import (
    FOREST,
    NAMES,
    VIEWS,
    WAVES,
    NodeViews,
    build_views,
    remember_encoders,
    view_bytes,
    views_elsewhere,
    views_in,
)
from mtgcn.shapes import Float, Int
from mtgcn.task import Prediction, Task, run_seed
from mtgcn.training.calibration import tempered


@dataclass(frozen=True, kw_only=True)
class PeerMethod(MTPlusSettings, Method):
    """Base class of methods with peers on several views of the nodes."""

    @abstractmethod
    def fit_views(self, task: Task, views: NodeViews, keys: Int[Tensor, "nodes"]) -> Prediction:
        """Fit runs that share their views."""

    def fit(self, task: Task) -> Prediction:
        """Runs are fitted in groups that share a seed of the encoders."""
        groups = np.array([seed % self.embeddings for seed in task.seeds])
        order = np.argsort(groups, kind="stable")
        parts = []
        for group in np.unique(groups):
            views = build_views(task.graph, self, run_seed(task.seed, int(group)), task.device)
            some_runs = task.select(np.flatnonzero(groups == group))
            method = self.for_table if WAVES in views.rows else self
            parts.append(method.fit_views(some_runs, views, node_keys(task.graph, task.device)))
        prediction = Prediction.concatenate(parts)
        if (np.diff(order) != 1).any():
            prediction = prediction.select(np.argsort(order, kind="stable"))
        # Encoders are large, and only a single run is applied to other graphs.
        return replace(prediction, groups=groups, parameters=prediction.parameters if task.runs == 1 else None)

    def peers(self, views: Iterable[str]) -> dict[str, float]:
        """The views with a peer, and the prior weights of the peers."""
        names = [name for name in views if VIEWS[name].group != self.left_out]
        return {name: getattr(self, "prior_" + name.replace(" ", "_")) for name in names}

    # -------------------------------------------------------------------------------------------- fitted models

    def apply(
        self, parameters: Mapping[str, np.ndarray], graph: Graph, device: torch.device = CPU
    ) -> Float[np.ndarray, "runs peers nodes classes"]:
        views = views_elsewhere(parameters, self, graph, device)
        return self._probabilities(self._tensors(parameters, device), views)

    def apply_to_new(
        self,
        parameters: Mapping[str, np.ndarray],
        graph: Graph,
        new: Graph,
        to_known: sp.csr_array,
        device: torch.device,
        state: dict[str, Any],
    ) -> Float[np.ndarray, "runs peers new classes"]:
        if "fitted" not in state:
            state["fitted"] = FittedInputs(graph, self, device, parameters), self._tensors(parameters, device)
        fitted, tensors = state["fitted"]
        return self._probabilities(tensors, views_of_new(fitted, new, to_known))

    def _tensors(self, parameters: Mapping[str, np.ndarray], device: torch.device) -> dict[str, Tensor]:
        """The parameters of the peers on a device."""
        parts = [f"{name}/{part}" for name in NAMES for part in ("before", "after", "temperature")]
        needed = [name for name in ("votes", "teaching", *parts, *FOREST_PARTS) if name in parameters]
        return {name: torch.from_numpy(parameters[name].copy()).to(device) for name in needed}

    def _probabilities(
        self, tensors: Mapping[str, Tensor], views: Iterable[tuple[str, Tensor]]
    ) -> Float[np.ndarray, "runs peers nodes classes"]:
        weights, strength = tensors["votes"], tensors["teaching"]
        found: dict[str, Tensor] = {}
        names = [name for name in NAMES if f"{name}/temperature" in tensors]
        for name, rows in views:
            if name == FOREST and name in names:
                found[name] = Forest.of(tensors).probabilities(rows, tensors[f"{name}/temperature"])
            elif name in names:
                untaught = probabilities_of(rows, tensors[f"{name}/before"], tensors[f"{name}/temperature"])
                found[name] = blend(probabilities_of(rows, tensors[f"{name}/after"]), untaught, strength)
        present = torch.tensor([name in found for name in names], device=weights.device)
        rescaled = weights[:, present] / weights[:, present].sum(1, keepdim=True)
        others = average(rescaled, [found[name] for name in names if name in found])
        return torch.stack([found.get(name, others) for name in names], 1).cpu().numpy()

    def combined(
        self,
        peers: Float[np.ndarray, "runs peers nodes classes"],
        parameters: Mapping[str, np.ndarray] | None = None,
    ) -> Float[np.ndarray, "runs nodes classes"]:
        if parameters is None:
            return super().combined(peers)
        return tempered(np.einsum("rp,rpnc->rnc", parameters["votes"], peers), parameters["calibration"])

    def explainer(self, parameters: Mapping[str, np.ndarray], graph: Graph) -> Explainer:
        return Explainer(self, tuple(self.peers(views_in(parameters))), parameters, graph)

    def remember(self, parameters: Mapping[str, np.ndarray], task: Task) -> None:
        for group in {seed % self.embeddings for seed in task.seeds}:
            remember_encoders(parameters, task.graph, self, run_seed(task.seed, group))

    @property
    def peers_of_their_graph(self) -> tuple[str, ...]:
        return tuple(name for name in NAMES if not VIEWS[name].transferable)

    # --------------------------------------------------------------------------------------------------- memory

    def bytes_per_run(self, task: Task) -> int:
        width = max(num_components(self.directions, task.graph), self.dimensions) + 1
        labels = task.labelled.index.shape[1]
        # Probabilities of all peers before and after teaching, and some on the way.
        classes = task.num_classes
        at_nodes = task.num_nodes * classes * (2 * len(NAMES) + 6)
        at_labels = 60 * labels * (labels + 8 * classes)
        if are_many(labels, classes):  # logits of all penalties, and the rows of one view
            at_labels = 60 * min(labels, self.tuning_labels) * classes + labels * (5 * classes + 5 * width)
        return 4 * (at_nodes + 3 * width**2 + task.num_nodes * 4 + at_labels)

    def shared_bytes(self, task: Task) -> int:
        return view_bytes(task.graph, self)


def blend(
    after: Float[Tensor, "runs nodes classes"],
    before: Float[Tensor, "runs nodes classes"],
    strength: Float[Tensor, "runs"],
) -> Float[Tensor, "runs nodes classes"]:
    """Average of the probabilities after and before teaching, weighted by teaching strength."""
    share = strength[:, None, None]
    return share * after + (1 - share) * before


def stored_parameters(
    views: NodeViews,
    peers: Mapping[str, Peer],
    coefficients: Mapping[str, Tensor],
    pseudo_parts: Mapping[str, Tensor],
    weights: Float[Tensor, "runs peers"],
    strength: Float[Tensor, "runs"],
    temperature: Float[Tensor, "runs"],
) -> dict[str, np.ndarray]:
    """The parameters that `PeerMethod.apply` and `explain` read."""
    kept = {"votes": weights, "teaching": strength, "calibration": temperature}
    for name, peer in peers.items():
        kept[f"{name}/temperature"] = peer.temperature
        if peer.forest is not None:
            kept |= peer.forest.tensors
            continue
        kept |= {
            f"{name}/before": peer.weight,
            f"{name}/after": coefficients[name],
            f"{name}/penalty": peer.penalty,
            f"{name}/pseudo": pseudo_parts.get(name, torch.zeros_like(peer.weight)),
        }
    return dict(views.parameters) | {name: np.ascontiguousarray(values.cpu().numpy()) for name, values in kept.items()}
