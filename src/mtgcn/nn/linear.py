"""Linear classifiers stacked over runs and peers: every peer has embeddings of its own for the nodes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mtgcn.nn.axes import RUNS
from mtgcn.nn.base import StackedNetwork
from mtgcn.shapes import Float, Int
from mtgcn.task import Task


class LinearPeers(StackedNetwork):
    """logits = embeddings · W + b. `embeddings[e][p]` are what peer p sees of the nodes in runs whose `choice` is e."""

    weight: nn.Parameter  # peers, width, classes, runs
    bias: nn.Parameter  # classes, runs, peers

    def __init__(
        self,
        task: Task,
        embeddings: Sequence[Sequence[Float[Tensor, "nodes width"]]],
        choice: Sequence[int],
    ) -> None:
        peers, width = len(embeddings[0]), embeddings[0][0].shape[1]
        super().__init__(task, peers)
        self.embeddings = embeddings
        groups = [[run for run, chosen in enumerate(choice) if chosen == number] for number in range(len(embeddings))]
        self._runs = [torch.tensor(runs, dtype=torch.int64, device=task.device) for runs in groups]
        self._place = torch.cat(self._runs).argsort()  # of each run, when group comes after group
        self.add_parameter("weight", torch.zeros(peers, width, task.num_classes, task.runs), run_axis=3)
        self.add_parameter("bias", torch.zeros(task.num_classes, task.runs, peers), run_axis=1)
        self._at_labelled: Tensor | None = None

    @staticmethod
    def bytes_per_model(task: Task, width: int) -> int:
        """About what one model of a stack takes in training."""
        return 4 * (5 * width * task.num_classes + 8 * task.num_nodes * task.num_classes)

    def logits(self) -> Float[Tensor, "nodes classes runs peers"]:
        by_peer = []
        for peer in range(self.peers):
            groups = []
            for embeddings, runs in zip(self.embeddings, self._runs, strict=True):
                weight = self.weight[peer] if len(self._runs) == 1 else self.weight[peer].index_select(2, runs)
                groups.append((embeddings[peer] @ weight.flatten(1)).unflatten(1, weight.shape[1:]))
            by_peer.append(groups[0] if len(groups) == 1 else torch.cat(groups, RUNS).index_select(RUNS, self._place))
        return torch.stack(by_peer, -1) + self.bias

    def logits_at(self, index: Int[Tensor, "runs some"]) -> Float[Tensor, "some classes runs peers"]:
        if index is not self.task.labelled.index:
            return super().logits_at(index)
        if self._at_labelled is None:
            rows = [
                torch.stack([embeddings[peer][index[runs].clamp(min=0)] for peer in range(self.peers)])
                for embeddings, runs in zip(self.embeddings, self._runs, strict=True)
            ]
            self._at_labelled = torch.cat(rows, 1).index_select(1, self._place)  # peers, runs, labelled, width
        weight = self.weight.movedim(-1, 1)  # peers, runs, width, classes
        return (self._at_labelled @ weight).permute(2, 3, 1, 0) + self.bias
