"""Exact decomposition of mt-plus predictions for nodes of the fit.

    P = Σ_v w_v P_v,    z_v = log(P_v[a] / P_v[b]) = x_v · d_v,    P[a] - P[b] = Σ_v f_v z_v

    a, b  two classes: the predicted one and another
    z_v   log-odds of peer v between them
    x_v   the node's row of the view
    d_v   a direction: the difference of the coefficients of a and b. Before and after teaching, P_v is a mixture of two
          softmaxes; with φ(z) = tanh(z / 2) / z, p[a] - p[b] = (p[a] + p[b]) φ(z) z holds for both and for P_v, so that
          their log-odds add up with positive factors
    f_v   w_v (P_v[a] + P_v[b]) φ(z_v)

A view that is linear in X, given the lengths of the node's own row and the active units of an encoder, has

    x_v · d_v = Σ_s m_sᵀ X̂ G_vs + constant,    m_s = Â^k e_i or its personalised PageRank,

which is a sum over columns of X̂ and over the nodes that m_s reaches. In the dual form of the regression, the same z_v
is a sum over labelled nodes j of m_j (onehot(y_j) - p_j) (x_j · x_v) / 2λ, the pseudo labels, and the residual of the
solver. Other views are a single part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from mtgcn.linalg.normalisation import normalized_adjacency, scaled_features
from mtgcn.linalg.softmax_regression import dual_part, probabilities_of
from mtgcn.methods.mt_plus.settings import SCALING, MTPlusSettings
from mtgcn.methods.mt_plus.views import (
    COLUMNS,
    ENCODERS,
    FAR,
    FEATURES,
    HOPS,
    MIN_ROW_LENGTH,
    NEAR,
    VIEWS,
    WAVES,
    views_elsewhere,
)
from mtgcn.shapes import Float

if TYPE_CHECKING:
    from mtgcn.graph import Graph

LINEAR = (FEATURES, HOPS, NEAR, FAR, *ENCODERS, COLUMNS)  # views linear in X, given lengths and active units
STAGES = ("before", "after")
TOLERANCE = 1e-3  # peers whose probabilities are reproduced less exactly are not decomposed
TINY = 1e-30


@dataclass(frozen=True, eq=False)
class LinearPart:
    """The log-odds of a peer as sums over columns of X, over nodes, and over labelled nodes."""

    directions: Float[np.ndarray, "features steps"]  # G
    by_column: Float[np.ndarray, "features"]
    constant: float  # intercept and mean of the view
    by_node: Float[np.ndarray, "nodes"]
    labelled: Float[np.ndarray, "labelled"]
    pseudo_labels: float
    residual: float  # residual of the solver

    @classmethod
    def weighted_sum(cls, factors: Sequence[float], parts: Sequence[LinearPart]) -> LinearPart:
        """The parts of a weighted sum of log-odds."""
        names = [field.name for field in fields(cls)]
        return cls(*(sum(f * getattr(part, n) for f, part in zip(factors, parts, strict=True)) for n in names))


@dataclass(frozen=True, eq=False)
class PeerPart:
    """The contribution of a peer to the difference between two class probabilities."""

    name: str
    weight: float
    probabilities: tuple[float, float]  # probabilities of the two classes
    log_odds: float
    factor: float  # change of the predicted difference per unit of log-odds
    linear: LinearPart | None = None  # None: the view is a single part


@dataclass(frozen=True, eq=False)
class NodeSplit:
    """The parts of the prediction for a node."""

    steps: Float[np.ndarray, "nodes steps"]  # weights m of the nodes that the views of the node read
    peers: tuple[PeerPart, ...]


class Explainer:
    """Decomposes predictions for nodes of a fitted graph. What does not depend on the node is computed once, here."""

    def __init__(
        self, settings: MTPlusSettings, names: tuple[str, ...], parameters: Mapping[str, np.ndarray], graph: Graph
    ) -> None:
        self.settings, self.names, self.parameters = settings, names, parameters
        self.adjacency, self.features = normalized_adjacency(graph), scaled_features(graph, SCALING)
        basis = parameters[f"{FEATURES}/basis"]
        self.matrices = {FEATURES: basis, NEAR: basis, FAR: basis, HOPS: basis @ parameters[f"{HOPS}/basis"]}
        self.matrices |= {name: parameters[f"{name}/weight"] for name in ENCODERS if name in names}
        self.row_scale = np.ones(graph.num_nodes)  # row lengths of the columns view; other views have length 1
        if COLUMNS in names:
            self.matrices[COLUMNS] = np.eye(graph.num_features, dtype=np.float32)
            mean_length = np.maximum(parameters[f"{WAVES}/length"], MIN_ROW_LENGTH)
            lengths = np.linalg.norm(np.asarray(graph.features), axis=1)
            self.row_scale = settings.column_scale * lengths / mean_length
        self.labelled = graph.known
        classes = torch.from_numpy(graph.labels[graph.known])[None]
        share = torch.full((1, len(graph.known)), 1 / len(graph.known), dtype=torch.float64)
        # By view: rows of the labelled nodes; by stage: coefficients, coefficients of labels, residual of the solver.
        self.duals: dict[str, tuple[np.ndarray, dict[str, list[np.ndarray]]]] = {}
        linear = [name for name in LINEAR if name in names and f"{name}/pseudo" in parameters]
        for name, table in views_elsewhere(parameters, settings, graph.without_labels, torch.device("cpu"), linear):
            rows, stages = table[torch.from_numpy(graph.known)].double(), {}
            for stage in STAGES:
                weight = self._tensor(f"{name}/{stage}")
                penalty = self._penalty(name, stage)
                error = torch.nn.functional.one_hot(classes, weight.shape[2]) - probabilities_of(rows, weight)
                rest = weight - dual_part(rows, share, classes, weight, penalty)
                rest -= self._tensor(f"{name}/pseudo") * (stage == "after")
                scale = self._scale(name, stage)
                of_labels = error[0] * (share[0] / (2 * penalty))[:, None]
                stages[stage] = [(part * scale).numpy() for part in (weight[0], of_labels, rest[0])]
            self.duals[name] = rows.numpy(), stages

    def _tensor(self, name: str) -> Tensor:
        return torch.from_numpy(self.parameters[name].astype(np.float64))

    def _scale(self, name: str, stage: str) -> float:
        """The factor of the logits: before teaching they are divided by the temperature."""
        return 1 / float(self.parameters[f"{name}/temperature"][0]) if stage == "before" else 1.0

    def _penalty(self, name: str, stage: str) -> Tensor:
        """The penalty with which the coefficients were fitted."""
        penalty = self._tensor(f"{name}/penalty")
        if stage == "after":
            return penalty.clamp(max=self.settings.taught_penalty)
        tried = torch.tensor(self.settings.penalties, dtype=torch.float64)
        return tried[(tried.log() - penalty.log()).abs().argmin()][None]

    def split(self, node: int, first: int, second: int, by_peer: Float[np.ndarray, "peers classes"]) -> NodeSplit:
        """The parts of the difference between two classes. `by_peer` are the node's probabilities by peer."""
        keys, steps = self._steps(node)
        profile = np.asarray(self.features.T @ steps, dtype=np.float64)  # features, steps
        parts = []
        for name, weight, stored in zip(self.names, self.parameters["votes"][0].tolist(), by_peer, strict=True):
            found = self._linear(name, node, profile, keys, first, second) if name in self.duals else None
            if found is not None and np.abs(found[0] - stored).max() > TOLERANCE:
                found = None
            probabilities, linear = (stored.astype(np.float64), None) if found is None else found
            one, other = (float(max(probabilities[number], TINY)) for number in (first, second))
            log_odds = float(np.log(one / other))
            parts.append(
                PeerPart(name, weight, (one, other), log_odds, weight * (one + other) * _phi(log_odds), linear)
            )
        sums = [part.linear for part in parts if part.linear is not None]
        used = [(part, step, column) for part in sums for step, column in enumerate(part.directions.T) if column.any()]
        if used:  # one product for all peers
            scores = np.asarray(self.features @ np.stack([column for _, _, column in used], 1).astype(np.float32))
            for (part, step, _), score in zip(used, scores.T, strict=True):
                part.by_node[:] += steps[:, step] * score
        return NodeSplit(steps, tuple(parts))

    def _steps(self, node: int) -> tuple[dict[Any, int], Float[np.ndarray, "nodes steps"]]:
        """The distinct walks of the views from the node: the column of each walk, and the nodes' weights."""
        settings = self.settings
        start = np.zeros(self.adjacency.shape[0], dtype=np.float32)
        start[node] = 1
        powers = {0, settings.near_steps, *settings.hop_steps}
        far, encoder = (settings.far_steps, settings.far_restart), (settings.infomax_steps, settings.infomax_restart)
        walks: dict[Any, np.ndarray] = {walk: np.zeros_like(start) for walk in (far, encoder)}
        place = start
        for step in range(max(*powers, far[0], encoder[0]) + 1):
            place = self.adjacency @ place if step else place
            if step in powers:
                walks[step] = place
            for count, restart in {far, encoder}:  # Σ_k restart (1 - restart)^k Â^k, and the rest at the last step
                if step <= count:
                    share = (1 - restart) ** step * (restart if step < count else 1)
                    walks[count, restart] += np.float32(share) * place
        keys = {key: column for column, key in enumerate(walks)}
        return keys, np.stack(list(walks.values()), axis=1)

    def _walks_of(self, name: str) -> list[Any]:
        """The walks that the view reads; one for each block of its rows."""
        settings = self.settings
        encoder = settings.infomax_steps, settings.infomax_restart
        walks: dict[str, list[Any]] = {FEATURES: [0], COLUMNS: [0], NEAR: [settings.near_steps]}
        walks |= {HOPS: sorted(settings.hop_steps), FAR: [(settings.far_steps, settings.far_restart)]}
        return walks.get(name, [encoder])

    def _linear(
        self,
        name: str,
        node: int,
        profile: Float[np.ndarray, "features steps"],
        keys: Mapping[Any, int],
        first: int,
        second: int,
    ) -> tuple[Float[np.ndarray, "classes"], LinearPart]:
        """The probabilities of the peer, and its log-odds as sums."""
        matrix, columns = self.matrices[name], [keys[walk] for walk in self._walks_of(name)]
        # The row, block by block; products in 32 bits, since a copy of the matrix would take longer.
        blocks = (profile[:, columns].T.astype(np.float32) @ matrix).reshape(-1).astype(np.float64)
        slopes, shift = np.ones_like(blocks), np.zeros_like(blocks)  # row = slopes * blocks + shift
        if name in ENCODERS:
            bias = self.parameters[f"{name}/bias"].astype(np.float64)
            slopes = np.where(blocks + bias > 0, 1.0, self.settings.infomax_slope)
            shift = slopes * bias
        if name == COLUMNS:
            slopes *= self.row_scale[node]
        if name in ENCODERS or name == HOPS:
            lengths = np.linalg.norm((slopes * blocks + shift).reshape(len(columns), -1), axis=1)
            lengths = np.repeat(np.maximum(lengths, 1e-12), matrix.shape[1])
            slopes, shift = slopes / lengths, shift / lengths
        if VIEWS[name].centred:
            length = max(float(np.linalg.norm(slopes * blocks + shift)), 1e-12)
            slopes, shift = slopes / length, shift / length - self.parameters[f"{name}/centre"].reshape(-1)
            length = float(np.linalg.norm(slopes * blocks + shift))
            scale = 0.0 if length < MIN_ROW_LENGTH else 1 / length
            slopes, shift = slopes * scale, shift * scale
        row = np.append(slopes * blocks + shift, 1.0)

        known, stages = self.duals[name]
        strength = float(self.parameters["teaching"][0])
        shares = {"before": 1 - strength, "after": strength}
        by_stage = {stage: _softmax(row @ weight) for stage, (weight, _, _) in stages.items()}
        answer = np.sum([shares[stage] * by_stage[stage] for stage in STAGES], axis=0)
        one, other = (max(answer[number], TINY) for number in (first, second))
        total = (one + other) * _phi(np.log(one / other))
        direction, labels, left = np.zeros(len(row)), np.zeros(len(known)), np.zeros(len(row))
        taught = 0.0
        for stage, (weight, of_labels, rest) in stages.items():
            difference = weight[:, first] - weight[:, second]
            probability = by_stage[stage]
            factor = shares[stage] * (probability[first] + probability[second]) * _phi(row @ difference) / total
            direction += factor * difference
            labels += factor * (known @ row) * (of_labels[:, first] - of_labels[:, second])
            left += factor * (rest[:, first] - rest[:, second])
            taught = factor
        pseudo = self.parameters[f"{name}/pseudo"][0].astype(np.float64)
        directions = np.zeros_like(profile)
        for column, part in zip(columns, (slopes * direction[:-1]).reshape(len(columns), -1), strict=True):
            directions[:, column] += matrix @ part.astype(np.float32)
        return answer, LinearPart(
            directions,
            (profile * directions).sum(axis=1),
            float(shift @ direction[:-1] + direction[-1]),
            np.zeros(self.features.shape[0]),
            labels,
            float(taught * (row @ (pseudo[:, first] - pseudo[:, second]))),
            float(row @ left),
        )


def _phi(log_odds: float) -> float:
    """tanh(z / 2) / z."""
    return float(np.tanh(log_odds / 2) / log_odds) if abs(log_odds) > 1e-6 else 0.5


def _softmax(logits: np.ndarray) -> np.ndarray:
    shares: np.ndarray = np.exp(logits - logits.max())
    return shares / shares.sum()
