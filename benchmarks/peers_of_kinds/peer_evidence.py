"""What the given labels say of each peer: labels are held out in turn, and told by peers that were not shown them.

They choose each peer's penalty and temperature, weigh the peers against each other, and tell how much the peers
together know, which is how much they may teach.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from mtgcn.linalg.softmax_regression import fit_to_labels
from mtgcn.shapes import Bool, Float, Int

if TYPE_CHECKING:
    from mtgcn.task import Task

PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
TEMPERATURES = (1 / 8, 1 / 4, 1 / 2, 0.7, 1.0, 1.4, 2.0, 4.0, 8.0, 16.0)
FEWEST_FOLDS, MOST_FOLDS = 2, 5
PARTS = 6  # about so many parts are held out in turn; fewer folds than that are repeated
FOLDS = 0xF01D  # tells what is drawn for folds from what else a run's seed decides
LEAST_SKILL = 0.02  # what a peer that tells held-out labels no better than chance is trusted with beforehand
ROUNDS = 100  # of expectation maximisation


@dataclass(frozen=True, eq=False)
class PeerEvidence:
    """One peer, fitted to all labels of each run, and how it told those that were held out."""

    weight: Float[Tensor, "runs width classes"]
    penalty: Float[Tensor, "runs"]
    temperature: Float[Tensor, "runs"]  # what its logits are divided by, so that its probabilities mean what they say
    held_out: Float[Tensor, "runs parts labelled classes"]  # probabilities
    accuracy: Float[Tensor, "runs"]


def held_out_parts(task: Task) -> Bool[Tensor, "runs parts labelled"]:
    """Which labels each part holds out: stratified folds, as many as the average class has labels, from 2 to 5, and
    drawn again until there are about `PARTS`. Parts that a run does not need hold out nothing."""
    labelled = task.labelled.to(torch.device("cpu"))
    parts = [
        _parts_of_run(classes.numpy(), present.numpy(), task.num_classes, np.random.default_rng([seed, FOLDS]))
        for classes, present, seed in zip(labelled.classes, labelled.present, task.seeds, strict=True)
    ]
    most = max(map(len, parts))
    padded = np.zeros((len(parts), most, labelled.index.shape[1]), dtype=bool)
    for mine, found in zip(padded, parts, strict=True):
        mine[: len(found)] = found
    return torch.from_numpy(padded).to(task.device)


def _parts_of_run(
    classes: np.ndarray, present: np.ndarray, num_classes: int, random: np.random.Generator
) -> Bool[np.ndarray, "parts labelled"]:
    labels = int(present.sum())
    folds = int(np.clip(round(labels / num_classes), FEWEST_FOLDS, MOST_FOLDS))
    parts = []
    for _ in range(max(1, round(PARTS / folds))):
        fold, placed = np.full(len(classes), -1), 0
        for number in random.permutation(num_classes):
            members = random.permutation(np.flatnonzero(present & (classes == number)))
            fold[members] = (placed + np.arange(len(members))) % folds
            placed += len(members)
        parts += [fold == number for number in range(folds)]
    return np.stack(parts)


def peer_evidence(
    rows: Float[Tensor, "nodes width"], task: Task, parts: Bool[Tensor, "runs parts labelled"]
) -> PeerEvidence:
    """Fit a peer to the labels of every run, with the penalty and temperature that make held-out labels likely.

    Each penalty counts by how likely it makes the held-out labels at its best temperature, and their average is taken,
    in logarithms. At a fixed temperature likelihood would choose far too large a penalty, to be less sure of itself.
    """
    labelled = task.labelled
    present, penalties = labelled.present, rows.new_tensor(PENALTIES)
    mine = rows[labelled.index.clamp(min=0)] * present[..., None]
    kept = torch.cat([~parts & present[:, None], present[:, None]], 1).to(rows.dtype)
    coefficients = fit_to_labels(
        mine, labelled.classes, task.num_classes, kept / kept.sum(-1, keepdim=True).clamp(min=1), penalties
    )
    logits = (mine @ mine.mT)[:, None, None] @ coefficients[:, :-1]  # runs, parts, penalties, labelled, classes
    likelihood = _log_likelihood(logits, labelled.classes, parts)  # runs, penalties, temperatures
    share = (likelihood.amax(2) * present.sum(1)[:, None]).softmax(1)
    chosen = (share * torch.arange(len(penalties), device=rows.device)).sum(1).round().long()
    run = torch.arange(task.runs, device=rows.device)
    temperature = rows.new_tensor(TEMPERATURES)[likelihood[run, chosen].argmax(1)]
    held_out = (logits[run, :, chosen] / temperature[:, None, None, None]).softmax(-1)
    return PeerEvidence(
        weight=mine.mT @ coefficients[run, -1, chosen],
        penalty=10 ** (share * penalties.log10()).sum(1),
        temperature=temperature,
        held_out=held_out,
        accuracy=accuracy_of(held_out, labelled.classes, parts),
    )


def _log_likelihood(
    logits: Float[Tensor, "runs parts penalties labelled classes"],
    classes: Int[Tensor, "runs labelled"],
    parts: Bool[Tensor, "runs parts labelled"],
) -> Float[Tensor, "runs penalties temperatures"]:
    """Of a held-out label, on average."""
    held_out = parts[:, :, None].to(logits.dtype)
    count = parts.sum((1, 2)).clamp(min=1)[:, None]
    right = classes[:, None, None, :, None].expand(*logits.shape[:-1], 1)
    by_temperature = [
        (((logits / one).log_softmax(-1).gather(-1, right)[..., 0]) * held_out).sum((1, 3)) / count
        for one in TEMPERATURES
    ]
    return torch.stack(by_temperature, -1)


def accuracy_of(
    held_out: Float[Tensor, "runs parts labelled classes"],
    classes: Int[Tensor, "runs labelled"],
    parts: Bool[Tensor, "runs parts labelled"],
) -> Float[Tensor, "runs"]:
    """The share of held-out labels that are told rightly."""
    right = (held_out.argmax(-1) == classes[:, None]) & parts
    return right.sum((1, 2)) / parts.sum((1, 2)).clamp(min=1)


def skill(accuracy: Float[Tensor, "*any"], num_classes: int) -> Float[Tensor, "*any"]:
    """How far an accuracy lies on the way from chance, 0, to being always right, 1."""
    return ((accuracy - 1 / num_classes) / (1 - 1 / num_classes)).clamp(0, 1)


def vote_weights(
    evidence: Mapping[str, PeerEvidence],
    trust: Mapping[str, float],
    task: Task,
    parts: Bool[Tensor, "runs parts labelled"],
) -> Float[Tensor, "runs peers"]:
    """The mixture of peers under which held-out labels are likeliest, by expectation maximisation.

    Few labels deceive, so there is a prior worth one label per peer: proportional to `trust` in its kind and to its
    skill on the held-out labels.
    """
    classes, peers = task.labelled.classes, list(evidence.values())
    kind = peers[0].accuracy.new_tensor([trust[name] for name in evidence])
    prior = torch.stack([skill(one.accuracy, task.num_classes).clamp(min=LEAST_SKILL) for one in peers], 1) * kind
    prior = prior / prior.sum(1, keepdim=True)
    right = classes[:, None, :, None].expand(*parts.shape, 1)
    likelihood = torch.stack(
        [one.held_out.gather(-1, right)[..., 0] for one in peers], -1
    )  # runs, parts, labelled, peers
    share = parts[..., None].to(likelihood.dtype) / parts.sum((1, 2)).clamp(min=1)[:, None, None, None]
    labels = task.labelled.present.sum(1)[:, None]
    weights = prior
    for _ in range(ROUNDS):
        owed = likelihood * weights[:, None, None]
        owed = owed / owed.sum(-1, keepdim=True).clamp(min=torch.finfo(owed.dtype).tiny)
        weights = (owed * share).sum((1, 2)) * labels + len(peers) * prior
        weights = weights / weights.sum(1, keepdim=True)
    return weights
