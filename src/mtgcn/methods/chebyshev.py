"""Chebyshev (Defferrard, Bresson and Vandergheynst, NeurIPS 2016): a layer is a polynomial of the graph's Laplacian.

Each degree reaches one hop further and has its own weights; GCN is degree 1 with shared weights.

    Z = softmax(Σ_k T_k(L̃) H Θ1_k),  H = ReLU(Σ_k T_k(L̃) X Θ0_k),  k = 0 … K,
    T_0(x) = 1,  T_1(x) = x,  T_k(x) = 2 x T_{k-1}(x) - T_{k-2}(x),
    L̃ = 2 L / λ - I,  L = I - D^-1/2 A D^-1/2,  λ its largest eigenvalue.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from mtgcn.methods.base import TrainedOnLabels
from mtgcn.nn.base import StackedNetwork
from mtgcn.nn.networks import Chebyshev
from mtgcn.settings import Ge, Le


@dataclass(frozen=True, kw_only=True)
class ChebyshevFilters(TrainedOnLabels):
    """Two layers, as in Kipf and Welling's comparison; all but the filter is as in `gcn`. The Laplacian is scaled by
    its computed largest eigenvalue, as in the programs of both papers, not by the bound 2."""

    architecture: ClassVar[type[StackedNetwork]] = Chebyshev
    degree: Annotated[int, Ge(1), Le(100)] = 2  # K: polynomials T_0 … T_K
