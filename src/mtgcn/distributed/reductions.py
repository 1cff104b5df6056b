"""What is true of all nodes together, found by what each rank knows of its own: sums, means, products, the surest."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from mtgcn.distributed.local_graph import LocalGraph
from mtgcn.distributed.ranks import Ranks
from mtgcn.shapes import Bool, Float, Int
from mtgcn.training.pseudo_labels import KeyLayout, PseudoLabels, chosen_above, sorted_keys

DIGIT = 8  # bits of a key that are settled in one round


def most_confident_of_all(
    local: LocalGraph,
    confidence: Float[Tensor, "here runs peers"],
    predicted: Int[Tensor, "here runs peers"],
    *,
    classes: int,
    per_class: int,
    exclude: Bool[Tensor, "here runs"],
) -> PseudoLabels:
    """`most_confident` of all nodes: those of the chosen that are this rank's, so that all ranks' are the whole choice.

    Ranks do not send their own top t, which are many on a large graph, but find out together how sure the t-th is.
    """
    runs, peers = confidence.shape[1:]
    layout = KeyLayout(local.manifest.num_nodes, classes)
    ordered = sorted_keys(layout.keys(confidence, predicted, exclude, local.numbers))  # models, here
    starts = layout.class_starts(ordered.device)
    lowest = _lowest_chosen(local.ranks, ordered, starts[:-1], layout.class_shift, per_class)
    first = _places(ordered, lowest)
    end = _places(ordered, starts[1:].expand(len(ordered), -1))
    here = max(1, int((end - first).max()))
    return chosen_above(
        ordered, first, end, lambda keys: local.of_numbers(layout.numbers_in(keys)), here, (runs, peers)
    )


def _lowest_chosen(
    ranks: Ranks, ordered: Int[Tensor, "models here"], starts: Int[Tensor, "classes"], bits: int, count: int
) -> Int[Tensor, "models classes"]:
    """Of each model and class the `count`-th highest key over all ranks, or where the class begins if there are fewer.

    Digit by digit from the highest: how many keys have which digit is summed over ranks, and tells the digit.
    """
    lowest = starts.expand(len(ordered), -1).clone()
    left = torch.full_like(lowest, count)  # how many are still to be taken among keys with the digits settled so far
    enough = torch.ones_like(lowest, dtype=torch.bool)
    for shift in range((bits - 1) // DIGIT * DIGIT, -1, -DIGIT):
        count_of_digits = 1 << min(DIGIT, bits - shift)
        digits = torch.arange(count_of_digits + 1, device=ordered.device)
        edges = lowest[..., None] + (digits << shift)
        places = _places(ordered, edges.flatten(1)).view_as(edges)
        held = ranks.total(places.diff(dim=-1))  # by digit
        from_here = functional.pad(held.flip(-1).cumsum(-1).flip(-1), (0, 1))  # with this digit or a higher one
        enough &= from_here[..., 0] >= left
        digit = ((from_here >= left[..., None]).sum(-1) - 1).clamp(min=0)
        left = left - from_here.gather(-1, digit[..., None] + 1)[..., 0]
        lowest = torch.where(enough, lowest + (digit << shift), lowest)
    return torch.where(enough, lowest, starts)


def _places(ordered: Int[Tensor, "models here"], keys: Int[Tensor, "models some"]) -> Int[Tensor, "models some"]:
    """How many keys of each model are smaller than each of these."""
    return torch.searchsorted(ordered, keys.contiguous())
