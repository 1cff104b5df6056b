"""Cross-validates each peer on the labelled nodes: penalty, temperature, mixture weight and teaching strength.

A peer is a linear classifier on one view. Its held-out probabilities determine its penalty, temperature and mixture
weight, and the strength of mutual teaching.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mtgcn.linalg.node_keys import keyed_bits
from mtgcn.linalg.softmax_regression import FitToMany, are_many, fit_to_labels, probabilities_of
from mtgcn.methods.mt_plus.forest import Forest, grow
from mtgcn.methods.mt_plus.settings import MTPlusSettings
from mtgcn.methods.mt_plus.views import FOREST
from mtgcn.shapes import Bool, Float, Int
from mtgcn.task import Nodes

FOLD_STREAM = 0xF01D  # random numbers of the folds
TUNING_STREAM = 0x7C4E  # random numbers of the sample that is cross-validated
MIN_LOGIT_STD = 1e-2  # standard deviation of logits below which a peer is constant
TUNING_TOLERANCE = 1e-4  # relative decrease of the loss at which cross-validated fits stop
NUMBERS_PER_STACK = 2**20  # size of the problems that are fitted at once

Folds = Bool[Tensor, "runs folds labelled"]


@dataclass(frozen=True, eq=False)
class Peer:
    """A linear classifier, or a forest, on one view: fitted to all labels of every run, and cross-validated."""

    weight: Float[Tensor, "runs width classes"]  # width 0 for a forest
    penalty: Float[Tensor, "runs"]
    temperature: Float[Tensor, "runs"]  # divisor of the logits
    held_out: Float[Tensor, "runs folds labelled classes"]  # held-out probabilities
    accuracy: Float[Tensor, "runs"]  # on held-out labels
    forest: Forest | None = None

    def probabilities(self, rows: Float[Tensor, "nodes width"]) -> Float[Tensor, "runs nodes classes"]:
        if self.forest is not None:
            return self.forest.probabilities(rows, self.temperature)
        return probabilities_of(rows, self.weight, self.temperature)


# ------------------------------------------------------------------------------------------------------------ folds


def tuning_sample(
    labelled: Nodes, keys: Int[Tensor, "nodes"], num_classes: int, seeds: tuple[int, ...], settings: MTPlusSettings
) -> Nodes:
    """The labels that are cross-validated: all, or a random sample of many, with at least `min_folds` of each class."""
    at_least, labels = settings.min_folds * num_classes, labelled.index.shape[1]
    most = min(settings.tuning_labels, max(at_least, settings.tuning_numbers // num_classes))
    if labels <= most or not are_many(labels, num_classes):
        return labelled
    of_labelled = keys[labelled.index].cpu().numpy().view(np.uint64)
    present = labelled.present.cpu().numpy()
    classes = np.where(present, labelled.classes.cpu().numpy(), num_classes)
    chosen = np.empty((len(seeds), most), dtype=np.int64)
    for run, seed in enumerate(seeds):
        random = keyed_bits(of_labelled[run], seed, TUNING_STREAM)
        order, rank = np.lexsort((random, classes[run])), np.empty(labels, dtype=np.int64)
        in_order = classes[run][order]
        rank[order] = np.arange(labels) - np.searchsorted(in_order, in_order)  # rank within the class
        chosen[run] = np.lexsort((random, rank >= settings.min_folds, ~present[run]))[:most]
    place = torch.from_numpy(chosen).to(labelled.index.device)
    return Nodes(labelled.index.gather(1, place), labelled.classes.gather(1, place))


def stratified_folds(
    labelled: Nodes, keys: Int[Tensor, "nodes"], num_classes: int, seeds: tuple[int, ...], settings: MTPlusSettings
) -> Folds:
    """Which labels each fold holds out. The number of folds is the average number of labels per class, within bounds,
    and folds are redrawn until there are about `fold_fits`. Folds that a run does not need hold out nothing. The only
    label of a class is never held out, since without it the class cannot be predicted. Folds depend on the seed of the
    run and the keys of the nodes, not on the node order."""
    of_labelled = keys[labelled.index].cpu().numpy().view(np.uint64)
    on_host = labelled.to(torch.device("cpu"))
    by_run = []
    for keys_of_run, classes, present, seed in zip(
        of_labelled, on_host.classes.numpy(), on_host.present.numpy(), seeds, strict=True
    ):
        count = num_folds(int(present.sum()), num_classes, settings)
        random = np.random.default_rng([seed, FOLD_STREAM])
        folds = []
        for repeat in range(max(1, round(settings.fold_fits / count))):
            order = np.argsort(keyed_bits(keys_of_run, seed, FOLD_STREAM + repeat), kind="stable")
            fold, placed = np.full(len(classes), -1), 0
            for number in random.permutation(num_classes):
                members = order[(present & (classes == number))[order]]
                if len(members) > 1:
                    fold[members] = (placed + np.arange(len(members))) % count
                placed += len(members)
            folds += [fold == number for number in range(count)]
        by_run.append(folds)
    padded = np.zeros((len(by_run), max(map(len, by_run)), labelled.index.shape[1]), dtype=bool)
    for row, folds in zip(padded, by_run, strict=True):
        row[: len(folds)] = folds
    return torch.from_numpy(padded).to(labelled.index.device)


def num_folds(labels: int, num_classes: int, settings: MTPlusSettings) -> int:
    """The number of folds for this number of labels."""
    return int(np.clip(round(labels / num_classes), settings.min_folds, settings.max_folds))


# ------------------------------------------------------------------------------------------- penalty and temperature


def fit_peers(
    views: Mapping[str, Float[Tensor, "nodes width"]],
    labelled: Nodes,
    keys: Int[Tensor, "nodes"],
    num_classes: int,
    seeds: tuple[int, ...],
    prior: Mapping[str, float],
    settings: MTPlusSettings,
) -> tuple[dict[str, Peer], Nodes, Folds]:
    """Cross-validated peers on all views, the labels that were held out, and their folds."""
    many = are_many(labelled.index.shape[1], num_classes)
    tuned = tuning_sample(labelled, keys, num_classes, seeds, settings)
    once = replace(settings, fold_fits=1) if many else settings  # folds of many labels are not repeated
    folds = stratified_folds(tuned, keys, num_classes, seeds, once)
    peers = cross_validate(views, tuned, num_classes, folds, prior, settings, labelled if many else None)
    return peers, tuned, folds.any(1, keepdim=True) if many else folds


def cross_validate(
    views: Mapping[str, Float[Tensor, "nodes width"]],
    labelled: Nodes,
    num_classes: int,
    folds: Folds,
    prior: Mapping[str, float],
    settings: MTPlusSettings,
    fitted_to: Nodes | None = None,
) -> dict[str, Peer]:
    """Fit a peer to every view, with a penalty and a temperature that make held-out labels likely.

    Each penalty is weighted by the likelihood of the held-out labels at its best temperature, and their weighted
    geometric mean is taken. (At one temperature for all, likelihood would prefer far too large penalties, which lower
    the confidence.) Few labels are weak evidence, so each peer also uses the evidence of all peers. With
    `fitted_to`, `labelled` is a sample of these labels, and each fold is predicted once.
    """
    linear = {name: table for name, table in views.items() if name != FOREST}
    if fitted_to is None:
        trials = _fit_trials(linear, labelled, num_classes, folds, settings)
    else:
        trials = _fit_large_trials(linear, labelled, num_classes, folds, settings, fitted_to)
    if FOREST in views:
        trials[FOREST] = _forest_trial(
            views[FOREST], labelled, num_classes, folds, settings, once=fitted_to is not None
        )
    total = sum(prior[name] for name in trials)
    pooled = sum(prior[name] / total * trial.likelihood for name, trial in trials.items())
    return {
        name: trial.peer((trial.likelihood + settings.penalty_pooling * pooled).softmax(1))
        for name, trial in trials.items()
    }


def _fit_trials(
    views: Mapping[str, Float[Tensor, "nodes width"]],
    labelled: Nodes,
    num_classes: int,
    folds: Folds,
    settings: MTPlusSettings,
) -> dict[str, _Trial]:
    """Every peer, fitted with every penalty without each fold. The size of a problem does not depend on the width of
    the view. As many as fit into memory are fitted at once, since a single one takes nearly as long."""
    weights = _label_weights(labelled, num_classes, folds)
    penalties = weights.new_tensor(settings.penalties)
    rows = {name: table[labelled.index.clamp(min=0)] * labelled.present[..., None] for name, table in views.items()}
    kernels = {name: table @ table.mT for name, table in rows.items()}
    at_once = max(1, NUMBERS_PER_STACK // (weights.numel() * len(penalties) * num_classes))
    names, trials = list(views), {}
    for some in (names[start : start + at_once] for start in range(0, len(names), at_once)):
        stacked = fit_to_labels(
            torch.cat([kernels[name] for name in some]),
            labelled.classes.repeat(len(some), 1),
            num_classes,
            weights.repeat(len(some), 1, 1),
            penalties,
            settings.fit_steps,
        )
        for name, found in zip(some, stacked.split(len(folds)), strict=True):
            logits = kernels[name][:, None, None] @ found[:, :-1]  # runs, folds, penalties, labelled, classes

            def weight(penalty: Int[Tensor, "runs"], table: Tensor = rows[name], found: Tensor = found) -> Tensor:
                return table.mT @ found[torch.arange(len(penalty), device=penalty.device), -1, penalty]

            trials[name] = _Trial(logits, weight, labelled, folds, settings)
    return trials


def _fit_large_trials(
    views: Mapping[str, Float[Tensor, "nodes width"]],
    labelled: Nodes,
    num_classes: int,
    folds: Folds,
    settings: MTPlusSettings,
    fitted_to: Nodes,
) -> dict[str, _Trial]:
    """Like `_fit_trials`, one problem at a time: penalties in descending order, each started from the previous fit."""
    weights = _label_weights(labelled, num_classes, folds)

    def fit(table: Tensor, nodes: Nodes, run: int) -> FitToMany:
        present = nodes.present[run]
        return FitToMany(table[nodes.index[run, present]], nodes.classes[run, present], num_classes)

    trials = {}
    for name, table in views.items():
        logits = table.new_zeros(len(folds), 1, len(settings.penalties), folds.shape[2], num_classes)
        for run, present in enumerate(labelled.present):
            fitted = fit(table, labelled, run)
            for fold, weight in zip(folds[run], weights[run], strict=False):
                found = None
                for number in reversed(range(len(settings.penalties)) if fold.any() else ()):
                    penalty = settings.penalties[number]
                    found = fitted.coefficients(weight[present], penalty, found, settings.fit_steps, TUNING_TOLERANCE)
                    logits[run, 0, number, fold] = fitted.rows[fold[present]] @ found

        def weight_of(nearest: Int[Tensor, "runs"], table: Tensor = table) -> Tensor:
            found = []
            for run, number in enumerate(nearest.tolist()):
                fitted = fit(table, fitted_to, run)
                even = table.new_full((len(fitted.rows),), 1 / max(1, len(fitted.rows)))
                found.append(
                    fitted.weight(fitted.coefficients(even, settings.penalties[number], None, settings.fit_steps))
                )
            return torch.stack(found)

        trials[name] = _Trial(logits, weight_of, labelled, folds.any(1, keepdim=True), settings)
    return trials


def _forest_trial(
    table: Float[Tensor, "nodes width"],
    labelled: Nodes,
    num_classes: int,
    folds: Folds,
    settings: MTPlusSettings,
    once: bool,
) -> _Trial:
    """A forest grown without each fold; it has no penalty. With `once`, each label is held out in one fold."""
    weights = _label_weights(labelled, num_classes, folds)
    weights[..., settings.forest_labels :] = 0
    rows = table[labelled.index.clamp(min=0)]
    *without, forest = grow(rows, labelled.classes, num_classes, weights, settings)
    logits = torch.stack([one.logits(rows) for one in without], 1)
    if once:
        logits = (logits * folds[..., None]).sum(1, keepdim=True)
        folds = folds.any(1, keepdim=True)
    every = logits[:, :, None].expand(-1, -1, len(settings.penalties), -1, -1)
    none = rows.new_zeros(len(rows), 0, num_classes)
    return _Trial(every, lambda penalty: none, labelled, folds, settings, forest)


class _Trial:
    """A peer fitted with every penalty, without each fold. `weight(penalties)` is fitted to all labels with these
    penalties, given by their index."""

    def __init__(
        self,
        logits: Float[Tensor, "runs folds penalties labelled classes"],
        weight: Callable[[Int[Tensor, "runs"]], Float[Tensor, "runs width classes"]],
        labelled: Nodes,
        folds: Folds,
        settings: MTPlusSettings,
        forest: Forest | None = None,
    ) -> None:
        self.logits, self.weight, self.classes, self.folds = logits, weight, labelled.classes, folds
        self.forest = forest
        self.penalties, ratios = logits.new_tensor(settings.penalties), logits.new_tensor(settings.temperatures)
        held_out = folds[:, :, None].to(logits.dtype)
        count = folds.sum((1, 2)).clamp(min=1)[:, None]
        # Without held-out labels, the logits of all labelled nodes give the expected temperature.
        any_held_out = folds.any(2).any(1)[:, None, None]
        measured = torch.where(any_held_out, folds, labelled.present[:, None])[:, :, None].to(logits.dtype)
        # The expected temperature gives all peers the same logit_std. Few labels are weak evidence, and a peer with too
        # high a temperature would lose its weight.
        variance = (self.logits.var(-1, correction=0) * measured).sum((1, 3)) / measured.sum((1, 3)).clamp(min=1)
        expected = variance.sqrt().clamp(min=MIN_LOGIT_STD)[..., None] / settings.logit_std
        self.temperatures = expected * ratios  # runs, penalties, temperatures
        target = self.classes[:, None, None, :, None].expand(*self.logits.shape[:-1], 1)
        # The mean log-likelihood of the held-out labels.
        by_temperature = [
            ((self.logits / one[:, None, :, None, None]).log_softmax(-1).gather(-1, target)[..., 0] * held_out)
            .sum((1, 3))
            .div(count)
            for one in self.temperatures.unbind(-1)
        ]
        likelihood = torch.stack(by_temperature, -1) * num_held_out(folds)[:, None, None]
        self.evidence = likelihood - settings.temperature_labels * ratios.log().square()
        self.likelihood: Float[Tensor, "runs penalties"] = self.evidence.amax(2)

    def peer(self, share: Float[Tensor, "runs penalties"]) -> Peer:
        """The peer with the mean penalty by these shares, fitted with the nearest of the penalties tried."""
        run = torch.arange(len(share), device=share.device)
        nearest = (share * torch.arange(len(self.penalties), device=share.device)).sum(1).round().long()
        temperature = self.temperatures[run, nearest, self.evidence[run, nearest].argmax(1)]
        held_out = (self.logits[run, :, nearest] / temperature[:, None, None, None]).softmax(-1)
        return Peer(
            weight=self.weight(nearest),
            penalty=10 ** (share * self.penalties.log10()).sum(1),
            temperature=temperature,
            held_out=held_out,
            accuracy=held_out_accuracy(held_out, self.classes, self.folds),
            forest=self.forest,
        )


def _label_weights(labelled: Nodes, num_classes: int, folds: Folds) -> Float[Tensor, "runs folds_and_one labelled"]:
    """Weight of each label without each fold and, last, with all labels. A class keeps its total weight when some of
    its labels are held out. Otherwise held-out labels would lie in the classes that lost weight, and a peer with a
    large penalty, whose predictions follow the class weights, would seem to fail."""
    present = labelled.present
    kept = torch.cat([~folds & present[:, None], present[:, None]], 1).float()
    of_class = functional.one_hot(labelled.classes, num_classes).float()  # runs, labelled, classes
    counts = kept @ of_class  # runs, folds and one, classes
    each = counts[:, -1:] / counts.clamp(min=1)
    weights = kept * (each @ of_class.mT)
    return weights / weights.sum(-1, keepdim=True).clamp(min=1)


# ----------------------------------------------------------------------------------------- weights and strength


def average(
    weights: Float[Tensor, "runs peers"], probabilities: Sequence[Float[Tensor, "runs nodes classes"]]
) -> Float[Tensor, "runs nodes classes"]:
    """Weighted average of the peers' probabilities."""
    result = torch.zeros_like(probabilities[0])
    for weight, one in zip(weights.T, probabilities, strict=True):
        result += weight[:, None, None] * one
    return result


