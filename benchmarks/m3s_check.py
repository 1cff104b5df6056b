"""How many candidates the check of M3S rejects in each stage, and how many of these are wrong.

python benchmarks/m3s_check.py                                      # mtgcn's m3s at the lower label rates, seed 0
python benchmarks/m3s_check.py --network two-layers --cells cora:2,cora:4,cora:8 --runs 10
python benchmarks/m3s_check.py --start k-means++ --cells cora:2     # centres as scikit-learn starts them

`two-layers` is written after the rerun that the authors of M3S point to (github.com/Junseok0207/M3S_Pytorch): two
propagating layers of 128 units, a linear classifier behind them, weight decay 1e-5, a fresh network for every stage,
and at last up to 1000 epochs of which 500 validation nodes choose one. Its file with the layers was not at hand; batch
norm and PReLU are those of another program of its author (GraFN). What is clustered there is what the linear
classifier sees.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import measuring
import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from mtgcn import environment
from mtgcn.datasets import load
from mtgcn.experiments.scoring import score
from mtgcn.graph import Graph
from mtgcn.linalg.normalisation import normalized_adjacency, scaled_features
from mtgcn.methods import m3s
from mtgcn.methods.m3s import M3S, MultiStage, default_stages, k_means
from mtgcn.nn.networks import GCN
from mtgcn.splits import Split, draw_splits
from mtgcn.task import Task, observe
from mtgcn.training.pseudo_labels import (
    default_per_class,
    joined,
    labelled_mask,
    most_confident_per_class,
    one_hot_classes,
)

CELLS = "cora:2,cora:4,cora:8,citeseer:3,citeseer:6,citeseer:12,pubmed:2,pubmed:3,pubmed:7"
VALIDATION = 500
CLUSTERS = 200
WIDTH, WEIGHT_DECAY, EPOCHS, LAST_EPOCHS, PATIENCE = 128, 1e-5, 200, 1000, 200  # of the rerun


@dataclass
class StageCount:
    """What the check did in one stage, all runs together."""

    candidates: int = 0
    right: int = 0  # candidates whose predicted class is the true one
    rejected: int = 0
    rejected_right: int = 0
    unlabelled: int = 0
    disagreeing: int = 0  # unlabelled nodes whose cluster has another class than they are predicted as


@dataclass
class Counts:
    """The stages of one cell."""

    truth: Tensor  # the true class of every node
    stages: list[StageCount] = field(default_factory=list)

    def add(self, stage: int, task: Task, predicted: Tensor, candidates: Tensor, of_clusters: Tensor) -> None:
        """`candidates` are marked nodes x classes x runs; `predicted` and `of_clusters` are classes, nodes x runs."""
        while len(self.stages) <= stage:
            self.stages.append(StageCount())
        count, free = self.stages[stage], ~labelled_mask(task)
        right = one_hot_classes(self.truth[:, None], task.num_classes)
        rejected = candidates & ~one_hot_classes(of_clusters, task.num_classes)
        count.candidates += int(candidates.sum())
        count.right += int((candidates & right).sum())
        count.rejected += int(rejected.sum())
        count.rejected_right += int((rejected & right).sum())
        count.unlabelled += int(free.sum())
        count.disagreeing += int(((predicted != of_clusters) & free).sum())


def started_like_scikit_learn(points: Tensor, clusters: int) -> Tensor:
    """k-means whose first centres are drawn (k-means++), for every run."""
    found = [KMeans(clusters, n_init=1, random_state=0).fit_predict(some.numpy()) for some in points]
    return torch.from_numpy(np.stack(found)).long()


STARTS: dict[str, Callable[[Tensor, int], Tensor]] = {"farthest": k_means, "k-means++": started_like_scikit_learn}


@dataclass(frozen=True, kw_only=True)
class CountingM3S(M3S):
    """mtgcn's own, counting what its check rejects."""

    counts: Any = None
    grown: Any = field(default_factory=list)

    def propose(self, network: GCN, task: Task, per_class: int) -> Tensor:
        predicted = network.logits_without_dropout()[..., 0].argmax(1)
        points = normalize(network.embeddings()[:, :, 0], dim=2).transpose(0, 1).contiguous()
        of_clusters = m3s.classes_by_cluster(points, self.clusters, task).T
        candidates = MultiStage.propose(self, network, task, per_class)
        self.counts.add(len(self.grown), task, predicted, candidates, of_clusters)
        self.grown.append(per_class)
        return candidates & one_hot_classes(of_clusters, task.num_classes)


class TwoLayers(nn.Module):
    """Two propagating layers and, behind them, a linear classifier."""

    def __init__(self, features: Tensor, adjacency: Tensor, classes: int) -> None:
        super().__init__()
        self.features, self.adjacency = features, adjacency
        self.first = nn.Linear(features.shape[1], WIDTH, bias=False)
        self.second = nn.Linear(WIDTH, WIDTH, bias=False)
        # Of the statistics that are kept, 99 hundredths are the latest batch's.
        self.norms = nn.ModuleList(nn.BatchNorm1d(WIDTH, momentum=0.99) for _ in range(2))
        self.slopes = nn.ModuleList(nn.PReLU() for _ in range(2))
        self.classifier = nn.Linear(WIDTH, classes)
        for layer in (self.first, self.second):
            nn.init.xavier_uniform_(layer.weight)

    def embeddings(self) -> Tensor:
        hidden = torch.sparse.mm(self.adjacency, torch.sparse.mm(self.features, self.first.weight.T))
        hidden = self.slopes[0](self.norms[0](hidden))
        hidden = torch.sparse.mm(self.adjacency, self.second(hidden))
        return self.slopes[1](self.norms[1](hidden))

    def forward(self) -> Tensor:
        return self.classifier(self.embeddings())


