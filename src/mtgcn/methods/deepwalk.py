"""DeepWalk (Perozzi, Al-Rfou and Skiena, KDD 2014): skip-gram on random walks, then logistic regression.

Features are not used.

    maximise  Σ over walks v, positions i and j with 0 < |i - j| <= w  of  log Pr(v_j | Φ(v_i)),
    Pr(u | Φ(v)) = Π_b σ(± Φ(v) · Ψ(b)),  over the inner nodes b on the path to u in a binary tree,

with embeddings Φ, vectors Ψ of the tree (hierarchical softmax) and window w.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch

from mtgcn.errors import InputError
from mtgcn.linalg.logistic_regression import labelled_rows, one_vs_rest, probabilities
from mtgcn.linalg.normalisation import relative_adjacency
from mtgcn.linalg.random_walks import random_walks
from mtgcn.memory import check_fits
from mtgcn.methods.base import Method
from mtgcn.settings import Ge, Le, PositiveFloat, PositiveInt
from mtgcn.shapes import Float, Int
from mtgcn.storage.cache import cached_arrays, fingerprint
from mtgcn.task import Prediction, Task, run_seed

RECIPE = 1  # version of the embeddings in the cache
SENTENCES_AT_ONCE = 1024  # walks converted to words at a time
WALKS, SKIP_GRAM = 0xDEE9, 0xDEEA  # streams of an embedding's seed


@dataclass(frozen=True, kw_only=True)
class DeepWalk(Method):
    """Length, window, dimensions, hierarchical softmax and the single pass are those of the paper. The paper starts 80
    walks at each node; 10 is the default of the authors' program.

    Embeddings do not depend on labels: they are cached and shared by all label rates. Runs with the same embedding have
    correlated errors, so the runs of a cell share several. Each embedding is trained by one thread, since updates
    by several threads have no fixed order."""

    uses_features: ClassVar[bool] = False
    walks_per_node: Annotated[int, Ge(1), Le(10_000)] = 10  # γ in the paper: walks that start at each node
    walk_length: Annotated[int, Ge(2), Le(10_000)] = 40  # t in the paper, in nodes
    # w in the paper: how far apart two nodes of a walk may be to count as neighbours
    window: Annotated[int, Ge(1), Le(1000)] = 10
    dimensions: PositiveInt = 128  # d in the paper: width of the embeddings
    passes: Annotated[int, Ge(1), Le(1000)] = 1  # passes of skip-gram over all walks
    # number of embeddings shared by the runs; None: one for each run
    embeddings: Annotated[int, Ge(1), Le(1000)] | None = 3
    strength: PositiveFloat = 1.0  # C of the logistic regression: inverse of the ridge penalty

    def fit(self, task: Task) -> Prediction:
        # The seeds of shared embeddings follow from the experiment, so final and development runs share none.
        groups = None if self.embeddings is None else np.array([seed % self.embeddings for seed in task.seeds])
        seeds = task.seeds if groups is None else tuple(run_seed(task.seed, int(number)) for number in groups)
        edges = relative_adjacency(task.graph)
        edges = sp.csr_array(edges - sp.diags_array(edges.diagonal()), dtype=np.float32)  # as in the authors' program
        edges.eliminate_zeros()
        distinct = sorted(set(seeds))
        with ThreadPoolExecutor(max_workers=torch.get_num_threads()) as pool:
            found = dict(zip(distinct, pool.map(lambda seed: self._kept_embedding(edges, seed), distinct), strict=True))
        vectors = [found[seed] for seed in seeds]
        rows = np.concatenate([labelled_rows(vectors[run], task.labelled[run : run + 1]) for run in range(task.runs)])
        classifiers = one_vs_rest(rows, task.labelled, task.num_classes, self.strength)
        scores = np.concatenate([classifiers[run : run + 1].scores(vectors[run]) for run in range(task.runs)])
        return Prediction(probabilities(scores), groups=groups)

    def bytes_per_run(self, task: Task) -> int:
        return 8 * task.num_nodes * (2 * self.dimensions + 2 * task.num_classes)

    def _kept_embedding(self, edges: sp.csr_array, seed: int) -> Float[np.ndarray, "nodes dimensions"]:
        settings = {key: value for key, value in asdict(self).items() if key not in ("embeddings", "strength")}
        name = fingerprint((RECIPE, settings, seed, _gensim().__version__, np.__version__), edges)
        shapes = {"vectors": (edges.shape[0], self.dimensions)}
        return cached_arrays("deepwalk", name, shapes, lambda: {"vectors": self.embedding(edges, seed)})["vectors"]

    def embedding(self, edges: sp.csr_array, seed: int) -> Float[np.ndarray, "nodes dimensions"]:
        """A vector for every node; 0 for a node without edges."""
        vectors = np.zeros((edges.shape[0], self.dimensions), dtype=np.float32)
        linked = np.flatnonzero(np.diff(edges.indptr))
        if not len(linked):
            return vectors
        walked = len(linked) * self.walks_per_node * (self.walk_length + 2)
        check_fits(
            np.int32().nbytes * walked,
            f"{self.walks_per_node} walks of {self.walk_length} nodes from each of {len(linked)}",
            "lower walks_per_node or walk_length",
        )
        random = np.random.default_rng([seed, WALKS])
        starts = np.concatenate([random.permutation(linked) for _ in range(self.walks_per_node)])
        model = _gensim().models.Word2Vec(
            sentences=_Sentences(random_walks(edges, starts, self.walk_length, random), edges.shape[0]),
            vector_size=self.dimensions,
            window=self.window,
            epochs=self.passes,
            sg=1,  # skip-gram
            hs=1,  # hierarchical softmax
            negative=0,
            sample=0,  # frequent nodes are not subsampled
            min_count=0,
            workers=1,
            seed=int(np.random.SeedSequence([seed, SKIP_GRAM]).generate_state(1)[0]),
        )
        vectors[np.array(model.wv.index_to_key, dtype=np.int64)] = model.wv.vectors
        return vectors


@dataclass(frozen=True, eq=False)
class _Sentences:
    """An iterable over the walks as lists of words, which gensim iterates several times."""

    walks: Int[np.ndarray, "walks length"]
    num_nodes: int

    def __iter__(self) -> Iterator[list[str]]:
        words = np.array([str(node) for node in range(self.num_nodes)], dtype=object)
        for first in range(0, len(self.walks), SENTENCES_AT_ONCE):
            yield from words[self.walks[first : first + SENTENCES_AT_ONCE]].tolist()


def _gensim() -> Any:
    try:
        import gensim.models
    except ImportError as error:
        raise InputError("deepwalk needs gensim, which is not installed; pip install 'mtgcn[deepwalk]'") from error
    return gensim
