"""Text columns as features: TF-IDF of word and character n-grams, reduced by a truncated SVD.

A text with n_t occurrences of term t is the row

    x = WEIGHT · u V / |u V|,    u_t = (1 + log n_t) · (1 + log((1 + N) / (1 + N_t))),

where N texts were fitted, N_t of them with t, and V holds the leading right singular vectors of the normalised u.
Terms, document frequencies and V are learned once and applied to later texts unchanged. scikit-learn is imported only
where a text column exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from mtgcn.shapes import Float

MAX_TERMS = 10_000  # limit for words and word pairs, and for character n-grams
ANALYZERS = {"word": (1, 2), "char_wb": (3, 4)}  # analyzers of scikit-learn with n-gram lengths
MAX_DIMENSIONS = 100  # as usual for latent semantic analysis
TEXTS_PER_DIMENSION = 4  # fewest texts per dimension
MAX_FITTED_TEXTS = 20_000  # more are sampled evenly
MAX_LENGTH = 1000  # characters; the rest of a text is not read
SHORT = 100  # largest mean number of characters for which character n-grams are used
WEIGHT = 2.0  # length of a row; a standardised number is 1 on average


@dataclass(frozen=True, eq=False)
class TextColumn:
    """A fitted text column. Its arrays are stored separately from the JSON of the columns."""

    name: str
    words: tuple[str, ...]
    characters: tuple[str, ...]  # character n-grams; empty for long texts
    dimensions: int
    different: int  # distinct texts
    idf: Any = None  # np.ndarray of terms
    components: Any = None  # np.ndarray of terms and dimensions
    kind: Literal["text"] = "text"

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(f"{self.name} [{number}]" for number in range(1, self.dimensions + 1))

    @property
    def treatment(self) -> str:
        grams = "word and character" if self.characters else "word"
        return f"text, {self.different} different, {self.dimensions} dimensions of {grams} n-grams"

    def with_arrays(self, arrays: dict[str, np.ndarray]) -> TextColumn:
        """The column with its arrays, after reading it from JSON."""
        idf, components = arrays["idf"], arrays["components"]
        terms = len(self.words) + len(self.characters)
        if idf.shape != (terms,) or components.shape != (terms, self.dimensions):
            raise ValueError(f"arrays of a text column of shapes {idf.shape} and {components.shape}")
        if not np.isfinite(idf).all() or not np.isfinite(components).all():
            raise ValueError("arrays of a text column are not finite")
        return TextColumn(self.name, self.words, self.characters, self.dimensions, self.different, idf, components)

    def rows(self, texts: Sequence[str]) -> Float[np.ndarray, "texts dimensions"]:
        """The features of each text; zeros if it has no known term."""
        return WEIGHT * _normalised(self._term_weights(texts) @ self.components)

    def terms(self, texts: Sequence[str]) -> sp.csr_array:
        """Weights of the terms; multiplied by `components`, they give `rows`."""
        weights = self._term_weights(texts)
        lengths = np.linalg.norm(weights @ self.components, axis=1)
        return sp.csr_array(sp.diags_array(WEIGHT / np.where(lengths > 0, lengths, np.inf)) @ weights)

    def _term_weights(self, texts: Sequence[str]) -> sp.csr_array:
        return _normalised(_weighted(_counts(texts, self.words, self.characters), self.idf))


def fit_text(name: str, texts: Sequence[str]) -> TextColumn | None:
    """Learn terms and dimensions from distinct texts; None if no term occurs twice."""
    from sklearn.utils.extmath import randomized_svd

    some = texts[:: -(-len(texts) // MAX_FITTED_TEXTS)]
    words = _frequent_terms(some, "word")
    characters = _frequent_terms(some, "char_wb") if sum(map(len, some)) <= SHORT * len(some) else ()
    if not words and not characters:
        return None
    counts = _counts(some, words, characters)
    idf = 1 + np.log((1 + len(some)) / (1 + np.bincount(counts.indices, minlength=counts.shape[1])))
    weights = _normalised(_weighted(counts, idf))
    dimensions = max(1, min(MAX_DIMENSIONS, len(some) // TEXTS_PER_DIMENSION, weights.shape[1] - 1))
    _, _, components = randomized_svd(weights, dimensions, random_state=0)
    fitted = np.ascontiguousarray(components.T, dtype=np.float32)
    return TextColumn(name, words, characters, dimensions, len(texts), idf.astype(np.float32), fitted)


def _frequent_terms(texts: Sequence[str], analyzer: str) -> tuple[str, ...]:
    """The most frequent terms that at least two texts have, sorted."""
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(
        analyzer=analyzer, ngram_range=ANALYZERS[analyzer], min_df=2, max_features=MAX_TERMS, dtype=np.float32
    )
    try:
        counter.fit([text[:MAX_LENGTH] for text in texts])
    except ValueError:  # no term occurs twice
        return ()
    return tuple(sorted(counter.vocabulary_))


def _counts(texts: Sequence[str], words: Sequence[str], characters: Sequence[str]) -> sp.csr_array:
    from sklearn.feature_extraction.text import CountVectorizer

    blocks = [
        CountVectorizer(
            analyzer=analyzer, ngram_range=ANALYZERS[analyzer], vocabulary=terms, dtype=np.float32
        ).transform([text[:MAX_LENGTH] for text in texts])
        for analyzer, terms in zip(ANALYZERS, (words, characters), strict=True)
        if terms
    ]
    return sp.csr_array(sp.hstack(blocks, format="csr"))


def _weighted(counts: sp.csr_array, idf: np.ndarray) -> sp.csr_array:
    weighted = counts.copy()
    weighted.data = (1 + np.log(counts.data)) * idf[counts.indices]
    return weighted


def _normalised(rows: Any) -> Any:
    """Rows of length 1; zeros stay."""
    from sklearn.preprocessing import normalize

    return normalize(rows)
