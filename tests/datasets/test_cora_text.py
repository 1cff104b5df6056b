"""Cora is the same graph, node by node, whichever of its two forms it was read from."""

import numpy as np
import pytest

from mtgcn.datasets import cora_text, planetoid


@pytest.mark.data
def test_both_forms_give_the_same_dataset(real_files: dict[str, bytes], real_text_files: dict[str, bytes]) -> None:
    pickled = planetoid.read("cora", real_files, cora_text.CLASS_NAMES)
    text = cora_text.read(real_text_files)
    for matrix in ("adjacency", "features"):
        one, other = getattr(pickled.graph, matrix), getattr(text.graph, matrix)
        assert one.shape == other.shape
        for part in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(one, part), getattr(other, part))
    for array in ("labels", "node_ids"):
        np.testing.assert_array_equal(getattr(pickled.graph, array), getattr(text.graph, array))
    assert pickled.graph.class_names == text.graph.class_names
    assert pickled.edges_listed == text.edges_listed == 5429
    assert pickled.public_split is not None
    assert text.public_split is not None
    for nodes in ("train", "validation", "test"):
        np.testing.assert_array_equal(getattr(pickled.public_split, nodes), getattr(text.public_split, nodes))


def test_the_order_lists_every_paper_once() -> None:
    papers = cora_text.planetoid_order()
    assert len(papers) == len(set(papers)) == 2708
