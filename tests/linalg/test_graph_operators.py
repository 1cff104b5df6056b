import numpy as np
import pytest
import torch

from mtgcn.linalg.graph_operators import graph_operators
from mtgcn.linalg.normalisation import normalized_adjacency

CPU = torch.device("cpu")


def numbers(*shape, seed=1):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


@pytest.mark.parametrize("sparse", [True, False])
def test_the_operators_of_a_graph_multiply_by_its_scaled_features_and_then_by_its_edges(make_graph, sparse):
    graph = make_graph(sparse=sparse, weighted=True)
    x = numbers(12, 2)
    for scaling in ("sum", "length", "sum"):  # the third time as remembered
        operators = graph_operators(graph, scaling, CPU)
        features = np.asarray(graph.features.toarray() if sparse else graph.features)
        size = features.sum(1) if scaling == "sum" else np.linalg.norm(features, axis=1)
        smoothed = normalized_adjacency(graph).toarray() @ (features / size[:, None])
        result = x
        for one in operators.input_chain:
            result = one(result)
        torch.testing.assert_close(result, torch.from_numpy(smoothed) @ x, atol=1e-5, rtol=1e-5)
