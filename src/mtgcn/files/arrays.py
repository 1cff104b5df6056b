"""What every reader answers: a graph as plain arrays; and arrays from what holds them elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True, eq=False)
class GraphArrays:
    """Edges as they are listed, in any direction and any number of times, and what is known of the nodes."""

    node_ids: np.ndarray
    sources: Int[np.ndarray, "listed"]  # numbers of nodes, not ids
    targets: Int[np.ndarray, "listed"]
    weights: Float[np.ndarray, "listed"] | None = None  # None: every edge weighs 1
    features: sp.csr_array | Float[np.ndarray, "nodes features"] | None = None
    feature_names: tuple[str, ...] = ()
    labels: Int[np.ndarray, "nodes"] | None = None  # -1 where unknown
    class_names: tuple[str, ...] = ()
    directed: bool | None = None  # None: the source does not say


def as_array(given: Any) -> Any:
    """Tensors as arrays, wherever they are; anything else as it is, or as an array if it is a list."""
    if given is None or sp.issparse(given):
        return given
    if hasattr(given, "detach"):
        tensor = given.detach().cpu()
        if str(tensor.layout) != "torch.strided":
            tensor = tensor.to_sparse_coo().coalesce()
            return sp.coo_array((tensor.values().numpy(), tensor.indices().numpy()), shape=tuple(tensor.shape))
        return tensor.numpy()
    return np.asarray(given)
