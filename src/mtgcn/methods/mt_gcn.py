"""MT-GCN (Zhan and Niu, 2021): two GCNs teach each other with their most confident predictions.

Both peers learn from the labels first. In every later epoch, peer g also learns from its teacher h, the other peer: the
teacher's most confident predictions are further labels (hard targets) and probabilities to match (soft targets).

    L_o  = L_sup + L_pl + L_cl                                                          the loss of peer g
    L_sup = - mean over i in V_L of log p_i,y(i)
    L_pl  = - mean over i in V(h) of w_i log p_i,ŷ(i)
    L_cl  =   mean over i in V(h) of Σ_j p'_ij log(p'_ij / p_ij)

    Z, p          logits (nodes x k classes) and probabilities of peer g: Z = Â ReLU(Â X Θ0) Θ1, p_i = softmax(Z_i)
    p', ŷ, c, q   of the teacher: probabilities; pseudo labels ŷ_i = argmax_j p'_ij; confidences c_i = max_j p'_ij;
                  nodes in descending order of confidence
    V_L, y        labelled nodes and their classes
    V(h)          the t first unlabelled nodes of each pseudo-label class in the order q (Algorithm 1)
    w_i           certainty of the teacher, 1 - H(p'_i) / log k, with the entropy H

Comments give the lines of the paper's algorithms. `docs/mt_gcn_in_60_lines.py` is the same in plain PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from mtgcn.communicator import ONE_PROCESS, Communicator
from mtgcn.errors import InputError
from mtgcn.methods.base import NetworkMethod, Reduction, reduced, supervised_loss, supervised_step
from mtgcn.nn.backbones import Backbone, check_backbone, network_class
from mtgcn.nn.base import CLASSES, NODES, PEERS, NodeValues, StackedNetwork, each_peer, mean_of_peers, rows_at
from mtgcn.settings import Ge, Le, NonNegativeInt, PositiveInt
from mtgcn.shapes import Float
from mtgcn.task import Nodes, Prediction, Task
from mtgcn.training.loop import Phase, PseudoLabelRecord, Recorder, Step
from mtgcn.training.pseudo_labels import (
    PseudoLabels,
    certainty,
    confidence,
    default_per_class,
    labelled_mask,
    most_confident,
)


@dataclass(frozen=True, kw_only=True)
class MTGCN(NetworkMethod):
    """Settings cover what the paper leaves open; defaults follow the authors' program."""

    backbone: Backbone = "gcn"  # the peers' network: gcn, chebyshev, appnp, gat, or a torch module
    per_class: PositiveInt | None = None  # t; None: the paper's number for its datasets, its rule elsewhere
    one_more_per_class: bool = False  # t + 1 per class: the condition cnt_j <= t of Algorithm 1 as printed
    warmup_epochs: NonNegativeInt = 200  # epochs with L_sup alone
    teaching_epochs: NonNegativeInt = 200  # epochs with all three losses
    peers: Annotated[int, Ge(2), Le(100)] = 2  # each learns from the next, the last from the first
    supervised_reduction: Reduction = "mean"  # reduction of L_sup over labelled nodes
    consistency_reduction: Reduction = "mean"  # reduction of L_cl over the selected nodes
    certainty_of: Literal["teacher", "learner"] = "teacher"  # model whose entropy determines w
    teacher_gradient: bool = False  # whether the gradient flows through soft targets to the teacher
    choose_with_dropout: bool = True  # select from the forward pass that is trained, or from one without dropout
    pseudo_labels: bool = True  # L_pl; False for the ablation
    consistency: bool = True  # L_cl; False for the ablation
    mutual: bool = True  # False: each peer teaches itself
    output: Literal["mean", "first"] = "mean"  # prediction: mean of all peers, or the first peer
    # The epoch whose parameters predict: the last one or, as in the authors' program, the last one whose training
    # accuracy, with dropout, equals the peer's best so far.
    checkpoint: Literal["last", "best-training"] = "last"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_backbone(self.backbone, self)

    def network(self, task: Task) -> StackedNetwork:
        return network_class(self.backbone)(task, self.peers, self)

    def fit(self, task: Task) -> Prediction:
        """Algorithm 2."""
        network = self.network(task)  # line 3: Â, and Θ0 and Θ1 of every peer
        teaching = Teaching(self, network, task)
        recorder = Recorder(network, self.warmup_epochs + self.teaching_epochs, self.answering_peers)
        phases = [
            Phase(self.warmup_epochs, lambda: supervised_step(network, task, self.supervised_reduction)),
            Phase(self.teaching_epochs, teaching.step),
        ]
        best = BestTrainingAccuracy(network, task) if self.checkpoint == "best-training" else None
        phases = [best.watched(phase) for phase in phases] if best else phases
        # Lines 4 to 15: N = warmup_epochs + teaching_epochs.
        history = self.train(
            network,
            phases,
            communicator=task.communicator,
            record=teaching.record,
            after_epoch=lambda done: recorder.after_epoch(done, teaching.chosen),
        )
        if best:
            network.load_state_dict(best.parameters)
        recorder.finish()
        probabilities = network.probabilities()  # line 2: softmax of Z(1) and Z(2)
        return Prediction(
            mean_of_peers(probabilities[..., self.answering_peers]),
            history,
            peers=each_peer(probabilities),
            pseudo_labelled_at=teaching.record.first_epochs(),
            parameters=network.trained(),
        )

    @property
    def answering_peers(self) -> slice:
        return slice(None) if self.output == "mean" else slice(1)

    def bytes_per_run(self, task: Task) -> int:
        return self.peers * network_class(self.backbone).bytes_per_model(task, self)