def trained(network: TwoLayers, task: Task, epochs: int, each_epoch: Callable[[], bool] | None = None) -> None:
    """Until the epochs are over, or `each_epoch` says that it is enough."""
    adam = torch.optim.Adam(network.parameters(), lr=0.01, weight_decay=WEIGHT_DECAY)
    index, classes = task.labelled.index[0], task.labelled.classes[0]
    for _ in range(epochs):
        network.train()
        adam.zero_grad()
        cross_entropy(network()[index], classes).backward()
        adam.step()
        if each_epoch and each_epoch():
            break


def fit_two_layers(graph: Graph, split: Split, seed: int, counts: Counts) -> tuple[float, float]:
    """The accuracy at the epoch that validation nodes choose, and at the last one."""
    torch.manual_seed(seed)
    task = observe(graph, [split], seed)
    stages = default_stages(task)
    per_class = math.ceil(default_per_class(graph) / stages)
    operators = [as_sparse(scaled_features(graph, "sum")), as_sparse(normalized_adjacency(graph))]
    for stage in range(stages):
        network = TwoLayers(*operators, classes=task.num_classes)
        trained(network, task, EPOCHS)
        network.eval()
        with torch.no_grad():
            points = normalize(network.embeddings(), dim=1)[None]
            logits = network()[..., None, None]  # nodes, classes, runs, peers
        of_clusters = m3s.classes_by_cluster(points, CLUSTERS, task).T
        candidates = most_confident_per_class(logits, per_class, labelled_mask(task))
        counts.add(stage, task, logits[..., 0].argmax(1), candidates, of_clusters)
        confirmed = candidates & one_hot_classes(of_clusters, task.num_classes)
        task = replace(task, labelled=joined(task.labelled, confirmed))
    read = Reading(network, graph, split)
    trained(network, task, LAST_EPOCHS, read)
    return read.chosen, read.last


class Reading:
    """Test accuracy after each epoch, and at the one that is best on validation nodes."""

    def __init__(self, network: TwoLayers, graph: Graph, split: Split) -> None:
        self.network, self.split = network, split
        self.truth = torch.tensor(graph.labels)
        self.best, self.since, self.chosen, self.last = -1.0, 0, 0.0, 0.0

    def __call__(self) -> bool:
        self.network.eval()
        with torch.no_grad():
            right = self.network().argmax(1) == self.truth
        on_validation = right[self.split.validation].float().mean().item()
        self.last = right[self.split.test].float().mean().item()
        self.since += 1
        if on_validation > self.best:
            self.best, self.since, self.chosen = on_validation, 0, self.last
        return self.since >= PATIENCE


def as_sparse(matrix: Any) -> Tensor:
    if isinstance(matrix, np.ndarray):
        return torch.tensor(matrix, dtype=torch.float32).to_sparse_csr()
    matrix = matrix.tocsr()
    return torch.sparse_csr_tensor(
        torch.tensor(matrix.indptr), torch.tensor(matrix.indices), torch.tensor(matrix.data), size=matrix.shape
    ).float()


def measured(graph: Graph, per_class: int, runs: int, network: str) -> dict[str, Any]:
    """One cell: accuracies and, for every stage, what the check did."""
    splits = draw_splits(graph, per_class, runs, 0, validation=VALIDATION)
    counts = Counts(torch.tensor(graph.labels))
    row: dict[str, Any] = {"dataset": graph.name, "labels_per_class": per_class, "runs": runs}
    if network == "two-layers":
        read = [fit_two_layers(graph, split, seed, counts) for seed, split in enumerate(splits)]
        chosen, last = zip(*read, strict=True)
        row |= {"accuracy_by_validation": list(chosen), "accuracy": list(last)}
    else:
        prediction = CountingM3S(counts=counts).fit(observe(graph, splits, 0))
        row["accuracy"] = [one.accuracy for one in score(prediction, graph, splits)]
    return row | {"stages": [vars(stage) for stage in counts.stages]}


def main() -> None:
    arguments = measuring.arguments(
        __doc__,
        cells=(CELLS, "DATASET:LABELS_PER_CLASS,…"),
        runs=(int, "splits of a cell; without it 30, on PubMed 10"),
        network={"default": "one-layer", "choices": ["one-layer", "two-layers"]},
        start={"default": "farthest", "choices": list(STARTS), "help": "of the centres of k-means"},
    )
    m3s.k_means = STARTS[arguments.start]  # type: ignore[attr-defined]  # as m3s calls it
    for cell in arguments.cells.split(","):
        dataset, per_class = cell.split(":")
        runs = arguments.runs or (10 if dataset == "pubmed" else 30)
        made = {"network": arguments.network, "start": arguments.start, "seed": 0, "versions": environment.versions()}
        row = made | measured(load(dataset), int(per_class), runs, arguments.network)
        if arguments.json:
            held = json.loads(arguments.json.read_text()) if arguments.json.exists() else []
            arguments.json.write_text(json.dumps([*held, row], indent=1) + "\n")
        shares = [100 * stage["rejected"] / stage["candidates"] for stage in row["stages"]]
        print(
            f"{arguments.network}, {arguments.start}, {cell}: accuracy {100 * np.mean(row['accuracy']):.1f}, "
            f"chosen by validation {100 * np.mean(row.get('accuracy_by_validation', math.nan)):.1f}; "
            f"rejected {', '.join(f'{share:.1f}' for share in shares)} %",
            flush=True,
        )


if __name__ == "__main__":
    main()
