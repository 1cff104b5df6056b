import numpy as np
import pytest
import torch

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.linalg.graph_operators import ResidentOperators, graph_operators
from mtgcn.linalg.normalisation import normalized_adjacency

CPU = torch.device("cpu")


def numbers(*shape, seed=1):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


@pytest.mark.parametrize("sparse", [True, False])
def test_input_chain_matches_dense(make_graph, sparse):
    graph = make_graph(sparse=sparse, weighted=True)
    x = numbers(12, 2)
    for scaling in ("sum", "length", "sum"):  # the third is cached
        operators = graph_operators(graph, scaling, CPU)
        features = np.asarray(graph.features.toarray() if sparse else graph.features)
        size = features.sum(1) if scaling == "sum" else np.linalg.norm(features, axis=1)
        smoothed = normalized_adjacency(graph).toarray() @ (features / size[:, None])
        result = x
        for one in operators.input_chain:
            result = one(result)
        torch.testing.assert_close(result, torch.from_numpy(smoothed) @ x, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("scaling", ["sum", "length", "none"])
@pytest.mark.parametrize("sparse", [True, False])
def test_resident_operators_match(make_graph, sparse, scaling):
    # Computed as on a device; here the device is the CPU.
    graph = make_graph(sparse=sparse, weighted=True, unreached=True)
    x, made, usual = numbers(12, 2), ResidentOperators(graph, scaling, CPU), graph_operators(graph, scaling, CPU)
    assert type(usual) is not ResidentOperators
    torch.testing.assert_close(made.feature_operator()(x), usual.feature_operator()(x))
    along = numbers(40, 3)
    torch.testing.assert_close(made.adjacency(along), usual.adjacency(along))
    for one, other in zip(made.input_chain, usual.input_chain, strict=True):
        x, expected = one(x), other(x)
        torch.testing.assert_close(x, expected)
    dense = (features.toarray() if sparse else features for features in (made.features, usual.features))
    np.testing.assert_array_equal(*dense)


def test_features_are_required():
    path = Graph(np.array([[0, 1], [1, 0]]))
    for make in (ResidentOperators, graph_operators):
        with pytest.raises(InputError, match="needs node features"):
            make(path, "sum", CPU)