class Teaching:
    """The epochs of mutual teaching, for all runs and peers together, and a record of the pseudo labels."""

    def __init__(self, settings: MTGCN, network: StackedNetwork, task: Task) -> None:
        self.settings, self.network, self.task = settings, network, task
        per_class = settings.per_class or default_per_class(task.graph)
        self.per_class = min(per_class + settings.one_more_per_class, task.graph.num_nodes)  # t
        self.exclude = labelled_mask(task)
        self.record = PseudoLabelRecord(task, epochs_before=settings.warmup_epochs)
        self.chosen: PseudoLabels | None = None  # pseudo labels of each peer in the last epoch

    def step(self) -> Step:
        """One epoch: lines 5 to 14 of Algorithm 2."""
        settings, network, task = self.settings, self.network, self.task
        # Lines 5 to 11: every peer predicts and selects. Algorithm 1 visits nodes i in the order q and takes i if it is
        # unlabelled and fewer than t nodes with its class ŷ_i have been taken: cnt_j < t, ŷ_ij = 1, i in D_U.
        # `most_confident` finds the same nodes with one sort by class and confidence.
        logits = network.logits()  # line 6: Z
        seen = logits.detach() if settings.choose_with_dropout else network.logits_without_dropout()
        sure, predicted = confidence(seen)  # line 7: ŷ = argmax p; line 8: c = max p
        chosen = self.chosen = most_confident(  # line 9: q; line 10: Algorithm 1
            sure,
            predicted,
            classes=task.num_classes,
            per_class=self.per_class,
            exclude=self.exclude,
            num_nodes=task.graph.num_nodes,
            communicator=task.communicator,
        )
        self.record.next_epoch(chosen.chosen_by_any(task.num_nodes))

        losses, chosen = peer_losses(logits, task.labelled, chosen, settings, task.communicator)
        # The share of pseudo labels with the class that the learner predicts.
        same = (predicted.gather(NODES, chosen.nodes) == chosen.classes) & chosen.filled
        agreement = same.sum(0) / chosen.total.clamp(min=1)
        return Step(losses, {"pseudo labels": chosen.count, "agreement": agreement})