def held_out_accuracy(
    held_out: Float[Tensor, "runs folds labelled classes"], classes: Int[Tensor, "runs labelled"], folds: Folds
) -> Float[Tensor, "runs"]:
    """Accuracy on held-out labels; NaN where no label is held out."""
    correct = (held_out.argmax(-1) == classes[:, None]) & folds
    return correct.sum((1, 2)) / folds.sum((1, 2))


def num_held_out(folds: Folds) -> Int[Tensor, "runs"]:
    """The number of labels that are held out in any fold."""
    return folds.any(1).sum(1)


def skill(accuracy: Float[Tensor, "*any"], num_classes: int) -> Float[Tensor, "*any"]:
    """Accuracy rescaled: 0 at chance, 1 when perfect."""
    return ((accuracy - 1 / num_classes) / (1 - 1 / num_classes)).clamp(0, 1)


def mixture_weights(
    peers: Mapping[str, Peer], prior: Mapping[str, float], labelled: Nodes, folds: Folds, settings: MTPlusSettings
) -> Float[Tensor, "runs peers"]:
    """The mixture weights that maximise the likelihood of held-out labels, found by expectation maximisation, with a
    prior that counts as `prior_labels` labels per peer."""
    shares = next(iter(peers.values())).accuracy.new_tensor([prior[name] for name in peers])
    shares = shares / shares.sum()
    target = labelled.classes[:, None, :, None].expand(*folds.shape, 1)
    likelihood = torch.stack([peer.held_out.gather(-1, target).flatten(1) for peer in peers.values()], -1)
    held_out = folds.flatten(1) / folds.sum((1, 2)).clamp(min=1)[:, None]
    labels = num_held_out(folds)[:, None]
    weights = shares.expand(len(folds), -1)
    for _ in range(settings.em_steps):
        responsible = likelihood * weights[:, None]  # runs, held-out labels, peers
        responsible = responsible / responsible.sum(-1, keepdim=True).clamp(min=torch.finfo(responsible.dtype).tiny)
        weights = (responsible * held_out[..., None]).sum(1) * labels + settings.prior_labels * len(peers) * shares
        weights = weights / weights.sum(1, keepdim=True)
    return weights


