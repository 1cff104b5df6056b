"""A small graph, and methods with known predictions."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from mtgcn.graph import Graph
from mtgcn.methods import Method
from mtgcn.task import Prediction


@pytest.fixture
def ring():
    """Twelve nodes in a ring: classes 0, 1, 2 in turn, four nodes each."""
    nodes = 12
    adjacency = np.roll(np.eye(nodes), 1, axis=1) + np.roll(np.eye(nodes), -1, axis=1)
    return Graph(adjacency, features=np.eye(nodes), labels=np.arange(nodes) % 3, name="ring")


@dataclass(frozen=True, kw_only=True)
class Constant(Method):
    """Predicts the same for every node."""

    favourite: int = 0
    confidence: float = 0.6

    def fit(self, task):
        rest = (1 - self.confidence) / (task.num_classes - 1)
        probabilities = np.full((task.runs, task.num_nodes, task.num_classes), rest)
        probabilities[:, :, self.favourite] = self.confidence
        return Prediction(probabilities)


@dataclass(frozen=True, kw_only=True)
class ConstantWithValidation(Constant):
    """Predicts the most frequent class among the validation nodes of its first run."""

    uses_validation: ClassVar[bool] = True

    def fit(self, task):
        assert task.validation is not None
        commonest = int(task.validation.classes[0].bincount().argmax())
        return Constant(favourite=commonest, confidence=self.confidence).fit(task)


@pytest.fixture
def constant():
    return Constant


@pytest.fixture
def constant_with_validation():
    return ConstantWithValidation