def peer_losses(
    logits: NodeValues, labelled: Nodes, chosen: PseudoLabels, settings: MTGCN, communicator: Communicator = ONE_PROCESS
) -> tuple[dict[str, Float[Tensor, "runs peers"]], PseudoLabels]:
    """Lines 12 to 14: the losses of every peer, whose sum is L_o, and the pseudo labels that each peer learns."""
    at_labelled = rows_at(logits, labelled.index).log_softmax(CLASSES)
    losses = {"supervised": supervised_loss(at_labelled, labelled, settings.supervised_reduction, communicator)}
    # From here on, tensors hold rows of the selected nodes alone.
    teacher = chosen.rows(logits if settings.teacher_gradient else logits.detach()).log_softmax(CLASSES)  # log p'
    if settings.mutual:
        teacher, chosen = teacher.roll(-1, PEERS), chosen.from_next_peer()  # peer g gets V(h) and p' of h = g + 1
    learner = chosen.rows(logits).log_softmax(CLASSES)  # log p
    if settings.pseudo_labels:
        source = teacher if settings.certainty_of == "teacher" else learner
        weight = torch.where(chosen.filled, certainty(source.detach()), 0)  # w
        losses["pseudo-label"] = reduced(-weight * chosen.own_class(learner), chosen.total, "mean")
    if settings.consistency:
        divergence = (teacher.exp() * (teacher - learner)).sum(CLASSES)
        terms = torch.where(chosen.filled, divergence, 0)
        losses["consistency"] = reduced(terms, chosen.total, settings.consistency_reduction)
    return losses, chosen


def teaching_loss(logits: Sequence[Tensor], y: Tensor, per_class: int, **settings: Any) -> Float[Tensor, "peers"]:
    """The loss L_o of every peer, for user-defined training loops.

    Parameters
    ----------
    logits : sequence of tensors (nodes, classes)
        The output of each peer, two or more. Each learns from the next, the last from the first.
    y : tensor (nodes,)
        The class of each labelled node, -1 for all others.
    per_class : int
        t: how many of its most confident predictions of each class a peer teaches.
    **settings
        Settings of `mt-gcn` that concern the losses, such as `consistency=False`.

    Returns
    -------
    tensor (peers,)
        L_sup + L_pl + L_cl. Their sum trains all peers: `teaching_loss(…).sum().backward()`.
    """
    shapes = {tuple(one.shape) for one in logits}
    if len(logits) < 2 or len(shapes) > 1 or len(y) not in {shape[0] for shape in shapes}:
        found = f"{len(logits)} tensors of {sorted(shapes)} and {len(y)} labels"
        raise InputError(f"teaching_loss got {found}; give two or more tensors (nodes, classes) and a label per node")
    method = MTGCN(per_class=per_class, peers=len(logits), **settings)
    stacked = torch.stack(tuple(logits), -1)[:, :, None]  # nodes, classes, 1, peers
    index = (y >= 0).nonzero().T  # 1, labelled
    each = min(per_class + method.one_more_per_class, len(y))
    sure, predicted = confidence(stacked.detach())
    chosen = most_confident(sure, predicted, classes=stacked.shape[1], per_class=each, exclude=(y >= 0)[:, None])
    losses, _ = peer_losses(stacked, Nodes(index, y[index]), chosen, method)
    return torch.stack(tuple(losses.values())).sum(0)[0]


class BestTrainingAccuracy:
    """Keeps each peer's parameters after the last epoch whose training accuracy equals its best so far."""

    def __init__(self, network: StackedNetwork, task: Task) -> None:
        self.network, self.task = network, task
        self.parameters = network.clone_parameters()
        self.best = torch.zeros(task.runs, network.peers, dtype=torch.int64, device=task.device)  # correct labels
        self.is_best = torch.zeros_like(self.best, dtype=torch.bool)

    def watched(self, phase: Phase) -> Phase:
        """The phase with a check of the training accuracy in each epoch."""

        def step() -> Step:
            # Dropout stays the same within an epoch, so this is the forward pass that is trained.
            with torch.no_grad():
                labelled = self.task.labelled
                predicted = self.network.logits_at(labelled.index).argmax(CLASSES)  # labels, runs, peers
                correct = ((predicted == labelled.classes.T[..., None]) & labelled.present.T[..., None]).sum(0)
                self.is_best.copy_(correct >= self.best)
                torch.maximum(correct, self.best, out=self.best)
            return phase.step()

        def keep() -> None:
            self.network.copy_runs(self.network.clone_parameters(), self.parameters, self.is_best)

        return replace(phase, step=step, after_epoch=keep)
