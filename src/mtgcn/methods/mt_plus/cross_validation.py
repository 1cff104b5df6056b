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
from torch.nn import functional

from mtgcn.linalg.node_keys import keyed_bits, node_keys
from mtgcn.linalg.softmax_regression import fit_to_labels
from mtgcn.shapes import Bool, Float, Int, UInt64

if TYPE_CHECKING:
    from mtgcn.task import Task

PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2)
TEMPERATURES = tuple(2.0**power for power in range(-9, 6))  # as parts of the one to expect
SHARPNESS = 2.0  # how far the logits of a peer that knows a good deal lie apart, on average
CAUTION = 4.0  # so many labels speak for the temperature to expect, against one e times as high or low
POOLED = 3.0  # how many other peers' word counts for the penalty of each
SMALLEST_SPREAD = 1e-2  # of logits, below which a peer says nothing
FEWEST_FOLDS, MOST_FOLDS = 2, 5
PARTS = 6  # about so many parts are held out in turn; fewer folds than that are repeated
FOLDS = 0xF01D  # tells what is drawn for folds from what else a run's seed decides
STEPS = 150  # of fitting a peer
ROUNDS = 100  # of expectation maximisation
LARGEST_STACK = 2**20  # numbers that peers are fitted with at once


@dataclass(frozen=True, eq=False)
class PeerEvidence:
    """One peer, fitted to all labels of each run, and how it told those that were held out."""

    weight: Float[Tensor, "runs width classes"]
    penalty: Float[Tensor, "runs"]
    temperature: Float[Tensor, "runs"]  # what its logits are divided by, so that its probabilities mean what they say
    held_out: Float[Tensor, "runs parts labelled classes"]  # probabilities
    accuracy: Float[Tensor, "runs"]


def held_out_parts(task: Task, keys: UInt64[np.ndarray, "nodes"] | None = None) -> Bool[Tensor, "runs parts labelled"]:
    """Which labels each part holds out: stratified folds, as many as the average class has labels, from 2 to 5, and
    drawn again until there are about `PARTS`. Parts that a run does not need hold out nothing. Who shares a fold
    follows from the run's seed and from what the nodes are: from their keys, where these are known already."""
    labelled = task.labelled.to(torch.device("cpu"))
    if keys is None:
        of_labelled = node_keys(task.graph, task.device)[task.labelled.index].cpu().numpy().view(np.uint64)
    else:
        of_labelled = keys[labelled.index.numpy()]
    parts = [
        _parts_of_run(own_keys, classes, present, task.num_classes, seed)
        for own_keys, classes, present, seed in zip(
            of_labelled, labelled.classes.numpy(), labelled.present.numpy(), task.seeds, strict=True
        )
    ]
    most = max(map(len, parts))
    padded = np.zeros((len(parts), most, labelled.index.shape[1]), dtype=bool)
    for mine, found in zip(padded, parts, strict=True):
        mine[: len(found)] = found
    return torch.from_numpy(padded).to(task.device)


def folds_of(labels: int, num_classes: int) -> int:
    """Into how many folds so many labels are dealt."""
    return int(np.clip(round(labels / num_classes), FEWEST_FOLDS, MOST_FOLDS))


def _parts_of_run(
    keys: UInt64[np.ndarray, "labelled"],
    classes: Int[np.ndarray, "labelled"],
    present: Bool[np.ndarray, "labelled"],
    num_classes: int,
    seed: int,
) -> Bool[np.ndarray, "parts labelled"]:
    folds = folds_of(int(present.sum()), num_classes)
    random = np.random.default_rng([seed, FOLDS])
    parts = []
    for repeat in range(max(1, round(PARTS / folds))):
        order = np.argsort(keyed_bits(keys, seed, FOLDS + repeat), kind="stable")
        fold, placed = np.full(len(classes), -1), 0
        for number in random.permutation(num_classes):
            members = order[(present & (classes == number))[order]]
            fold[members] = (placed + np.arange(len(members))) % folds
            placed += len(members)
        parts += [fold == number for number in range(folds)]
    return np.stack(parts)


