"""Multi-stage self-training and M3S (Sun, Lin and Zhu, AAAI 2020): self-training in several stages.

    K times:  train a GCN with probabilities Z on Y,
              S_k = the ⌈t / K⌉ unlabelled nodes i with the largest Z_ik among those with argmax Z_i = k,
              multi-stage:  Y_k := Y_k ∪ S_k,
              M3S:          Y_k := Y_k ∪ { i in S_k : c(cluster of i) = k },  c(m) = argmin_k |ν_m - μ_k|².

Y_k holds the labelled nodes of class k, ν_m is the mean embedding of the unlabelled nodes of cluster m, and μ_k that of
the labelled nodes of class k; t is `per_class`, K is `stages`.

Choices that the paper leaves open:
- t is the number of labels with which a two-layer GCN reaches the whole graph, so the stages share it, as in the
  program that the authors point to (github.com/Junseok0207/M3S_Pytorch).
- As in that program, every stage trains a new network, except that after the last growth the network trains on:
  `fresh_stages` and `restart`.
- Embeddings are Â times the hidden layer, the input of the output layer, with rows of length 1.
- k-means starts with centres that are farthest apart, so that the result does not depend on the node order. With fewer
  nodes than clusters, every node is a cluster.
- The check comes last, as in the program: nodes of S_k that fail are not replaced. Hardly any fails (docs/methods.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor
from torch.nn.functional import normalize

from mtgcn.errors import InputError
from mtgcn.methods.self_training import SelfTraining
from mtgcn.nn.base import StackedNetwork
from mtgcn.nn.networks import GCN
from mtgcn.settings import Ge, Le, PositiveInt
from mtgcn.shapes import Bool, Float, Int
from mtgcn.task import Task
from mtgcn.training.pseudo_labels import Proposal, labelled_mask, one_hot_classes

# K by dataset: (largest share of labelled nodes, stages), the paper's as far as known. Its label rates on Cora are 0.5,
# 1, 2, 3 and 4 %; the bounds lie between them.
PAPER_STAGES = {"cora": ((0.0075, 5), (0.015, 4), (1.0, 2)), "citeseer": ((1.0, 3),), "pubmed": ((1.0, 4),)}
USUAL_STAGES = 3
POINTS_AT_ONCE = 1024  # points in one block of distances
MAX_ROUNDS = 20  # most rounds of k-means
Points = Float[Tensor, "runs nodes width"]


@dataclass(frozen=True, kw_only=True)
class MultiStage(SelfTraining):
    """Multi-stage: all confident predictions join the labels."""

    # K in the paper; None: the paper's number for its datasets, 3 elsewhere
    stages: Annotated[int, Ge(1), Le(100)] | None = None
    fresh_stages: bool = True  # whether a new network is trained after every growth but the last

    def growths(self, task: Task) -> int:
        return self.stages or default_stages(task)

    def starts_afresh(self, growth: int, last: int) -> bool:
        return self.restart if growth == last else self.fresh_stages


def default_stages(task: Task) -> int:
    """K: the paper's number for its datasets, chosen by the share of labelled nodes."""
    rates = (task.labelled.present.sum(1) / task.num_nodes).tolist()
    bounds = PAPER_STAGES.get(task.graph.name, ((1.0, USUAL_STAGES),))
    stages = {next(number for most, number in bounds if rate <= most) for rate in rates}
    if len(stages) > 1:
        few, many = min(stages), max(stages)
        raise InputError(
            f"runs with {min(rates):.2%} and {max(rates):.2%} of nodes labelled need {many} and {few} stages; "
            "set stages, or fit them separately"
        )
    return stages.pop()


@dataclass(frozen=True, kw_only=True)
class M3S(MultiStage):
    """M3S: confident predictions join the labels if a clustering confirms them."""

    clusters: PositiveInt = 200  # clusters of k-means; with fewer nodes, every node is a cluster

    def propose(self, network: StackedNetwork, task: Task, per_class: int) -> Proposal:
        assert isinstance(network, GCN)  # as `network` returns it
        points = normalize(network.embeddings()[:, :, 0], dim=2).transpose(0, 1).contiguous()  # runs, nodes, hidden
        confirmed = one_hot_classes(classes_by_cluster(points, self.clusters, task).T, task.num_classes)
        return super().propose(network, task, per_class) & confirmed


