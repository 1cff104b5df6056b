"""MT-GCN (Zhan and Niu, 2021): two GCNs teach each other with their most confident predictions.

Both learn from the labels first. Then, in every epoch, each takes its neighbour's surest predictions of each
class as further labels (hard) and as probabilities to match (soft).

    loss = L_s + L_pl + L_cl,  S the t nodes of each class that the teacher, who says Z' and so ŷ', is surest of,
    L_s  = - mean over labelled i of log Z[i, y_i],
    L_pl = - mean over i in S of w_i log Z[i, ŷ'_i]  with  w_i = 1 - H(Z'_i) / log k,
    L_cl = mean over i in S of KL(Z'_i || Z_i).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
from torch import Tensor

from mtgcn.methods.trained import NetworkMethod, supervised_step
from mtgcn.nn.backbones import Backbone, bytes_per_model, check_backbone, stacked_network
from mtgcn.nn.base import CLASSES, NODES, PEERS, NetworkSettings, StackedNetwork, each_peer, mean_of_peers, rows_at
from mtgcn.settings import Ge, Le, NonNegativeInt, PositiveInt
from mtgcn.shapes import Float
from mtgcn.task import Prediction, Task
from mtgcn.training.loop import Adam, Phase, Step, train
from mtgcn.training.losses import Reduction, consistency_loss, pseudo_label_loss, supervised_loss
from mtgcn.training.pseudo_labels import (
    PseudoLabels,
    certainty,
    confidence,
    default_per_class,
    labelled_mask,
    most_confident,
)
from mtgcn.training.recording import PseudoLabelRecord, Recorder, recorder_for


@dataclass(frozen=True, kw_only=True)
class MTGCN(NetworkSettings, NetworkMethod):
    """Algorithm 2. What the paper leaves open is a setting; its default is what the authors' program does.

    >>> from mtgcn.methods import create, karate_club
    >>> task, accuracy = karate_club()
    >>> round(accuracy(create("mt-gcn").fit(task)), 2)
    0.96
    """

    backbone: Backbone = "gcn"  # the peers' network: gcn, chebyshev, appnp, gat, or a module of one's own
    per_class: PositiveInt | None = None  # t; None: the paper's number for its datasets, its rule elsewhere
    one_more_per_class: bool = False  # Algorithm 1 as printed (cnt <= t) takes t + 1
    warmup_epochs: NonNegativeInt = 200  # in which peers learn from the few labels alone
    teaching_epochs: NonNegativeInt = 200  # in which they also learn what their peer is sure of
    peers: Annotated[int, Ge(2), Le(100)] = 2  # each learns from the next, the last from the first
    supervised_reduction: Reduction = "mean"  # of L_s, over labelled nodes
    consistency_reduction: Reduction = "mean"  # of L_cl, over the chosen nodes
    certainty_of: Literal["teacher", "learner"] = "teacher"  # whose entropy weights a pseudo label
    teacher_gradient: bool = False  # whether a soft target passes gradient back to its teacher
    choose_with_dropout: bool = True  # choose from the pass that is trained, or from one without dropout
    pseudo_labels: bool = True  # L_pl; off for the ablation
    consistency: bool = True  # L_cl; off for the ablation
    mutual: bool = True  # off: each peer teaches itself
    output: Literal["mean", "first"] = "mean"  # of all peers, or the first peer alone
    # When a peer is read: after the last epoch, or, as the authors' program does, after the last epoch whose training
    # accuracy, measured with dropout on, equals the peer's best so far.
    checkpoint: Literal["last", "best-training"] = "last"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_backbone(self.backbone, self)

    def network(self, task: Task) -> StackedNetwork:
        return stacked_network(self.backbone, task, self.peers, settings=self)

    def fit(self, task: Task) -> Prediction:
        network = self.network(task)
        recorder = recorder_for(network, self.warmup_epochs + self.teaching_epochs, self._heard)
        teaching = Teaching(self, network, task, recorder)
        phases = [
            Phase(self.warmup_epochs, lambda: supervised_step(network, task, self.supervised_reduction)),
            Phase(self.teaching_epochs, teaching.step),
        ]
        best = BestInTraining(network, task) if self.checkpoint == "best-training" else None
        for watcher in (best, recorder):
            phases = phases if watcher is None else [watcher.watched(phase) for phase in phases]
        history = train(network, phases, Adam(self.learning_rate, self.weight_decay))
        if best:
            network.load_state_dict(best.parameters)
        if recorder:
            recorder.finish()
        probabilities = network.probabilities()
        return Prediction(
            mean_of_peers(self._heard(probabilities)),
            history,
            peers=each_peer(probabilities),
            pseudo_labelled_at=teaching.record.first_epochs(),
            parameters=network.trained(),
        )

    @property
    def answering_peers(self) -> slice:
        return slice(None) if self.output == "mean" else slice(1)

    def _heard(
        self, probabilities: Float[Tensor, "nodes classes runs peers"]
    ) -> Float[Tensor, "nodes classes runs some"]:
        """The peers whose mean is the answer."""
        return probabilities[..., self.answering_peers]

    def bytes_per_run(self, task: Task) -> int:
        return bytes_per_model(self.backbone, task, self) * self.peers


class Teaching:
    """One epoch of mutual teaching after another, and the record of who was pseudo-labelled when."""

    def __init__(self, settings: MTGCN, network: StackedNetwork, task: Task, recorder: Recorder | None = None) -> None:
        self.settings, self.network, self.task, self.recorder = settings, network, task, recorder
        per_class = settings.per_class or default_per_class(task.graph)
        self.per_class = min(per_class + settings.one_more_per_class, task.graph.num_nodes)
        self.exclude = labelled_mask(task)
        self.record = PseudoLabelRecord(task, epochs_before=settings.warmup_epochs)

    def step(self) -> Step:
        settings = self.settings
        logits = self.network.logits()
        at_labelled = rows_at(logits, self.task.labelled.index).log_softmax(CLASSES)
        losses = {"supervised": supervised_loss(at_labelled, self.task.labelled, settings.supervised_reduction)}
        chosen, predicted = self._choose(logits.detach())
        self.record.next_epoch(chosen.chosen_by_any(self.task.num_nodes))
        if self.recorder:
            self.recorder.keep_choice(chosen)
        # From here on, rows of the chosen nodes alone: what the teacher says there and what the learner does.
        teacher = chosen.rows(logits if settings.teacher_gradient else logits.detach()).log_softmax(CLASSES)
        if settings.mutual:
            teacher, chosen = teacher.roll(-1, PEERS), chosen.from_next_peer()
        learner = chosen.rows(logits).log_softmax(CLASSES)
        if settings.pseudo_labels:
            whose = teacher if settings.certainty_of == "teacher" else learner
            losses["pseudo-label"] = pseudo_label_loss(learner, certainty(whose.detach()), chosen)
        if settings.consistency:
            losses["consistency"] = consistency_loss(learner, teacher, chosen, settings.consistency_reduction)
        return Step(losses, {"pseudo labels": chosen.count, "agreement": _agreement(predicted, chosen)})

    def _choose(self, logits: Tensor) -> tuple[PseudoLabels, Tensor]:
        """The pseudo labels of each peer, and what each predicts of every node."""
        if not self.settings.choose_with_dropout:
            logits = self.network.logits_without_dropout()
        sure, predicted = confidence(logits)
        chosen = most_confident(
            sure, predicted, classes=self.task.num_classes, per_class=self.per_class, exclude=self.exclude
        )
        return chosen, predicted


class BestInTraining:
    """Each peer's parameters after the last epoch in which none of its passes over the labels had been better."""

    def __init__(self, network: StackedNetwork, task: Task) -> None:
        self.network, self.task = network, task
        self.parameters = network.clone_parameters()
        self.most_right = torch.zeros(task.runs, network.peers, dtype=torch.int64, device=task.device)
        self.as_good = torch.zeros_like(self.most_right, dtype=torch.bool)

    def watched(self, phase: Phase) -> Phase:
        """The same epochs, with an eye on them."""

        def step() -> Step:
            self._judge()
            return phase.step()

        return replace(phase, step=step, after_epoch=self._keep)

    @torch.no_grad()
    def _judge(self) -> None:
        # Within an epoch dropout stays the same, so this is the very pass that is trained.
        labelled = self.task.labelled
        predicted = self.network.logits_at(labelled.index).argmax(CLASSES)  # labels, runs, peers
        right = (predicted == labelled.classes.T[..., None]) & labelled.present.T[..., None]
        count = right.sum(0)
        self.as_good.copy_(count >= self.most_right)
        torch.maximum(count, self.most_right, out=self.most_right)

    def _keep(self) -> None:
        self.network.copy_runs(self.network.clone_parameters(), self.parameters, self.as_good)


def _agreement(predicted: Tensor, chosen: PseudoLabels) -> Tensor:
    """The share of pseudo labels whose class the learner predicts as well."""
    same = (predicted.gather(NODES, chosen.nodes) == chosen.classes) & chosen.filled
    return same.sum(0) / chosen.count.clamp(min=1)
