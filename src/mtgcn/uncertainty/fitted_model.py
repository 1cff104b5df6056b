"""What explanations of a fit read of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from mtgcn.graph import Graph
from mtgcn.methods import Method
from mtgcn.shapes import Float
from mtgcn.task import PeerReport

if TYPE_CHECKING:
    from collections.abc import Mapping


class FittedModel(Protocol):
    """What is read of a `GraphModel` here and wherever a fit is explained."""

    @property
    def graph_(self) -> Graph: ...
    @property
    def method_(self) -> Method: ...
    @property
    def label_distributions_(self) -> Float[np.ndarray, "nodes classes"]: ...
    @property
    def peer_distributions_(self) -> Float[np.ndarray, "peers nodes classes"] | None: ...
    @property
    def peer_report_(self) -> PeerReport | None: ...
    @property
    def history_(self) -> Mapping[str, Float[np.ndarray, "epochs peers"]]: ...
