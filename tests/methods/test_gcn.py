"""gcn, gcn+v, chebyshev and appnp: networks trained on labels alone."""

import numpy as np
import pytest
from torch.nn.functional import cross_entropy

from mtgcn.errors import InputError
from mtgcn.methods import METHODS, create
from mtgcn.nn.networks import APPNP, GCN
from mtgcn.splits import draw_splits
from mtgcn.task import observe


@pytest.fixture
def task(make_graph):
    graph = make_graph(nodes=60, features=20, seed=1)
    return observe(graph, draw_splits(graph, 1, runs=4, seed=0, validation=12), seed=0, with_validation=True)


@pytest.mark.parametrize(("decay", "bias"), [("all", True), ("first-layer", True), ("all", False)])
def test_gcn_equals_plain_adam(
    make_graph, dense_propagation, dense_features, dense_logits, weights_of, assert_trained_by_adam, decay, bias
):
    graph = make_graph(weighted=True)
    task = observe(graph, draw_splits(graph, [3, 2, 1], runs=2, seed=0), seed=0)
    method = create("gcn", epochs=15, dropout=0, decay_on=decay, bias=bias, weight_decay=0.05, learning_rate=0.05)
    found = method.fit(task)
    propagation, features = dense_propagation(graph), dense_features(graph)
    for run in range(2):
        weights = [part.requires_grad_() for part in weights_of(GCN(task, 1, method), run, 0)]
        trained = weights if bias else weights[::2]
        decayed = trained if decay == "all" else weights[:2]
        groups = [
            {"params": decayed, "weight_decay": 0.05},
            {"params": [one for one in trained if all(one is not other for other in decayed)]},
        ]
        nodes, classes = task.labelled.index[run], task.labelled.classes[run]

        def logits(weights=weights):
            return dense_logits(propagation, features, weights)

        def losses(_, logits=logits, nodes=nodes, classes=classes):
            return {"supervised": cross_entropy(logits()[nodes], classes)}

        used = [group for group in groups if group["params"]]
        assert_trained_by_adam(found, run, used, 0.05, 15, losses, logits)


@pytest.mark.slow
def test_validation_chooses_the_epoch(task):
    # `gcn` with fewer epochs gives the state of `gcn+v` after those epochs.
    epochs = 40
    answers = [create("gcn", epochs=epoch, learning_rate=0.1).fit(task).probabilities for epoch in range(1, epochs + 1)]
    found = create("gcn+v", epochs=epochs, learning_rate=0.1).fit(task).probabilities
    best_epochs = []
    for run in range(task.runs):
        nodes, classes = task.validation.index[run].numpy(), task.validation.classes[run].numpy()

        def score(epoch, run=run, nodes=nodes, classes=classes):
            probabilities = answers[epoch][run, nodes]
            right = int((probabilities.argmax(1) == classes).sum())
            return right, np.log(probabilities[np.arange(len(nodes)), classes]).mean()  # of equals, the smallest loss

        best = max(range(epochs), key=score)
        best_epochs.append(best)
        np.testing.assert_allclose(found[run], answers[best][run], atol=1e-6)
    # The test would show nothing if the last epoch were always the best, or one epoch for all.
    assert len(set(best_epochs)) > 1
    assert epochs - 1 not in best_epochs


@pytest.mark.parametrize("name", [name for name in METHODS if name.endswith("+v")])
def test_missing_validation_is_refused(make_graph, name):
    graph = make_graph()
    task = observe(graph, draw_splits(graph, 1, runs=1, seed=0), seed=0)
    with pytest.raises(InputError, match="validation"):
        create(name, epochs=1).fit(task)


def test_padding_of_validation_nodes_is_ignored(make_graph):
    graph = make_graph(nodes=60, features=20, seed=1)
    short, long = (draw_splits(graph, 1, runs=2, seed=0, validation=number) for number in (3, 9))
    method = create("gcn+v", epochs=25, learning_rate=0.1)
    mixed = observe(graph, [short[0], long[1]], seed=0, with_validation=True)
    first = observe(graph, short, seed=0, with_validation=True)
    second = observe(graph, long, seed=0, with_validation=True)
    found = method.fit(mixed).probabilities
    np.testing.assert_allclose(found[0], method.fit(first).probabilities[0], atol=1e-6)
    np.testing.assert_allclose(found[1], method.fit(second).probabilities[1], atol=1e-6)


@pytest.mark.parametrize(("name", "decayed"), [("chebyshev", "all"), ("appnp", "first-layer")])
def test_chebyshev_and_appnp_equal_plain_adam(name, decayed, make_graph, assert_trained_by_adam):
    graph = make_graph(weighted=True)
    task = observe(graph, draw_splits(graph, [3, 2, 1], runs=2, seed=0), seed=0)
    method = create(name, epochs=12, dropout=0, weight_decay=0.05, learning_rate=0.05)
    found = method.fit(task)
    # Tests of nn compare the stack with dense matrices; here every run trains its own.
    for run, alone in enumerate(task.chunks(1)):
        network = method.network(alone)
        parameters = dict(network.named_parameters())
        first = [*parameters] if decayed == "all" else ["weight0"]
        groups = [
            {"params": [parameters[key] for key in first], "weight_decay": 0.05},
            {"params": [values for key, values in parameters.items() if key not in first]},
        ]
        nodes, classes = alone.labelled.index[0], alone.labelled.classes[0]

        def logits(network=network):
            return network.logits()[..., 0, 0]

        def losses(_, logits=logits, nodes=nodes, classes=classes):
            return {"supervised": cross_entropy(logits()[nodes], classes)}

        used = [group for group in groups if group["params"]]
        assert_trained_by_adam(found, run, used, 0.05, 12, losses, logits)


def test_appnp_has_the_papers_defaults():
    method = create("appnp")
    assert (method.hidden_channels, method.dropout, method.learning_rate) == (64, 0.5, 0.01)
    assert (method.weight_decay, method.decay_on, method.bias, method.init) == (5e-3, "first-layer", False, "glorot")
    assert (APPNP.STEPS, APPNP.RESTART) == (10, 0.1)
