"""M3S (Sun, Lin and Zhu, AAAI 2020): multi-stage self-training with a check on itself.

Before a stage's surest predictions join the labels, the embeddings of all nodes are clustered. A cluster takes the
class whose labelled nodes lie nearest to it, and a prediction joins only if its cluster has the predicted class.

    Y_k := Y_k ∪ { i surest as class k : c(the cluster of i) = k },  c(m) = argmin_k |ν_m - μ_k|²,
    ν_m the mean embedding of the unlabelled nodes of cluster m, μ_k that of the labelled nodes of class k.

What the paper leaves open, and the choice here:
- What is clustered: the hidden layer, propagated along edges as the output layer sees it, each node's row at length 1.
- How k-means starts: see `linalg.k_means`, which draws nothing at random. With fewer nodes than clusters, every
  node is a cluster.
- Labelled nodes count for the centre of their class and not for that of their cluster. Labels that joined in earlier
  stages are labels like any other.
- The check comes last, as in the program that the authors point to: of the t / K surest of a class, those that fail it
  are not replaced by less sure ones. The surest lie so deep within their class that hardly any fails
  (docs/methods.md has how many), which leaves multi-stage self-training.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from mtgcn.linalg.k_means import cluster_means, k_means, squared_distances
from mtgcn.methods.multi_stage import MultiStage
from mtgcn.nn.gcn import GCN
from mtgcn.settings import PositiveInt
from mtgcn.shapes import Bool, Float, Int
from mtgcn.task import Task
from mtgcn.training.pseudo_labels import labelled_mask, one_hot_classes


@dataclass(frozen=True, kw_only=True)
class M3S(MultiStage):
    """Several growths, by what the network is surest of and a clustering confirms.

    >>> from mtgcn.methods import create, karate_club
    >>> task, accuracy = karate_club()
    >>> round(accuracy(create("m3s", epochs=100).fit(task)), 2)
    0.96
    """

    clusters: PositiveInt = 200  # of k-means; with fewer nodes every node is one

    def propose(self, network: GCN, task: Task, per_class: int) -> Bool[Tensor, "nodes classes runs"]:
        points = normalize(network.embeddings()[:, :, 0], dim=2).transpose(0, 1).contiguous()  # runs, nodes, hidden
        confirmed = one_hot_classes(classes_by_cluster(points, self.clusters, task).T, task.num_classes)
        return super().propose(network, task, per_class) & confirmed


def classes_by_cluster(
    points: Float[Tensor, "runs nodes width"], clusters: int, task: Task
) -> Int[Tensor, "runs nodes"]:
    """The class of every node's cluster: the one whose labelled nodes' mean is nearest to the mean of the cluster's
    other nodes."""
    cluster = k_means(points, clusters)
    centres, _ = cluster_means(points, cluster, clusters, counted=~labelled_mask(task).T)
    labelled = task.labelled
    at_labels = points.gather(1, labelled.index.clamp(min=0)[..., None].expand(-1, -1, points.shape[2]))
    class_centres, count = cluster_means(at_labels, labelled.classes, task.num_classes, counted=labelled.present)
    distances = squared_distances(centres, class_centres)  # runs, clusters, classes
    distances = torch.where(count[:, None] > 0, distances, torch.inf)  # a class without labels has no centre
    return distances.argmin(2).gather(1, cluster)
