"""Networks as formulas for one model, written densely and in doubles."""

import numpy as np
import torch


def mlp(rows, weight0, bias0, weight1, bias1):
    return torch.relu(rows @ weight0 + bias0) @ weight1 + bias1


def gcn(graph, propagation, features, weight0, bias0, weight1, bias1):
    return propagation @ torch.relu(propagation @ features @ weight0 + bias0) @ weight1 + bias1


def appnp(graph, propagation, features, **weights):
    place = start = mlp(features, **weights)
    for _ in range(10):
        place = 0.9 * propagation @ place + 0.1 * start
    return place


def chebyshev(degree):
    def logits(graph, propagation, features, weight0, bias0, weight1, bias1):
        polynomials = chebyshev_polynomials(graph, degree)

        def layer(inputs, weight):
            parts = weight.chunk(degree + 1, 1)
            return sum(one @ inputs @ part for one, part in zip(polynomials, parts, strict=True))

        return layer(torch.relu(layer(features, weight0) + bias0), weight1) + bias1

    return logits


def chebyshev_polynomials(graph, degree):
    """T_0 … T_degree of 2 L / λ - I."""
    adjacency = graph.adjacency.toarray().astype(np.float64)
    scale = np.array([1 / np.sqrt(one) if one else 0 for one in adjacency.sum(1)])
    laplacian = np.eye(len(scale)) - scale[:, None] * adjacency * scale
    scaled = torch.from_numpy(2 * laplacian / np.linalg.eigvalsh(laplacian).max() - np.eye(len(scale)))
    polynomials = [torch.eye(len(scale), dtype=torch.float64), scaled]
    while len(polynomials) <= degree:
        polynomials.append(2 * scaled @ polynomials[-1] - polynomials[-2])
    return polynomials[: degree + 1]


def model_parameters(network, run, peer, *, gradient=False):
    """Copies of one model's parameters, or of their gradients, in doubles."""
    values = {name: getattr(network, name) for name in network._run_axis}
    return {
        name: (value.grad if gradient else value.detach())
        .select(network._run_axis[name], run)
        .select(network._run_axis[name], peer)
        .double()
        .clone()
        for name, value in values.items()
    }
