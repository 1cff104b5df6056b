"""Growing a label set: which nodes may join the labels of each run, and as which class.

A proposal is a table of marks, nodes x classes x runs. So `|` unites two proposals, `&` intersects them, and a node
that was proposed for two classes simply has two marks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mtgcn.nn.axes import CLASSES, NODES
from mtgcn.shapes import Bool, Float, Int
from mtgcn.task import MISSING, Nodes
from mtgcn.training.pseudo_labels import confidence, most_confident


def best_of_each_class(
    score: Float[Tensor, "nodes classes runs"], per_class: int, exclude: Bool[Tensor, "nodes runs"]
) -> Bool[Tensor, "nodes classes runs"]:
    """For every class the `per_class` nodes with the largest score for it, whatever they score for other classes.

    A score of 0 is never chosen; of equal scores the node that comes first wins.
    """
    ranked = score.masked_fill(exclude[:, None], 0).sort(dim=NODES, descending=True, stable=True)
    marks = torch.zeros(score.shape, dtype=torch.bool, device=score.device)
    return marks.scatter_(NODES, ranked.indices[:per_class], ranked.values[:per_class] > 0)


def surest_predictions(
    logits: Float[Tensor, "nodes classes runs peers"], per_class: int, exclude: Bool[Tensor, "nodes runs"]
) -> Bool[Tensor, "nodes classes runs"]:
    """Of the nodes that the first peer predicts as a class, the `per_class` it is surest of, for every class."""
    nodes, classes, runs, _ = logits.shape
    sure, predicted = confidence(logits[..., :1])
    chosen = most_confident(sure, predicted, classes=classes, per_class=min(per_class, nodes), exclude=exclude)
    place = (chosen.nodes * classes + chosen.classes).squeeze(-1)  # slots, runs
    place = torch.where(chosen.filled.squeeze(-1), place, nodes * classes)  # what nobody filled goes to a row too many
    marks = torch.zeros(nodes * classes + 1, runs, dtype=torch.bool, device=logits.device)
    return marks.scatter_(0, place, True)[:-1].unflatten(0, (nodes, classes))


def marked_as(classes_of_nodes: Int[Tensor, "nodes runs"], classes: int) -> Bool[Tensor, "nodes classes runs"]:
    """Every node marked for the one class it is given here."""
    return classes_of_nodes[:, None] == torch.arange(classes, device=classes_of_nodes.device)[:, None]


def uncontested(marks: Bool[Tensor, "nodes classes runs"]) -> Bool[Tensor, "nodes classes runs"]:
    """Without the nodes that are marked for more than one class."""
    return marks & (marks.sum(CLASSES, keepdim=True) == 1)


def joined(labelled: Nodes, marks: Bool[Tensor, "nodes classes runs"]) -> Nodes:
    """The labels and, behind them, what is marked; a node with several marks enters once for each of its classes."""
    run, node, its_class = marks.permute(2, 0, 1).nonzero().T
    counts = torch.bincount(run, minlength=len(labelled.index))
    place = torch.arange(len(run), device=run.device) - (counts.cumsum(0) - counts)[run]
    index = torch.full((len(counts), int(counts.max())), MISSING, device=run.device)
    classes = torch.zeros_like(index)
    index[run, place], classes[run, place] = node, its_class
    index, classes = torch.cat([labelled.index, index], 1), torch.cat([labelled.classes, classes], 1)
    # Rows end in MISSING: a run that was given fewer labels than others must not have its gap in the middle.
    order = (index == MISSING).to(torch.int8).argsort(stable=True, dim=1)[:, : int((index != MISSING).sum(1).max())]
    return Nodes(index.gather(1, order), classes.gather(1, order))
