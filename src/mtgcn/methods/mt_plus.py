"""Mutual teaching taken further: peers on embeddings that were learned from all nodes.

Encoders look at every node's surroundings without labels (Deep Graph Infomax). Each peer is a linear classifier on the
embeddings of an encoder of its own. Both learn from the labels first. Then, in every epoch, the average of the two is
propagated along a random walk, and where more of it arrives than at the average node, both learn the class that it
says. So a node teaches if the peers are sure of it and of what it is connected with, the better connected the sooner.
With few labels per class all classes weigh the same, since the peers cannot know yet how large they are; with more,
larger classes weigh more.

    Q = 4 times Q := 0.8 Â Q + 0.2 P̄,  from Q = P̄, the mean of the peers' probabilities P,
    S = { i unlabelled : max_k Q_ik > its mean over all nodes },  c_i = argmax_k Q_ik,  n_k = |{ i in S : c_i = k }|,
    loss = - mean over labelled i of log P[i, y_i] - 3 Σ_{i in S} w_i log P[i, c_i],
    w_i = n_c^-β / Σ_k n_k^(1-β)  with  c = c_i  and  β = min(1, √(3 / labels per class)).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from mtgcn.linalg.graph_operators import graph_operators
from mtgcn.linalg.pagerank import personalized_page_rank
from mtgcn.methods.base import CPU, Method
from mtgcn.methods.trained import supervised_step
from mtgcn.nn.axes import CLASSES, NODES, PEERS, each_peer, mean_of_peers, rows_at
from mtgcn.nn.infomax import InfomaxSettings, Propagation
from mtgcn.nn.linear import LinearPeers
from mtgcn.settings import NonNegativeFloat, NonNegativeInt, PositiveInt
from mtgcn.shapes import Float, Int
from mtgcn.task import Prediction, Task
from mtgcn.training.adam import Adam
from mtgcn.training.embeddings import Embedding, embedding, encode
from mtgcn.training.loop import Phase, Step, train
from mtgcn.training.losses import supervised_loss
from mtgcn.training.progress import stage
from mtgcn.training.pseudo_label_record import PseudoLabelRecord
from mtgcn.training.pseudo_labels import labelled_mask

if TYPE_CHECKING:
    from mtgcn.graph import Graph

STEPS, RESTART = 4, 0.2  # of the random walk
FEW_LABELS = 3  # per class; up to so many all classes weigh the same


@dataclass(frozen=True, kw_only=True)
class MTPlus(Method):
    """One setting for every graph and number of labels.

    >>> from mtgcn.methods import create, karate_club
    >>> task, accuracy = karate_club()
    >>> round(accuracy(create("mt-plus").fit(task)), 2)
    0.96
    """

    draws_by_place: ClassVar[bool] = True  # the encoders' counterexamples deal features out by place

    peers: PositiveInt = 2  # linear classifiers, each on embeddings of its own
    warmup_epochs: NonNegativeInt = 100  # in which peers learn from the few labels alone
    teaching_epochs: NonNegativeInt = 100  # in which they also learn what they are sure of together
    teaching_weight: NonNegativeFloat = 3.0  # of the pseudo labels' loss beside that of the labels
    learning_rate: NonNegativeFloat = 0.01  # of the peers
    weight_decay: NonNegativeFloat = 1e-3  # of the peers
    dimensions: PositiveInt = 256  # of one encoder's embeddings
    repeats: PositiveInt = 1  # encoders per peer
    infomax_epochs: NonNegativeInt = 200  # of training the encoders
    infomax_decay: NonNegativeFloat = 2e-3  # weight decay of the encoders
    embeddings: PositiveInt = 5  # so many differently seeded sets of encoders are shared by all runs on a graph
    # One of these at a time is changed for the ablation.
    feature_scaling: Literal["length", "sum"] = "length"  # to which each node's features are brought
    propagated: Literal["along-walk", "normalised", "not"] = "along-walk"  # how the teacher's probabilities are
    taught_by: Literal["average", "other"] = "average"  # the average of the peers, or each by the other
    chosen: Literal["above-mean", "all"] = "above-mean"  # which nodes teach
    balanced: Literal["by-labels", "always", "never"] = "by-labels"  # whether all classes weigh the same

    def fit(self, task: Task) -> Prediction:
        numbers = [seed % self.embeddings for seed in task.seeds]
        distinct = sorted(set(numbers))
        found = self._embeddings(task, distinct)
        embeddings = [[one.embeddings for one in of_peers] for of_peers in found]
        network = LinearPeers(task, embeddings, [distinct.index(number) for number in numbers])
        teaching = Teaching(self, network, task)
        phases = [
            Phase(self.warmup_epochs, lambda: supervised_step(network, task)),
            Phase(self.teaching_epochs, teaching.step),
        ]
        history = train(network, phases, Adam(self.learning_rate, self.weight_decay))
        probabilities = network.probabilities()
        return Prediction(
            mean_of_peers(probabilities),
            history,
            peers=each_peer(probabilities),
            pseudo_labelled_at=teaching.record.first_epochs(),
            # The encoders of many runs would take more room than all the rest, and nobody applies those.
            parameters=_with_encoders(network, found[0]) if task.runs == 1 else None,
        )

    def apply(
        self, parameters: Mapping[str, np.ndarray], graph: Graph, device: torch.device = CPU
    ) -> Float[np.ndarray, "runs peers nodes classes"]:
        embeddings = [encode(graph, self.propagation, _of_peer(parameters, peer), device) for peer in range(self.peers)]
        network = LinearPeers(Task.without_labels(graph, device=device), [embeddings], [0])
        network.load_trained(parameters)
        return each_peer(network.probabilities())

    def _infomax(self, graph: Graph) -> InfomaxSettings:
        settings = InfomaxSettings(self.dimensions, self.repeats, self.infomax_epochs, weight_decay=self.infomax_decay)
        return settings.for_graph(graph)

    def _embeddings(self, task: Task, numbers: Sequence[int]) -> list[list[Embedding]]:
        """For each number those of all peers; they differ in their random numbers only."""
        settings = self._infomax(task.graph)
        made: list[Embedding] = []
        for number in numbers:
            for seed in range(number * self.peers, (number + 1) * self.peers):
                with stage(f"embeddings {len(made) + 1} of {len(numbers) * self.peers}"):
                    made.append(embedding(task.graph, self.propagation, settings, seed, task.device))
        return [made[first : first + self.peers] for first in range(0, len(made), self.peers)]

    @property
    def propagation(self) -> Propagation:
        """What the encoders see."""
        return Propagation(self.feature_scaling, STEPS, RESTART)

    def bytes_per_run(self, task: Task) -> int:
        settings = self._infomax(task.graph)
        propagated = 4 * 3 * task.num_nodes * task.num_classes  # where the walk is, where it was and where it began
        return LinearPeers.bytes_per_model(task, settings.dimensions * settings.repeats) * self.peers + propagated

    def shared_bytes(self, task: Task) -> int:
        return self._infomax(task.graph).bytes_for(task.graph)


class Teaching:
    """One epoch of mutual teaching after another, and the record of who was pseudo-labelled when."""

    def __init__(self, settings: MTPlus, network: LinearPeers, task: Task) -> None:
        self.settings, self.network, self.task = settings, network, task
        self.may_teach = ~labelled_mask(task)[..., None]  # nodes, runs, 1
        self.balancing = _balancing(settings, task)
        self.adjacency = graph_operators(task.graph, settings.feature_scaling, task.device).adjacency
        self.record = PseudoLabelRecord(task, epochs_before=settings.warmup_epochs)

    def step(self) -> Step:
        log_probabilities = self.network.logits().log_softmax(CLASSES)
        at_labelled = rows_at(log_probabilities, self.task.labelled.index)
        probabilities = log_probabilities.detach().exp()
        together = self.settings.taught_by == "average"
        teacher = probabilities.mean(PEERS, keepdim=True) if together else probabilities.roll(-1, PEERS)
        weight, classes = self._pseudo_label_weights(self._propagated_teacher(teacher))
        target_log_prob = log_probabilities.gather(
            CLASSES, classes[:, None].expand(-1, -1, -1, self.network.peers)
        ).squeeze(CLASSES)
        teaches = weight > 0
        self.record.next_epoch(teaches.any(-1))
        losses = {
            "supervised": supervised_loss(at_labelled, self.task.labelled),
            "pseudo-label": -self.settings.teaching_weight * (weight * target_log_prob).sum(NODES),
        }
        return Step(losses, {"pseudo labels": teaches.sum(NODES).expand(-1, self.network.peers)})

    def _propagated_teacher(
        self, probabilities: Float[Tensor, "nodes classes *rest"]
    ) -> Float[Tensor, "nodes classes *rest"]:
        """The probabilities along a walk from each node. They do not sum to 1: to a well connected node more arrives,
        and that it counts as surer for it is what propagating is for."""
        if self.settings.propagated == "not":
            return probabilities
        arrived = personalized_page_rank(probabilities, self.adjacency, STEPS, RESTART)
        return arrived if self.settings.propagated == "along-walk" else arrived / arrived.sum(CLASSES, keepdim=True)

    def _pseudo_label_weights(
        self, teacher: Float[Tensor, "nodes classes runs teachers"]
    ) -> tuple[Float[Tensor, "nodes runs teachers"], Int[Tensor, "nodes runs teachers"]]:
        """How much each node counts, in all 1, and as which class."""
        sure, classes = teacher.max(CLASSES)
        chosen = self.may_teach if self.settings.chosen == "all" else self.may_teach & (sure > sure.mean(NODES))
        weight = chosen.to(teacher.dtype)
        of_class = weight.new_zeros(teacher.shape[CLASSES:]).scatter_add_(0, classes, weight)  # classes, runs, teachers
        divisor = of_class.clamp(min=1e-12) ** self.balancing
        in_all = torch.where(of_class > 0, of_class / divisor, 0.0).sum(0).clamp(min=1e-12)
        return weight / divisor.gather(0, classes) / in_all, classes


def _balancing(settings: MTPlus, task: Task) -> Float[Tensor, "runs 1"]:
    """The power of its size that a class's weight is divided by: 1 makes classes equal, 0 leaves them as they are."""
    if settings.balanced != "by-labels":
        return torch.full((task.runs, 1), float(settings.balanced == "always"), device=task.device)
    labels_per_class = task.labelled.present.sum(1, keepdim=True) / task.num_classes
    return (FEW_LABELS / labels_per_class.clamp(min=FEW_LABELS)).sqrt()


def _with_encoders(network: LinearPeers, found: Sequence[Embedding]) -> dict[str, np.ndarray]:
    parameters = network.trained()
    for number, one in enumerate(found):
        parameters |= {f"peer {number} {name}": values for name, values in one.encoders.items()}
    return parameters


def _of_peer(parameters: Mapping[str, np.ndarray], number: int) -> dict[str, np.ndarray]:
    prefix = f"peer {number} "
    return {name.removeprefix(prefix): values for name, values in parameters.items() if name.startswith(prefix)}
