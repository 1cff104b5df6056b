"""Chameleon (Rozemberczki, Allen and Sarkar, 2021): pages of Wikipedia about chameleons, and the links between them.

`edges.csv` has two page numbers a line, `features.json` the words of each page, `target.csv` its monthly traffic. A
page's class is the fifth of all pages into which its traffic puts it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp

from mtgcn.datasets.dataset import Dataset, without_self_loops
from mtgcn.graph import Graph

FILENAMES = ("chameleon/edges.csv", "chameleon/features.json", "chameleon/target.csv")

_FIFTHS = (0.2, 0.4, 0.6, 0.8)


def read(files: Mapping[str, bytes]) -> Dataset:
    """The dataset with pages in the order of their numbers, 0 to n - 1."""
    ends, targets = (_whole_numbers(files[f"chameleon/{table}.csv"]) for table in ("edges", "target"))
    pages = len(targets)
    traffic = np.empty(pages)
    traffic[targets[:, 0]] = targets[:, 1]
    graph = Graph(
        adjacency=without_self_loops(ends[:, 0], ends[:, 1], pages),
        features=_word_table(json.loads(files["chameleon/features.json"]), pages),
        labels=np.searchsorted(np.quantile(traffic, _FIFTHS), traffic),
        name="chameleon",
    )
    return Dataset(graph, edges_listed=len(ends), public_split=None)


def _whole_numbers(table: bytes) -> np.ndarray:
    return np.loadtxt(io.BytesIO(table), dtype=np.int64, delimiter=",", skiprows=1, ndmin=2)


def _word_table(words_of: Mapping[str, list[int]], pages: int) -> sp.csr_array:
    """One column per word, 1 where a page has it."""
    page = np.repeat([int(number) for number in words_of], [len(words) for words in words_of.values()])
    word = np.concatenate([np.array(words, dtype=np.int64) for words in words_of.values()])
    table = sp.coo_array((np.ones(len(word), np.float32), (page, word)), shape=(pages, word.max() + 1)).tocsr()
    table.data[:] = 1
    return table
