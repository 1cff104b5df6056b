import numpy as np
import pytest
import scipy.sparse as sp
import torch

from mtgcn.graph import Graph
from mtgcn.methods import create
from mtgcn.methods.mt_plus.new_nodes import KEPT_STEPS, FittedInputs, NewInputs
from mtgcn.methods.mt_plus.views import Inputs, transferable, views_of

CPU = torch.device("cpu")


@pytest.mark.parametrize("weight", [1.0, 0.01])
def test_walks_follow_the_formula(make_graph, weight):
    """The formula of the module in dense matrices, also where weights have another unit."""
    base = make_graph(nodes=30, sparse=False, weighted=True)
    graph = Graph(base.adjacency * np.float32(weight), base.features)
    settings = create("mt-plus", dimensions=8, infomax_epochs=1)
    learned = Inputs(graph, settings, CPU)
    views_of(learned, transferable({}))
    to_known = np.zeros((2, 30))
    to_known[[0, 0, 1], [3, 7, 20]] = 0.5, 2, 1
    new = Graph(weight * np.array([[0, 1.5], [1.5, 0]]), graph.features[:2])
    inputs = NewInputs(
        FittedInputs(graph, settings, CPU, learned.parameters), new, sp.csr_array(weight * to_known, dtype=np.float32)
    )

    old, among = base.adjacency.toarray().astype(float), np.array([[0, 1.5], [1.5, 0]])
    degrees = 1 + old.sum(1)
    fitted = (old + np.eye(30)) / np.sqrt(np.outer(degrees, degrees))
    own = 1 + to_known.sum(1) + among.sum(1)
    from_new = (among + np.eye(2)) / np.sqrt(np.outer(own, own))
    from_fitted = to_known / np.sqrt(own[:, None] * (degrees + to_known))
    start = learned.reduced_features.numpy().astype(float)
    rows = torch.tensor([[1.0], [-2.0]]) @ torch.ones(1, start.shape[1])
    first = start @ learned.parameters["hops/basis"]
    hops = [(np.linalg.matrix_power(fitted, step) @ first, 1, 0.0) for step in range(max(settings.hop_steps))]
    near, far = (start, settings.near_steps, 0.0), (start, settings.far_steps, settings.far_restart)
    for start, steps, restart in (*hops, near, far):
        walk = [start]
        for _ in range(steps):
            walk.append((1 - restart) * fitted @ walk[-1] + restart * start)
        expected = rows.numpy().astype(float)
        for step in range(steps):
            known = walk[max(step, steps - KEPT_STEPS)]
            expected = (1 - restart) * (from_new @ expected + from_fitted @ known) + restart * rows.numpy()
        np.testing.assert_allclose(inputs.walk(rows, steps, restart), expected, atol=1e-5)
