"""Initial weights, drawn for each run from a generator of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from mtgcn.shapes import Float


def uniform(seeds: Sequence[int], shape: Sequence[int], bound: float, label: int) -> Float[Tensor, "runs *shape"]:
    """Numbers uniform in (-bound, bound), for each run from its own seed; `label` tells parameters apart."""
    draws = np.empty((len(seeds), *shape), dtype=np.float32)
    for seed, draw in zip(seeds, draws, strict=True):
        np.random.default_rng([seed, label]).random(out=draw, dtype=np.float32)
        draw -= 0.5
        draw *= 2 * bound
    return torch.from_numpy(draws)