def peer_evidence(
    rows: Mapping[str, Float[Tensor, "nodes width"]],
    trust: Mapping[str, float],
    task: Task,
    parts: Bool[Tensor, "runs parts labelled"],
) -> dict[str, PeerEvidence]:
    """Fit every peer to the labels of every run, with the penalty and temperature that make held-out labels likely.

    Each penalty counts by how likely it makes the held-out labels at its best temperature, and their average is taken,
    in logarithms. At one temperature for all, likelihood would choose far too large a penalty, to be less sure of
    itself. What suits one peer of a graph mostly suits the others, and a handful of labels says little: so each listens
    to what all of them found, too.
    """
    trials = _trials(rows, task, parts)
    whole = sum(trust[name] for name in trials)
    together = sum(trust[name] / whole * one.likelihood for name, one in trials.items())
    return {name: one.settled((one.likelihood + POOLED * together).softmax(1)) for name, one in trials.items()}


def _trials(
    rows: Mapping[str, Float[Tensor, "nodes width"]], task: Task, parts: Bool[Tensor, "runs parts labelled"]
) -> dict[str, _Trial]:
    """Every peer, fitted with every penalty to all labels but those of each part. However wide their rows are, peers
    are small problems of the same size: as many at once as there is room for, since one alone takes nearly as long."""
    labelled, runs = task.labelled, task.runs
    weights = _weights_of_kept(task, parts)
    penalties = weights.new_tensor(PENALTIES)
    of_labelled = {
        name: table[labelled.index.clamp(min=0)] * labelled.present[..., None] for name, table in rows.items()
    }
    kernels = {name: table @ table.mT for name, table in of_labelled.items()}
    at_once = max(1, LARGEST_STACK // (weights.numel() * len(PENALTIES) * task.num_classes))
    names, found = list(rows), {}
    for some in (names[start : start + at_once] for start in range(0, len(names), at_once)):
        together = fit_to_labels(
            torch.cat([kernels[name] for name in some]),
            labelled.classes.repeat(len(some), 1),
            task.num_classes,
            weights.repeat(len(some), 1, 1),
            penalties,
            STEPS,
        )
        for name, coefficients in zip(some, together.split(runs), strict=True):
            found[name] = _Trial(of_labelled[name], kernels[name], coefficients, task, parts)
    return found


class _Trial:
    """A peer fitted with every penalty to all labels but those of each part."""

    def __init__(
        self,
        rows: Float[Tensor, "runs labelled width"],
        kernel: Float[Tensor, "runs labelled labelled"],
        coefficients: Float[Tensor, "runs parts_and_one penalties labelled classes"],
        task: Task,
        parts: Bool[Tensor, "runs parts labelled"],
    ) -> None:
        self.classes, self.parts, present = task.labelled.classes, parts, task.labelled.present
        self.penalties, ratios = rows.new_tensor(PENALTIES), rows.new_tensor(TEMPERATURES)
        self.rows, self.coefficients = rows, coefficients
        # runs, parts, penalties, labelled, classes
        self.logits = kernel[:, None, None] @ coefficients[:, :-1]
        # The temperature to expect brings all peers to the same sharpness: what a handful of labels says of it
        # deceives, and a peer that is made to whisper by mistake has lost its vote.
        self.temperatures = _spread(self.logits, parts)[..., None] / SHARPNESS * ratios  # runs, penalties, temperatures
        found = _log_likelihood(self.logits, self.classes, parts, self.temperatures) * present.sum(1)[:, None, None]
        self.credible = found - CAUTION * ratios.log().square()
        self.likelihood: Float[Tensor, "runs penalties"] = self.credible.amax(2)

    def settled(self, share: Float[Tensor, "runs penalties"]) -> PeerEvidence:
        """With the penalty that each has so large a share in."""
        run = torch.arange(len(share), device=share.device)
        chosen = (share * torch.arange(len(self.penalties), device=share.device)).sum(1).round().long()
        temperature = self.temperatures[run, chosen, self.credible[run, chosen].argmax(1)]
        held_out = (self.logits[run, :, chosen] / temperature[:, None, None, None]).softmax(-1)
        return PeerEvidence(
            weight=self.rows.mT @ self.coefficients[run, -1, chosen],
            penalty=10 ** (share * self.penalties.log10()).sum(1),
            temperature=temperature,
            held_out=held_out,
            accuracy=accuracy_of(held_out, self.classes, self.parts),
        )


def _weights_of_kept(
    task: Task, parts: Bool[Tensor, "runs parts labelled"]
) -> Float[Tensor, "runs parts_and_one labelled"]:
    """What each label weighs while a part is held out, and last while none is: a class keeps its weight when some of
    its labels are held out. Were it to lose any, the labels held out would lie in the classes that were made smaller,
    and a peer with a large penalty, which knows classes by their weight, would seem to fail."""
    present = task.labelled.present
    kept = torch.cat([~parts & present[:, None], present[:, None]], 1).float()
    of_class = functional.one_hot(task.labelled.classes, task.num_classes).float()  # runs, labelled, classes
    counts = kept @ of_class  # runs, parts and one, classes
    each = counts[:, -1:] / counts.clamp(min=1)
    weights = kept * (each @ of_class.mT)
    return weights / weights.sum(-1, keepdim=True).clamp(min=1)


def _spread(
    logits: Float[Tensor, "runs parts penalties labelled classes"], parts: Bool[Tensor, "runs parts labelled"]
) -> Float[Tensor, "runs penalties"]:
    """How far the logits of held-out labels lie from their mean, which has no meaning."""
    square = logits.var(-1, correction=0) * parts[:, :, None]
    count = parts.sum((1, 2)).clamp(min=1)[:, None]
    return (square.sum((1, 3)) / count).sqrt().clamp(min=SMALLEST_SPREAD)


def _log_likelihood(
    logits: Float[Tensor, "runs parts penalties labelled classes"],
    classes: Int[Tensor, "runs labelled"],
    parts: Bool[Tensor, "runs parts labelled"],
    temperatures: Float[Tensor, "runs penalties temperatures"],
) -> Float[Tensor, "runs penalties temperatures"]:
    """Of a held-out label, on average."""
    held_out = parts[:, :, None].to(logits.dtype)
    count = parts.sum((1, 2)).clamp(min=1)[:, None]
    right = classes[:, None, None, :, None].expand(*logits.shape[:-1], 1)
    by_temperature = [
        ((logits / one[:, None, :, None, None]).log_softmax(-1).gather(-1, right)[..., 0] * held_out).sum((1, 3))
        / count
        for one in temperatures.unbind(-1)
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

    Few labels deceive, so there is a prior worth one label per peer, proportional to `trust` in its kind.
    """
    peers = list(evidence.values())
    kind = peers[0].accuracy.new_tensor([trust[name] for name in evidence])
    prior = kind / kind.sum()
    right = task.labelled.classes[:, None, :, None].expand(*parts.shape, 1)
    likelihood = torch.stack([one.held_out.gather(-1, right).flatten(1) for one in peers], -1)  # runs, told, peers
    share = parts.flatten(1) / parts.sum((1, 2)).clamp(min=1)[:, None]
    labels = task.labelled.present.sum(1)[:, None]
    weights = prior.expand(task.runs, -1)
    for _ in range(ROUNDS):
        owed = likelihood * weights[:, None]
        owed = owed / owed.sum(-1, keepdim=True).clamp(min=torch.finfo(owed.dtype).tiny)
        weights = (owed * share[..., None]).sum(1) * labels + len(peers) * prior
        weights = weights / weights.sum(1, keepdim=True)
    return weights
