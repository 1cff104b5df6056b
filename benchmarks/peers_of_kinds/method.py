"""Mutual teaching between peers that differ in kind: what each of them sees of a node, no other does.

1. Eight peers are linear classifiers on rows of their own: the features; the near and the far neighbourhood (Wu et al.,
   2019; Gasteiger et al., 2019); two infomax embeddings (Veličković et al., 2019), one trained freely, one held back;
   whom a node is connected with, directly and at a distance; how large it and its neighbours are.
2. The given labels are held out in turn. Each peer takes the penalty and the temperature under which they are likely.
3. Its vote is how much it adds to the likelihood of held-out labels beside the others.
4. Then, three times over, the peers' weighted average teaches every one of them: nodes that it is surer of than of
   others count as labelled, classes evened out while labels are few.
5. How much they teach each other follows from how well they together tell held-out labels, and from how many of them
   have a say at all.

    p_v = softmax(R_v W_v),  P = Σ_v w_v p_v,  w the mixture under which held-out labels are likeliest,
    W_v := argmin  - mean over labels of log p_v[i, y_i]  - t · Σ_i m_i log p_v[i, argmax P_i]  + λ_v |W_v|².

Linear classifiers on such rows and infomax are old; that peers which differ in kind are weighed by the given labels and
taught by each other is what this method adds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from fits_to_all_nodes import fit_to_all, logits_of
from peer_evidence import PeerEvidence, accuracy_of, held_out_parts, peer_evidence, skill, vote_weights
from peer_inputs import (
    EDGES,
    FAR,
    FAR_EDGES,
    FEATURES,
    HELD_INFOMAX,
    INFOMAX,
    NEAR,
    PEERS,
    SIZE,
    InputSettings,
    inputs_elsewhere,
    peer_inputs,
)
from torch import Tensor

from mtgcn.methods.base import CPU, Method
from mtgcn.settings import NonNegativeFloat, NonNegativeInt, PositiveInt
from mtgcn.shapes import Bool, Float, Int
from mtgcn.task import Nodes, PeerReport, Prediction, Task, run_seed
from mtgcn.training.pseudo_label_record import PseudoLabelRecord

if TYPE_CHECKING:
    from mtgcn.graph import Graph

# What a kind of peer was worth on average over graphs of many kinds, before any label of this one is seen.
TRUST = {
    FEATURES: 0.5,
    NEAR: 1.0,
    FAR: 1.0,
    INFOMAX: 2.0,
    HELD_INFOMAX: 2.0,
    EDGES: 0.5,
    FAR_EDGES: 0.5,
    SIZE: 0.5,
}
FEW_LABELS = 3  # per class; up to so many all classes weigh the same
HALF_SKILLED = 2.0  # from half-way between chance and always right on, peers teach with full weight
CAUTION = 4  # the power with which teaching fades below that
VOICES = 2.0  # so many voices beside the first, counted by their votes, make teaching an exchange

Probabilities = Float[Tensor, "runs nodes classes"]


@dataclass(frozen=True, kw_only=True)
class PeersOfKinds(Method):
    """One setting for every graph and number of labels."""

    directions: PositiveInt = 512  # of the features that are kept
    edge_directions: PositiveInt = 256  # of the edges that are kept
    dimensions: PositiveInt = 256  # of the free encoder's embeddings
    held_dimensions: PositiveInt = 64  # of the embeddings of the encoder that is held back
    held_decay: NonNegativeFloat = 2e-3  # weight decay that holds it back
    infomax_epochs: NonNegativeInt = 200  # of training the encoders
    embeddings: PositiveInt = 5  # so many differently seeded pairs of encoders are shared by the runs of an experiment
    rounds: NonNegativeInt = 3  # of teaching
    steps: PositiveInt = 25  # of a fit to labels and pseudo labels
    teaching_weight: NonNegativeFloat = 1.0  # of the pseudo labels' loss beside that of the labels
    # One of these at a time is changed for the ablation.
    left_out: Literal["none", "features", "neighbourhoods", "infomax", "edges", "size"] = "none"  # which kinds of peers
    votes: Literal["held-out", "equal"] = "held-out"  # how much each peer counts
    taught_by: Literal["all", "itself"] = "all"  # the peers together, or each by itself
    taught: Literal["by-evidence", "always"] = "by-evidence"  # how much is taught at all
    balanced: Literal["by-labels", "always", "never"] = "by-labels"  # whether all classes weigh the same

    def fit(self, task: Task) -> Prediction:
        numbers = np.array([seed % self.embeddings for seed in task.seeds])
        order = np.argsort(numbers, kind="stable")
        parts = [self._fit_alike(_some_runs(task, numbers == number), int(number)) for number in np.unique(numbers)]
        return _in_order(Prediction.concatenate(parts), np.argsort(order, kind="stable"), numbers)

    def _fit_alike(self, task: Task, number: int) -> Prediction:
        """Runs that share their encoders."""
        inputs = peer_inputs(task.graph, self._inputs, run_seed(task.seed, number), task.device)
        rows = {name: table for name, table in inputs.rows.items() if name not in _LEFT_OUT[self.left_out]}
        parts = held_out_parts(task)
        evidence = {name: peer_evidence(table, task, parts) for name, table in rows.items()}
        votes = self._votes(evidence, task, parts)
        teaching = self._teaching(evidence, votes, task, parts)
        before = {
            name: (logits_of(rows[name], one.weight) / one.temperature[:, None, None]).softmax(-1)
            for name, one in evidence.items()
        }
        lessons = Lessons(self, rows, evidence, votes, teaching, task)
        after, weights = lessons.taught(before)
        # The less they teach, the more of the answer is what they said before.
        peers = torch.stack([_blended(after[name], before[name], teaching) for name in rows], 1)
        answer = _average(votes, peers.unbind(1))
        agreement = (peers.argmax(-1) == answer.argmax(-1)[:, None]).float().mean(-1)
        return Prediction(
            answer.cpu().numpy(),
            lessons.history(),
            peers=peers.cpu().numpy(),
            pseudo_labelled_at=lessons.record.first_epochs(),
            # The encoders of many runs would take more room than all the rest, and nobody applies those.
            parameters=_parameters(inputs.parameters, evidence, weights, votes, teaching) if task.runs == 1 else None,
            peer_report=PeerReport(
                tuple(rows),
                weights=votes.cpu().numpy(),
                held_out_accuracy=torch.stack([one.accuracy for one in evidence.values()], 1).cpu().numpy(),
                agreement=agreement.cpu().numpy(),
                teaching=teaching.cpu().numpy(),
            ),
        )

    def apply(
        self, parameters: Mapping[str, np.ndarray], graph: Graph, device: torch.device = CPU
    ) -> Float[np.ndarray, "runs peers nodes classes"]:
        votes, teaching = (torch.from_numpy(parameters[name].copy()).to(device) for name in ("votes", "teaching"))
        names = [name for name in PEERS if name not in _LEFT_OUT[self.left_out]]
        found: dict[str, Tensor] = {}
        for name, table in inputs_elsewhere(parameters, graph, device).items():
            if name in names:
                before, after, temperature = (
                    torch.from_numpy(parameters[f"{name}/{part}"].copy()).to(device)
                    for part in ("before", "after", "temperature")
                )
                untaught = (logits_of(table, before) / temperature[:, None, None]).softmax(-1)
                found[name] = _blended(logits_of(table, after).softmax(-1), untaught, teaching)
        present = torch.tensor([name in found for name in names], device=device)
        others = _average(votes[:, present] / votes[:, present].sum(1, keepdim=True), list(found.values()))
        return torch.stack([found.get(name, others) for name in names], 1).cpu().numpy()

    def combined(
        self,
        peers: Float[np.ndarray, "runs peers nodes classes"],
        parameters: Mapping[str, np.ndarray] | None = None,
    ) -> Float[np.ndarray, "runs nodes classes"]:
        if parameters is None:
            return super().combined(peers)
        return np.einsum("rp,rpnc->rnc", parameters["votes"], peers)

    def _votes(
        self, evidence: Mapping[str, PeerEvidence], task: Task, parts: Bool[Tensor, "runs parts labelled"]
    ) -> Float[Tensor, "runs peers"]:
        if self.votes == "equal":
            return torch.full((task.runs, len(evidence)), 1 / len(evidence), device=task.device)
        return vote_weights(evidence, TRUST, task, parts)

    def _teaching(
        self,
        evidence: Mapping[str, PeerEvidence],
        votes: Float[Tensor, "runs peers"],
        task: Task,
        parts: Bool[Tensor, "runs parts labelled"],
    ) -> Float[Tensor, "runs"]:
        """How much the peers teach, from 0 to 1: all they can where they together tell held-out labels well, little
        where these are told hardly better than by chance, or where one peer outweighs all others."""
        if self.taught == "always":
            return torch.ones(task.runs, device=task.device)
        together = sum(
            vote[:, None, None, None] * one.held_out for vote, one in zip(votes.T, evidence.values(), strict=True)
        )
        assert isinstance(together, Tensor)
        told = skill(accuracy_of(together, task.labelled.classes, parts), task.num_classes)
        voices = 1 / votes.square().sum(1)
        return (HALF_SKILLED * told).pow(CAUTION).clamp(max=1) * ((voices - 1) / VOICES).clamp(max=1)

    @property
    def _inputs(self) -> InputSettings:
        return InputSettings(
            self.directions,
            self.edge_directions,
            self.dimensions,
            self.held_dimensions,
            self.held_decay,
            self.infomax_epochs,
        )

    def bytes_per_run(self, task: Task) -> int:
        width = max(self._inputs.kept(self.directions, task.graph), self.dimensions) + 1
        labels = task.labelled.index.shape[1]
        at_nodes = task.num_nodes * task.num_classes * (3 * len(PEERS) + 6)
        return 4 * (at_nodes + 3 * width**2 + task.num_nodes * 4 + 60 * labels * (labels + 8 * task.num_classes))

    def shared_bytes(self, task: Task) -> int:
        graph, inputs = task.graph, self._inputs
        encoders = max(encoder.bytes_for(graph) for encoder in inputs.encoders(graph).values())
        features = min(inputs.kept(self.directions, graph), graph.num_features)
        edges = inputs.kept(self.edge_directions, graph)
        tables = graph.num_nodes * (6 * features + 5 * edges + 4 * self.dimensions + 3 * 256)
        return encoders + 4 * tables


_LEFT_OUT = {
    "none": (),
    "features": (FEATURES,),
    "neighbourhoods": (NEAR, FAR),
    "infomax": (INFOMAX, HELD_INFOMAX),
    "edges": (EDGES, FAR_EDGES),
    "size": (SIZE,),
}


class Lessons:
    """Round after round of teaching, and the record of who was pseudo-labelled when."""

    def __init__(
        self,
        settings: PeersOfKinds,
        rows: Mapping[str, Float[Tensor, "nodes width"]],
        evidence: Mapping[str, PeerEvidence],
        votes: Float[Tensor, "runs peers"],
        teaching: Float[Tensor, "runs"],
        task: Task,
    ) -> None:
        self.settings, self.rows, self.evidence, self.votes, self.task = settings, rows, evidence, votes, task
        self.amount = settings.teaching_weight * teaching
        self.evenness = _evenness(settings.balanced, task)
        self.record = PseudoLabelRecord(task)
        self._counts: list[Tensor] = []  # of pseudo labels, runs x peers, by round
        free = torch.ones(task.runs, task.num_nodes + 1, dtype=torch.bool, device=task.device)
        # NOBODY falls into the extra column.
        self.free = free.scatter_(1, task.labelled.index % (task.num_nodes + 1), False)[:, :-1]

    def taught(self, before: Mapping[str, Probabilities]) -> tuple[dict[str, Probabilities], dict[str, Tensor]]:
        """What every peer says after all rounds, and its weights."""
        said, weights = dict(before), {name: one.weight for name, one in self.evidence.items()}
        for _ in range(self.settings.rounds):
            teacher = _average(self.votes, list(said.values()))
            chosen = torch.zeros_like(self.free)
            counts = []
            for name, table in self.rows.items():
                lesson, classes = self.lesson(teacher if self.settings.taught_by == "all" else said[name])
                chosen |= lesson > 0
                counts.append((lesson > 0).sum(1))
                weights[name] = fit_to_all(
                    table,
                    *self._with_labels(lesson * self.amount[:, None], classes),
                    self.evidence[name].penalty,
                    weights[name],
                    self.settings.steps,
                )
                said[name] = logits_of(table, weights[name]).softmax(-1)
            self.record.next_epoch(chosen.T)
            self._counts.append(torch.stack(counts, 1))
        return said, weights

    def lesson(self, teacher: Probabilities) -> tuple[Float[Tensor, "runs nodes"], Int[Tensor, "runs nodes"]]:
        """How much each node counts, in all 1, and as which class.

        Nodes teach of which the teacher is surer than of the average node: of their class while labels are few, since
        it cannot know yet which classes it underrates; of all classes when there are more.
        """
        sure, classes = teacher.max(-1)
        free, evenness = self.free.to(sure.dtype), self.evenness
        by_class = partial(_sum_by_class, classes=classes, num_classes=self.task.num_classes)
        of_class = (by_class(sure * free) / by_class(free).clamp(min=1)).gather(1, classes)
        of_all = (sure * free).sum(1, keepdim=True) / free.sum(1, keepdim=True).clamp(min=1)
        weight = free * (sure >= evenness * of_class + (1 - evenness) * of_all)
        weight = weight / (by_class(weight).clamp(min=1) ** evenness).gather(1, classes)
        return weight / weight.sum(1, keepdim=True).clamp(min=torch.finfo(weight.dtype).tiny), classes

    def _with_labels(
        self, weight: Float[Tensor, "runs nodes"], classes: Int[Tensor, "runs nodes"]
    ) -> tuple[Float[Tensor, "runs nodes"], Int[Tensor, "runs nodes"]]:
        """The given labels among them, weighing 1 in all."""
        labelled: Nodes = self.task.labelled
        present = labelled.present
        share = present / present.sum(1, keepdim=True)
        extra = labelled.index % (self.task.num_nodes + 1)
        weight = torch.cat([weight, weight.new_zeros(len(weight), 1)], 1).scatter(1, extra, share)[:, :-1]
        classes = torch.cat([classes, classes.new_zeros(len(classes), 1)], 1).scatter(1, extra, labelled.classes)
        return weight, classes[:, :-1]

    def history(self) -> dict[str, Float[np.ndarray, "epochs runs peers"]]:
        return {"pseudo labels": torch.stack(self._counts).float().cpu().numpy()} if self._counts else {}


def _evenness(balanced: str, task: Task) -> Float[Tensor, "runs 1"]:
    """The power of its size that a class's weight is divided by: 1 makes classes equal, 0 leaves them as they are."""
    if balanced != "by-labels":
        return torch.full((task.runs, 1), float(balanced == "always"), device=task.device)
    labels_per_class = task.labelled.present.sum(1, keepdim=True) / task.num_classes
    return (FEW_LABELS / labels_per_class.clamp(min=FEW_LABELS)).sqrt()


