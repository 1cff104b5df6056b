"""Classifiers of other libraries: each takes a graph and a split and returns probabilities.

What is learned without labels is reused for later splits, as mt-plus reuses its embeddings.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.semi_supervised import LabelSpreading
from torch import Tensor, nn

from mtgcn.graph import UNLABELED, Graph
from mtgcn.splits import Split

HIDDEN_CHANNELS = 512  # of infomax, and the other settings of PyTorch Geometric's example
LEARNING_RATE = 1e-3
PATIENCE = 20  # epochs without a lower loss after which the authors of infomax stop


class Missing(Exception):
    """A package that a program needs is not installed: one line that says so."""


@contextmanager
def needing(package: str) -> Iterator[None]:
    """Where imports of another project's package stand."""
    try:
        yield
    except ImportError as error:
        raise Missing(f"{package} is not installed ({error}); pip install {package}") from error


class Program(ABC):
    """One way to classify nodes. `note` describes the last fit in a row of a table."""

    note = ""

    @abstractmethod
    def fit(self, graph: Graph, split: Split) -> np.ndarray:
        """Probabilities, nodes x classes."""


@dataclass
class InfomaxRegression(Program):
    """`DeepGraphInfomax` of PyTorch Geometric, one convolution with PReLU; logistic regression on its embeddings."""

    epochs: int = 300
    most_seconds: float = float("inf")  # training ends after these, finished or not
    seed: int = 0
    _known: tuple[Graph, np.ndarray] | None = field(default=None, repr=False)

    def fit(self, graph: Graph, split: Split) -> np.ndarray:
        if self._known is None or self._known[0] is not graph:
            self._known = (graph, self._embedding(graph))
        return regression(self._known[1], graph, split)

    def _embedding(self, graph: Graph) -> np.ndarray:
        with needing("torch_geometric"):
            from torch_geometric.nn import DeepGraphInfomax, GCNConv
        torch.manual_seed(self.seed)

        class Encoder(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.convolution = GCNConv(graph.num_features, HIDDEN_CHANNELS, cached=True)
                self.activation = nn.PReLU(HIDDEN_CHANNELS)

            def forward(self, features: Tensor, edges: Tensor) -> Tensor:
                return self.activation(self.convolution(features, edges))

        model = DeepGraphInfomax(
            HIDDEN_CHANNELS,
            encoder=Encoder(),
            summary=lambda positive, *_: positive.mean(dim=0).sigmoid(),
            corruption=lambda features, edges: (features[torch.randperm(len(features))], edges),
        )
        optimiser = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
        inputs = dense_features(graph), edges_of(graph)
        started, best, since, epoch = perf_counter(), float("inf"), 0, 0
        model.train()
        while epoch < self.epochs and since < PATIENCE and perf_counter() - started < self.most_seconds:
            optimiser.zero_grad()
            loss = model.loss(*model(*inputs))
            loss.backward()
            optimiser.step()
            epoch += 1
            best, since = (loss.item(), 0) if loss.item() < best else (best, since + 1)
        stopped = epoch < self.epochs and since < PATIENCE
        self.note = f"{epoch} of {self.epochs} epochs" + (f", stopped after {self.most_seconds:g} s" if stopped else "")
        model.eval()
        with torch.no_grad():
            return model.encoder(*inputs).numpy()


class Propagated(Program):
    """`LabelPropagation` of PyTorch Geometric, as often and as far as in the paper of correct and smooth."""

    def fit(self, graph: Graph, split: Split) -> np.ndarray:
        with needing("torch_geometric"):
            from torch_geometric.nn import LabelPropagation
        labels, known = given(graph, split)
        return LabelPropagation(num_layers=50, alpha=0.9)(labels, edges_of(graph), mask=known).numpy()


class Smoothed(Program):
    """`CorrectAndSmooth` of PyTorch Geometric after a linear model of the features; its documented settings."""

    def fit(self, graph: Graph, split: Split) -> np.ndarray:
        with needing("torch_geometric"):
            from torch_geometric.nn import CorrectAndSmooth
        edges = edges_of(graph)
        probabilities = torch.from_numpy(regression(dense_features(graph).numpy(), graph, split).astype(np.float32))
        known = torch.from_numpy(split.train.copy())
        labels = torch.from_numpy(graph.labels[split.train])
        smooth = CorrectAndSmooth(
            num_correction_layers=50, correction_alpha=1.0, num_smoothing_layers=50, smoothing_alpha=0.8
        )
        corrected = smooth.correct(probabilities, labels, known, edges)
        return smooth.smooth(corrected, labels, known, edges).numpy()


@dataclass
class Spreading(Program):
    """`LabelSpreading` of scikit-learn, which is given the graph as its kernel."""

    settings: dict[str, Any] = field(default_factory=dict)

    def fit(self, graph: Graph, split: Split) -> np.ndarray:
        adjacency = sp.csr_matrix(graph.adjacency, copy=True)  # which it writes into
        model = LabelSpreading(kernel=lambda *_: adjacency, **self.settings)
        return model.fit(np.zeros((graph.num_nodes, 1)), labels_seen(graph, split)).label_distributions_


@dataclass
class OfScikitNetwork(Program):
    """A classifier of scikit-network, with the settings that it comes with."""

    name: str

    def fit(self, graph: Graph, split: Split) -> np.ndarray:
        with needing("scikit-network"):
            from sknetwork import classification
        adjacency = sp.csr_matrix(graph.adjacency, dtype=float)  # scikit-network knows no arrays, and writes into these
        return getattr(classification, self.name)().fit(adjacency, labels_seen(graph, split)).predict_proba()


def programs(infomax_epochs: int, most_seconds: float) -> dict[str, Callable[[], Program]]:
    """The peers by the names that tables call them."""
    return {
        "PyG DeepGraphInfomax + LogisticRegression": lambda: InfomaxRegression(infomax_epochs, most_seconds),
        "PyG LabelPropagation": Propagated,
        "PyG CorrectAndSmooth, linear base": Smoothed,
        "scikit-learn LabelSpreading": Spreading,
        "scikit-learn LabelSpreading, α 0.99": lambda: Spreading({"alpha": 0.99, "max_iter": 1000}),
        "scikit-network Propagation": lambda: OfScikitNetwork("Propagation"),
        "scikit-network DiffusionClassifier": lambda: OfScikitNetwork("DiffusionClassifier"),
        "scikit-network PageRankClassifier": lambda: OfScikitNetwork("PageRankClassifier"),
        "scikit-network NNClassifier": lambda: OfScikitNetwork("NNClassifier"),
    }


def regression(rows: np.ndarray, graph: Graph, split: Split) -> np.ndarray:
    """Logistic regression of scikit-learn on the rows of the labelled nodes, scaled to length 1, applied to all.

    C is chosen by cross-validation where every class has two labels; else it is 100.
    """
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    labels = graph.labels[split.train]
    folds = min(5, np.bincount(labels).min())
    model = LogisticRegression(C=100, max_iter=1000)
    if folds > 1:
        model = GridSearchCV(model, {"C": np.logspace(-1, 5, 13)}, scoring="neg_log_loss", cv=folds)
    return model.fit(rows[split.train], labels).predict_proba(rows)  # splits have labels of every class, in order


def dense_features(graph: Graph) -> Tensor:
    """Features as a dense matrix whose rows sum to 1; a row of zeros stays."""
    features = graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray()
    features = torch.from_numpy(np.array(features, dtype=np.float32))
    sums = features.sum(1, keepdim=True)
    return features / torch.where(sums == 0, 1, sums)


def edges_of(graph: Graph) -> Tensor:
    """The adjacency as a sparse matrix of torch: with 512 channels, copies for every edge would take gigabytes."""
    adjacency = graph.adjacency
    parts = (torch.from_numpy(part.astype(np.int64)) for part in (adjacency.indptr, adjacency.indices))
    weights = torch.from_numpy(adjacency.data.astype(np.float32))
    with warnings.catch_warnings():  # torch calls such matrices new, and unchecked
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(*parts, weights, adjacency.shape)


def given(graph: Graph, split: Split) -> tuple[Tensor, Tensor]:
    """Labels one-hot, rows of 0 where they are hidden; and the nodes that have one."""
    labels, known = torch.zeros(graph.num_nodes, graph.num_classes), torch.from_numpy(split.train.copy())
    labels[known, torch.from_numpy(graph.labels[split.train])] = 1
    return labels, known


def labels_seen(graph: Graph, split: Split) -> np.ndarray:
    """The labels that the split gives, UNLABELED elsewhere."""
    labels = np.full(graph.num_nodes, UNLABELED)
    labels[split.train] = graph.labels[split.train]
    return labels
