"""What trained encoders make of nodes; tests/nn/test_infomax.py has how they are trained and kept."""

import numpy as np
import torch

from mtgcn.linalg.normalisation import normalized_adjacency
from mtgcn.nn.infomax import SLOPE, Propagation
from mtgcn.training.embeddings import encode


def test_embeddings_are_those_of_the_encoders_given_each_of_length_one(make_graph):
    graph = make_graph()
    random = np.random.default_rng(0)
    repeats, dimensions = 2, 3
    trained = {
        "weight": random.normal(size=(1, graph.num_features, repeats, dimensions)).astype(np.float32),
        "bias": random.normal(size=(1, repeats, dimensions)).astype(np.float32),
        "discriminator": np.zeros((1, repeats, dimensions, dimensions), dtype=np.float32),  # of training alone
    }
    found = encode(graph, Propagation("none", 1, 0.0), trained, torch.device("cpu"))
    smooth = normalized_adjacency(graph).toarray() @ graph.features.toarray()
    for repeat in range(repeats):
        values = smooth @ trained["weight"][0, :, repeat] + trained["bias"][0, repeat]
        values = np.where(values > 0, values, SLOPE * values)
        expected = values / np.linalg.norm(values, axis=1, keepdims=True) / np.sqrt(repeats)
        np.testing.assert_allclose(found[:, repeat * dimensions : (repeat + 1) * dimensions], expected, atol=1e-5)
    np.testing.assert_allclose(found.norm(dim=1), 1, rtol=1e-5)
