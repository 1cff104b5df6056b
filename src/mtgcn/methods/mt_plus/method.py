"""Mutual teaching taken further: peers that differ in kind, so that each sees of a node what no other does.

1. Eight peers are linear classifiers on rows of their own: the features; the near and the far neighbourhood (Wu et al.,
   2019; Gasteiger et al., 2019); infomax embeddings (Veličković et al., 2019), trained freely and held back; whom a
   node is connected with, directly and at a distance; how large it and its neighbours are.
2. The given labels are held out in turn. Each peer takes the penalty and the temperature under which they are likely.
3. Its vote is how much it adds to the likelihood of held-out labels beside the others.
4. Then, ten times over, the peers' weighted average teaches every one of them: nodes that it is surer of than of
   others count as labelled, classes evened out while labels are few.
5. How much they teach each other follows from how well they together tell held-out labels, and from whether more than
   one of them has a say at all.

    p_v = softmax(R_v W_v),  P = Σ_v w_v p_v,  w the mixture under which held-out labels are likeliest,
    W_v := argmin  - mean over labels of log p_v[i, y_i]  - 2 t · Σ_i m_i log p_v[i, argmax P_i]  + λ_v |W_v|².

Linear classifiers on such rows and infomax are old; that peers which differ in kind are weighed by the given labels and
taught by each other is what this method adds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import torch
from torch import Tensor

from mtgcn.linalg.arrays import on_host
from mtgcn.linalg.softmax_regression import probabilities_of
from mtgcn.linalg.truncated_svd import num_components
from mtgcn.methods.base import CPU, Method
from mtgcn.methods.mt_plus.cross_validation import (
    PeerEvidence,
    accuracy_of,
    folds_of,
    held_out_parts,
    peer_evidence,
    skill,
    vote_weights,
)
from mtgcn.methods.mt_plus.teaching import Lessons, Probabilities, SharedNodes, average, evenness_by_labels
from mtgcn.methods.mt_plus.views import (
    EDGES,
    FAR,
    FAR_EDGES,
    FEATURES,
    HELD_INFOMAX,
    INFOMAX,
    NEAR,
    OF_THEIR_GRAPH,
    PEERS,
    SIZE,
    InputSettings,
    PeerInputs,
    inputs_elsewhere,
    peer_inputs,
    remember_encoders,
)
from mtgcn.settings import Ge, Le, NonNegativeFloat, NonNegativeInt, PositiveInt
from mtgcn.shapes import Bool, Float, Int
from mtgcn.task import Nodes, PeerReport, Prediction, Task, run_seed
from mtgcn.training.progress import stage

if TYPE_CHECKING:
    from mtgcn.graph import Graph

# What a kind of peer was worth on average over graphs of many kinds, before any label of this one is seen.
TRUST = {
    FEATURES: 0.5,
    NEAR: 1.0,
    FAR: 1.0,
    INFOMAX: 2.0,
    HELD_INFOMAX: 4.0,
    EDGES: 0.5,
    FAR_EDGES: 0.5,
    SIZE: 0.5,
}
SKILLED = 0.625  # so far on the way from chance to being always right, peers teach with full weight
CAUTION = 8  # the power with which teaching fades below that
USUAL_SKILL, USUALLY = 0.7, 25  # what to expect before any label is held out, and how many labels that is worth


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """What peers see of all labelled nodes: the task numbers the rows of these tables."""

    task: Task
    rows: Mapping[str, Float[Tensor, "nodes width"]]
    parts: Bool[Tensor, "runs parts labelled"]  # that are held out in turn


@dataclass(frozen=True, kw_only=True)
class MTPlus(Method):
    """One setting for every graph and number of labels.

    >>> from mtgcn.methods import create, karate_club
    >>> task, accuracy = karate_club()
    >>> round(accuracy(create("mt-plus").fit(task)), 2)
    0.96
    """

    directions: PositiveInt = 256  # of the features that are kept
    edge_directions: PositiveInt = 256  # of the edges that are kept
    dimensions: PositiveInt = 256  # of an encoder's embeddings
    held_decay: NonNegativeFloat = 4e-3  # weight decay of the encoder that is held back
    infomax_epochs: NonNegativeInt = 200  # of training the encoders, each on some of the nodes
    # so many differently seeded pairs of encoders are shared by the runs of an experiment
    embeddings: Annotated[int, Ge(1), Le(1000)] = 5
    rounds: NonNegativeInt = 10  # of teaching
    steps: PositiveInt = 4  # of learning in each of them
    teaching_weight: NonNegativeFloat = 2.0  # of the pseudo labels' loss beside that of the labels
    # One of these at a time is changed for the ablation.
    left_out: Literal["none", "features", "neighbourhoods", "infomax", "edges", "size"] = "none"  # which peers
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
        inputs = peer_inputs(task.graph, self.inputs, run_seed(task.seed, number), task.device)
        return self.fit_to_rows(inputs, task, LabelledRows(task, inputs.rows, held_out_parts(task)))

    def fit_to_rows(
        self, inputs: PeerInputs, task: Task, labelled: LabelledRows, shared: SharedNodes | None = None
    ) -> Prediction:
        """Peers that see these rows of the nodes; with `shared`, of those nodes that this process holds."""
        rows = {name: inputs.rows[name] for name in self._peers}
        with stage("votes"):
            seen = {name: labelled.rows[name] for name in self._peers}
            evidence = peer_evidence(seen, TRUST, labelled.task, labelled.parts)
            votes = self._votes(evidence, labelled.task, labelled.parts)
        teaching = self._teaching(evidence, votes, labelled.task, labelled.parts)
        # What peers say stands once in memory, where it is answered: on large graphs that is as large as what they see.
        peers = votes.new_empty(task.runs, len(rows), task.num_nodes, task.num_classes)
        before = dict(zip(rows, peers.unbind(1), strict=True))
        for name, one in evidence.items():
            before[name].copy_(probabilities_of(rows[name], one.weight, one.temperature))
        amount, evenness = self.teaching_weight * teaching, self._evenness(labelled.task)
        lessons = Lessons(task, rows, evidence, votes, amount, evenness, labelled.task, shared)
        with stage("teaching", unit="round"):
            after, weights = lessons.taught(before, self.rounds, self.steps, self.taught_by)
        # The less they teach, the more of the answer is what they said before.
        for name in rows:
            before[name].copy_(_blended(after.pop(name), before[name], teaching))
        answer = average(votes, peers.unbind(1))
        agreed = (peers.argmax(-1) == answer.argmax(-1)[:, None]).sum(-1)
        agreement = (shared.total(agreed) if shared else agreed) / task.graph.num_nodes
        return Prediction(
            on_host(answer),
            lessons.history(),
            peers=on_host(peers),
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
        found: dict[str, Tensor] = {}
        for name, table in inputs_elsewhere(parameters, graph, device):
            if name in self._peers:
                before, after, temperature = (
                    torch.from_numpy(parameters[f"{name}/{part}"].copy()).to(device)
                    for part in ("before", "after", "temperature")
                )
                untaught = probabilities_of(table, before, temperature)
                found[name] = _blended(probabilities_of(table, after), untaught, teaching)
        present = torch.tensor([name in found for name in self._peers], device=device)
        asked = [found[name] for name in self._peers if name in found]
        others = average(votes[:, present] / votes[:, present].sum(1, keepdim=True), asked)
        return torch.stack([found.get(name, others) for name in self._peers], 1).cpu().numpy()

    def remember(self, parameters: Mapping[str, np.ndarray], task: Task) -> None:
        for number in {seed % self.embeddings for seed in task.seeds}:
            remember_encoders(parameters, task.graph, self.inputs, run_seed(task.seed, number))

    @property
    def peers_of_their_graph(self) -> tuple[str, ...]:
        return OF_THEIR_GRAPH

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
        where these are told hardly better than by chance, or where one peer outweighs all others.

        Held-out labels were told by peers that had not seen all labels, so the fewer there are, the more the peers know
        beyond what they show; and the less what they show is to be relied on."""
        if self.taught == "always":
            return torch.ones(task.runs, device=task.device)
        held_out = average(votes, [one.held_out.flatten(1, 2) for one in evidence.values()])
        accuracy = accuracy_of(held_out.view_as(next(iter(evidence.values())).held_out), task.labelled.classes, parts)
        labels = task.labelled.present.sum(1)
        folds = accuracy.new_tensor([folds_of(count, task.num_classes) for count in labels.tolist()])
        shown = skill(accuracy, task.num_classes) * folds / (folds - 1)
        told = (labels * shown + USUALLY * USUAL_SKILL) / (labels + USUALLY)
        voices = 1 / votes.square().sum(1)
        return (told / SKILLED).clamp(max=1).pow(CAUTION) * (voices - 1).clamp(max=1)

    def _evenness(self, task: Task) -> Float[Tensor, "runs 1"]:
        if self.balanced == "by-labels":
            return evenness_by_labels(task)
        return torch.full((task.runs, 1), float(self.balanced == "always"), device=task.device)

    @property
    def _peers(self) -> tuple[str, ...]:
        return tuple(name for name in PEERS if name not in _LEFT_OUT[self.left_out])

    @property
    def inputs(self) -> InputSettings:
        return InputSettings(
            self.directions, self.edge_directions, self.dimensions, self.held_decay, self.infomax_epochs
        )

    def bytes_per_run(self, task: Task) -> int:
        width = max(num_components(self.directions, task.graph), self.dimensions) + 1
        labels = task.labelled.index.shape[1]
        # What all peers say, what they say after the lessons, and some of it on the way.
        at_nodes = task.num_nodes * task.num_classes * (2 * len(PEERS) + 6)
        return 4 * (at_nodes + 3 * width**2 + task.num_nodes * 4 + 60 * labels * (labels + 8 * task.num_classes))

    def shared_bytes(self, task: Task) -> int:
        return self.inputs.bytes_for(task.graph)


_LEFT_OUT = {
    "none": (),
    "features": (FEATURES,),
    "neighbourhoods": (NEAR, FAR),
    "infomax": (INFOMAX, HELD_INFOMAX),
    "edges": (EDGES, FAR_EDGES),
    "size": (SIZE,),
}


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
    if (order == np.arange(len(order))).all():  # as one run is: to bring it in order would be a copy of it all
        return replace(prediction, groups=groups)
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