def classes_by_cluster(points: Points, clusters: int, task: Task) -> Int[Tensor, "runs nodes"]:
    """The class assigned to each node's cluster: that whose labelled nodes have the mean closest to the mean of the
    cluster's unlabelled nodes."""
    cluster = k_means(points, clusters)
    centres, _ = cluster_means(points, cluster, clusters, counted=~labelled_mask(task).T)
    labelled = task.labelled
    at_labels = points.gather(1, labelled.index.clamp(min=0)[..., None].expand(-1, -1, points.shape[2]))
    class_centres, count = cluster_means(at_labels, labelled.classes, task.num_classes, counted=labelled.present)
    distances = squared_distances(centres, class_centres)  # runs, clusters, classes
    distances = torch.where(count[:, None] > 0, distances, torch.inf)  # a class without labels has no centre
    return distances.argmin(2).gather(1, cluster)


def k_means(points: Points, clusters: int) -> Int[Tensor, "runs nodes"]:
    """The cluster of every point; runs have separate points."""
    centres = farthest_first(points, min(clusters, points.shape[1]))
    cluster = nearest(points, centres)
    for _ in range(MAX_ROUNDS):
        means, count = cluster_means(points, cluster, centres.shape[1])
        centres = torch.where(count[..., None] > 0, means, centres)
        before, cluster = cluster, nearest(points, centres)
        if torch.equal(before, cluster):
            break
    return cluster


def farthest_first(points: Points, count: int) -> Float[Tensor, "runs count width"]:
    """Initial centres: the point farthest from the mean, then repeatedly the point farthest from all chosen ones."""
    each_run = torch.arange(len(points), device=points.device)
    distance = squared_distances(points, points.mean(1, keepdim=True)).squeeze(2)
    chosen = []
    for number in range(count):
        chosen.append(points[each_run, distance.argmax(1)])
        to_chosen = squared_distances(points, chosen[-1][:, None]).squeeze(2)
        distance = torch.minimum(distance, to_chosen) if number else to_chosen
    return torch.stack(chosen, 1)


def nearest(points: Points, centres: Float[Tensor, "runs centres width"]) -> Int[Tensor, "runs nodes"]:
    """The nearest centre of every point; ties go to the first centre."""
    parts = [squared_distances(some, centres).argmin(2) for some in points.split(POINTS_AT_ONCE, 1)]
    return torch.cat(parts, 1)


def cluster_means(
    points: Points, cluster: Int[Tensor, "runs nodes"], clusters: int, counted: Bool[Tensor, "runs nodes"] | None = None
) -> tuple[Float[Tensor, "runs clusters width"], Int[Tensor, "runs clusters"]]:
    """The mean of each cluster, or of its `counted` points, and their number; 0 for an empty cluster."""
    sums = points.new_zeros(len(points), clusters, points.shape[2])
    count = torch.zeros(len(points), clusters, dtype=torch.int64, device=points.device)
    numbers = torch.arange(clusters, device=points.device)[:, None]
    for start in range(0, points.shape[1], POINTS_AT_ONCE):
        some = slice(start, start + POINTS_AT_ONCE)
        member = cluster[:, None, some] == numbers  # runs, clusters, some
        if counted is not None:
            member &= counted[:, None, some]
        # Computed as a product, since scatter-add has no fixed order on a GPU.
        sums.baddbmm_(member.to(points.dtype), points[:, some])
        count += member.sum(2)
    return sums / count.clamp(min=1)[..., None], count


def squared_distances(
    points: Points, centres: Float[Tensor, "runs centres width"]
) -> Float[Tensor, "runs nodes centres"]:
    """Squared distances from every point to every centre of its run."""
    lengths = points.square().sum(2)[..., None] + centres.square().sum(2)[:, None]
    return torch.baddbmm(lengths, points, centres.transpose(1, 2), alpha=-2)
