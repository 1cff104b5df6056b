"""A forest of extremely randomised trees (Geurts et al., 2006) for a stack of runs.

Each node draws a few columns with a random threshold each, and splits by the one that leaves the purest halves. A tree
is a heap: node i has the children 2i + 1 and 2i + 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from mtgcn.methods.mt_plus.settings import MTPlusSettings
from mtgcn.shapes import Float, Int

MIN_PROBABILITY = 1e-3  # lower bound before taking logarithms
ROWS_AT_ONCE = 2**14
SEED = 3  # seed of the random splits
TINY = 1e-12
FOREST_PARTS = ("forest/columns", "forest/thresholds", "forest/leaves")  # names of stored parameters


@dataclass(frozen=True, eq=False)
class Forest:
    """The trees of every run."""

    columns: Int[Tensor, "runs trees nodes"]
    thresholds: Float[Tensor, "runs trees nodes"]
    leaves: Float[Tensor, "runs trees leaves classes"]  # shares of the classes

    def logits(self, rows: Float[Tensor, "*runs rows columns"]) -> Float[Tensor, "runs rows classes"]:
        """Logarithms of the mean class shares; rows may differ between runs."""
        by_run = rows.expand(len(self.leaves), -1, -1)
        parts = [[self._shares(run, part) for part in own.split(ROWS_AT_ONCE)] for run, own in enumerate(by_run)]
        return torch.stack([torch.cat(shares) for shares in parts]).clamp(min=MIN_PROBABILITY).log()

    def _shares(self, run: int, rows: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows classes"]:
        columns, thresholds, leaves = self.columns[run], self.thresholds[run], self.leaves[run]
        tree = torch.arange(len(columns), device=rows.device)
        place = torch.zeros(len(rows), len(columns), dtype=torch.int64, device=rows.device)
        for _ in range((columns.shape[1] + 1).bit_length() - 1):
            place = 2 * place + 1 + (rows.gather(1, columns[tree, place]) > thresholds[tree, place])
        return leaves[tree, place - columns.shape[1]].mean(1)

    def probabilities(
        self, rows: Float[Tensor, "rows columns"], temperature: Float[Tensor, "runs"]
    ) -> Float[Tensor, "runs rows classes"]:
        return (self.logits(rows) / temperature[:, None, None]).softmax(-1)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The stored parameters, which `of` reads."""
        return dict(zip(FOREST_PARTS, (self.columns, self.thresholds, self.leaves), strict=True))

    @staticmethod
    def of(tensors: Mapping[str, Tensor]) -> Forest:
        return Forest(*(tensors[name] for name in FOREST_PARTS))


def grow(
    rows: Float[Tensor, "runs labelled columns"],
    classes: Int[Tensor, "runs labelled"],
    num_classes: int,
    weights: Float[Tensor, "runs parts labelled"],
    settings: MTPlusSettings,
) -> list[Forest]:
    """A forest for each weighting ("part") of the labels; rows of weight 0 are ignored."""
    grown = [
        [_grow(table, functional.one_hot(known, num_classes).float(), weight, settings) for weight in by_part]
        for table, known, by_part in zip(rows, classes, weights, strict=True)
    ]
    return [Forest(*map(torch.stack, zip(*part, strict=True))) for part in zip(*grown, strict=True)]


def _grow(
    rows: Float[Tensor, "labelled columns"],
    target: Float[Tensor, "labelled classes"],
    weights: Float[Tensor, "labelled"],
    settings: MTPlusSettings,
) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(SEED)
    used = weights.nonzero()[:, 0]
    rows, mass = rows[used], weights[used, None] * target[used]
    trees, tries, count = settings.forest_trees, settings.forest_splits, len(used)
    prior = settings.leaf_prior * mass.sum() / max(1, count)
    place = torch.zeros(trees, count, dtype=torch.int64, device=rows.device)  # node of each row within its level
    shares = (mass.sum(0) / mass.sum().clamp(min=TINY)).expand(trees, 1, -1)
    columns, thresholds = [], []
    for depth in range(settings.forest_depth):
        nodes = 2**depth
        drawn = torch.randint(rows.shape[1], (trees, nodes, tries), generator=random).to(rows.device)
        share = torch.rand(trees, nodes, tries, generator=random).to(rows.device)
        at_row = place[..., None].expand(-1, -1, tries)  # trees, labelled, tries
        values = rows[torch.arange(count, device=rows.device)[:, None], drawn.gather(1, at_row)]
        ends = torch.full_like(share, torch.inf)
        low = ends.scatter_reduce(1, at_row, values, "amin")
        high = (-ends).scatter_reduce(1, at_row, values, "amax")
        limit = torch.where(
            low < high, low + share * (high - low), torch.where(low == high, high, 0.0)
        )  # 0 if the node has no rows
        above = (values > limit.gather(1, at_row)).float()
        # Mass of the classes in each node: trees, nodes, classes; and of its upper half, for every try.
        by_node = (functional.one_hot(place, nodes).float()[..., None] * mass[:, None]).flatten(2)
        upper = (by_node.mT @ above).view(trees, nodes, -1, tries)
        lower = by_node.sum(1).view(trees, nodes, -1, 1) - upper
        purity = [half.square().sum(2) / half.sum(2).clamp(min=TINY) for half in (lower, upper)]
        best = (purity[0] + purity[1]).argmax(2, keepdim=True)
        columns.append(drawn.gather(2, best)[..., 0])
        thresholds.append(limit.gather(2, best)[..., 0])
        place = 2 * place + above.gather(2, best.gather(1, place[..., None]))[..., 0].long()
        chosen = best[:, :, None].expand(-1, -1, mass.shape[1], -1)
        halves = torch.stack([half.gather(3, chosen)[..., 0] for half in (lower, upper)], 2).flatten(1, 2)
        shares = (halves + prior * shares.repeat_interleave(2, 1)) / (halves.sum(2, keepdim=True) + prior).clamp(
            min=TINY
        )
    return torch.cat(columns, 1), torch.cat(thresholds, 1), shares