def _sum_by_class(
    values: Float[Tensor, "runs nodes"], classes: Int[Tensor, "runs nodes"], num_classes: int
) -> Float[Tensor, "runs classes"]:
    return values.new_zeros(len(values), num_classes).scatter_add_(1, classes, values)


def _average(votes: Float[Tensor, "runs peers"], said: list[Tensor] | tuple[Tensor, ...]) -> Probabilities:
    average = torch.zeros_like(said[0])
    for vote, one in zip(votes.T, said, strict=True):
        average += vote[:, None, None] * one
    return average


def _blended(after: Probabilities, before: Probabilities, teaching: Float[Tensor, "runs"]) -> Probabilities:
    part = teaching[:, None, None]
    return part * after + (1 - part) * before


def _parameters(
    inputs: Mapping[str, np.ndarray],
    evidence: Mapping[str, PeerEvidence],
    weights: Mapping[str, Tensor],
    votes: Tensor,
    teaching: Tensor,
) -> dict[str, np.ndarray]:
    """All that `apply` needs; the one run first where there is a run axis."""
    kept = {"votes": votes, "teaching": teaching}
    for name, one in evidence.items():
        kept |= {f"{name}/before": one.weight, f"{name}/after": weights[name], f"{name}/temperature": one.temperature}
    return dict(inputs) | {name: np.ascontiguousarray(values.cpu().numpy()) for name, values in kept.items()}


def _some_runs(task: Task, chosen: Bool[np.ndarray, "runs"]) -> Task:
    runs = torch.from_numpy(np.flatnonzero(chosen)).to(task.device)
    seeds = tuple(seed for seed, mine in zip(task.seeds, chosen, strict=True) if mine)
    return replace(task, labelled=Nodes(task.labelled.index[runs], task.labelled.classes[runs]), seeds=seeds)


def _in_order(prediction: Prediction, order: Int[np.ndarray, "runs"], groups: Int[np.ndarray, "runs"]) -> Prediction:
    """The runs as the task has them, and which of them share encoders."""
    report = prediction.peer_report
    assert report is not None
    assert prediction.peers is not None
    assert prediction.pseudo_labelled_at is not None
    return replace(
        prediction,
        probabilities=prediction.probabilities[order],
        history={name: values[:, order] for name, values in prediction.history.items()},
        peers=prediction.peers[order],
        pseudo_labelled_at=prediction.pseudo_labelled_at[order],
        peer_report=PeerReport(
            report.names,
            report.weights[order],
            report.held_out_accuracy[order],
            report.agreement[order],
            report.teaching[order],
        ),
        groups=groups,
    )