def average_accuracy(
    peers: Mapping[str, Peer], weights: Float[Tensor, "runs peers"], labelled: Nodes, folds: Folds
) -> Float[Tensor, "runs"]:
    """Accuracy of the weighted average of the peers on held-out labels; NaN where no label is held out."""
    average_held_out = average(weights, [peer.held_out.flatten(1, 2) for peer in peers.values()])
    shape = next(iter(peers.values())).held_out.shape
    return held_out_accuracy(average_held_out.view(shape), labelled.classes, folds)


def teaching_strength(
    peers: Mapping[str, Peer],
    weights: Float[Tensor, "runs peers"],
    labelled: Nodes,
    num_classes: int,
    folds: Folds,
    settings: MTPlusSettings,
) -> Float[Tensor, "runs"]:
    """How strongly the peers teach, from 0 to 1: full strength if their weighted average has skill on held-out labels,
    less if it is near chance or if one peer has nearly all the weight.

    A fold is predicted without some of the labels, so skill is underestimated by a factor of about 1 - 1 / folds. With
    few labels the estimate is noisy and is shrunk towards `expected_skill`.
    """
    accuracy = average_accuracy(peers, weights, labelled, folds)
    given, labels = labelled.present.sum(1), num_held_out(folds)
    count = accuracy.new_tensor([num_folds(number, num_classes, settings) for number in given.tolist()])
    measured = skill(accuracy.nan_to_num(), num_classes) * count / (count - 1)
    pseudo_count = settings.expected_skill_labels
    expected = (labels * measured + pseudo_count * settings.expected_skill) / (labels + pseudo_count)
    effective_peers = 1 / weights.square().sum(1)
    return (expected / settings.full_skill).clamp(max=1).pow(settings.fade_power) * (effective_peers - 1).clamp(max=1)
