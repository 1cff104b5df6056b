"""gcn, chebyshev, appnp, gcnii, grand, iceberg and krylov: networks trained on labels, with and without validation."""

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, normalize

from dense_networks import appnp, chebyshev, gcn, mlp, model_parameters
from mtgcn.errors import InputError
from mtgcn.methods import METHODS, create
from mtgcn.methods.grand import consistency_loss
from mtgcn.methods.iceberg import balanced_log_softmax, balanced_loss, pseudo_labels
from mtgcn.nn.networks import APPNP
from mtgcn.splits import draw_splits
from mtgcn.task import observe

# One model, written densely and in doubles.


def gcnii(graph, walk, features, weight0, bias0, weight1, bias1, weights):
    hidden = first = torch.relu(features @ weight0 + bias0)
    for number, weight in enumerate(weights, start=1):
        beta = math.log(0.5 / number + 1)
        mixed = 0.9 * walk @ hidden + 0.1 * first
        hidden = torch.relu((1 - beta) * mixed + beta * mixed @ weight)
    return hidden @ weight1 + bias1


def grand(graph, walk, features, **weights):
    return mlp((features + walk @ (features + walk @ (features + walk @ features))) / 4, **weights)


def iceberg(graph, walk, features, **weights):
    return mlp(0.7 * walk @ (0.7 * walk @ features + 0.3 * features) + 0.3 * features, **weights)


def supervised(epoch, logits, nodes, classes):
    return {"supervised": cross_entropy(logits[nodes], classes)}


def grand_losses(epoch, logits, nodes, classes):
    probabilities = logits.softmax(1)
    target = probabilities.detach() ** (1 / 0.4)
    target /= target.sum(1, keepdim=True)
    consistency = 0.7 * (probabilities - target).square().sum(1).mean()
    return {**supervised(epoch, logits, nodes, classes), "consistency": consistency}


def iceberg_losses(epoch, logits, nodes, classes):
    unlabelled = torch.ones(len(logits), dtype=torch.bool).index_fill(0, nodes, False)
    sure, predicted = logits.detach().softmax(1).max(1)
    chosen = unlabelled & (sure >= sure[unlabelled].mean())
    counts = [torch.bincount(some, minlength=3) for some in (classes, predicted[chosen])]
    losses = {"supervised": cross_entropy(logits[nodes] + counts[0].log(), classes)}
    if epoch >= 3:
        losses["pseudo-label"] = 0.6 * cross_entropy(logits[chosen] + counts[1].log(), predicted[chosen])
        losses["pseudo labels"] = chosen.sum()
    return losses


FIRST_LAYER = dict.fromkeys(("weight0", "bias0"), 0.05)
ALL = FIRST_LAYER | dict.fromkeys(("weight1", "bias1"), 0.05)
GCNII = {"layers": 3, "hidden_channels": 8, "layer_decay": 0.2, "learning_rate": 0.02}
GRAND = {"node_dropout": 0, "steps": 3, "consistency": 0.7, "temperature": 0.4}
ICEBERG = {"steps": 2, "restart": 0.3, "self_training": 0.6, "hidden_channels": 8, "warmup_epochs": 3}


@pytest.mark.parametrize(
    ("name", "formula", "settings", "decays", "losses"),
    [
        ("gcn", gcn, {}, ALL, supervised),
        ("gcn", gcn, {"decay_on": "first-layer"}, FIRST_LAYER, supervised),
        ("gcn", gcn, {"bias": False}, ALL, supervised),
        ("chebyshev", chebyshev(2), {}, ALL, supervised),
        ("appnp", appnp, {}, FIRST_LAYER, supervised),
        ("gcnii", gcnii, GCNII, ALL | {"weights": 0.2}, supervised),
        ("grand", grand, GRAND, ALL, grand_losses),
        ("iceberg", iceberg, ICEBERG, FIRST_LAYER, iceberg_losses),
    ],
)
def test_equals_plain_adam(make_graph, dense_propagation, dense_features, name, formula, settings, decays, losses):
    graph = make_graph(weighted=True)
    task = observe(graph, draw_splits(graph, [3, 2, 1], runs=2, seed=0), seed=0)
    usual = {"epochs": 12, "dropout": 0, "input_dropout": 0, "weight_decay": 0.05, "learning_rate": 0.05}
    method = create(name, feature_scaling="sum", **usual | settings)
    found, walk, features = method.fit(task), dense_propagation(graph), dense_features(graph)
    for run in range(2):
        network = method.network(task)
        weights = model_parameters(network, run, 0)
        trained = [key for key, _ in network.named_parameters()]
        groups = [{"params": weights[key].requires_grad_(), "weight_decay": decays.get(key, 0)} for key in trained]
        optimizer = torch.optim.Adam(groups, lr=method.learning_rate)
        for epoch in range(len(found.history["supervised"])):
            logits = formula(graph, walk, features, **weights)
            values = losses(epoch, logits, task.labelled.index[run], task.labelled.classes[run])
            for key, value in values.items():
                np.testing.assert_allclose(found.history[key][epoch, run, 0], value.item(), rtol=1e-3)
            optimizer.zero_grad()
            sum(value for value in values.values() if value.requires_grad).backward()
            optimizer.step()
        expected = formula(graph, walk, features, **weights).softmax(1).detach()
        np.testing.assert_allclose(found.probabilities[run], expected, atol=1e-4)
    assert np.isnan(found.history.get("pseudo-label", np.full(3, np.nan))[:3]).all()  # the warm-up of iceberg


# Validation


@pytest.mark.slow
def test_validation_chooses_the_epoch(make_graph):
    graph = make_graph(nodes=60, features=20, seed=1)
    task = observe(graph, draw_splits(graph, 1, runs=4, seed=0, validation=12), seed=0, with_validation=True)
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
def test_missing_validation_is_refused(two_runs, name):
    with pytest.raises(InputError, match="validation"):
        create(name, epochs=1).fit(two_runs)


def test_padding_of_validation_nodes_is_ignored(make_graph):
    graph = make_graph(nodes=60, features=20, seed=1)
    short, long = (draw_splits(graph, 1, runs=2, seed=0, validation=number) for number in (3, 9))
    method = create("gcn+v", epochs=25, learning_rate=0.1)
    found, first, second = (
        method.fit(observe(graph, splits, seed=0, with_validation=True)).probabilities
        for splits in ([short[0], long[1]], short, long)
    )
    np.testing.assert_allclose(found, [first[0], second[1]], atol=1e-6)


def test_appnp_has_the_papers_defaults():
    method = create("appnp")
    assert (method.hidden_channels, method.dropout, method.learning_rate) == (64, 0.5, 0.01)
    assert (method.weight_decay, method.decay_on, method.bias, method.init) == (5e-3, "first-layer", False, "glorot")
    assert (APPNP.STEPS, APPNP.RESTART) == (10, 0.1)


# GCNII


def test_gradient_reaches_every_layer_of_a_deep_network(two_runs):
    method = create("gcnii", layers=64)
    network = method.network(two_runs).train()
    network.new_epoch()
    method.step(network, two_runs).losses["supervised"].sum().backward()
    for parameter in network.parameters():
        assert parameter.grad.isfinite().all()
    of_layers = network.weights.grad.flatten(2).norm(dim=-1)  # layers, runs
    assert (of_layers > 0).all()
    assert of_layers.max() < 1e4 * of_layers.min()


def test_gcnii_dropout_differs_between_layers_and_keeps_the_mean(two_runs):
    settings = {"hidden_channels": 2000, "layers": 2, "identity": 0.0, "restart": 0.0, "dropout": 0.5}
    network = create("gcnii", **settings).network(two_runs)
    with torch.no_grad():
        network.weight0.zero_()
        network.bias0.fill_(1.0)
        network.weight1.fill_(1 / 2000)
        network.bias1.zero_()
        network.new_epoch()
        kept = network.dropout.kept(torch.arange(two_runs.num_nodes)).unflatten(-1, (3, -1))
        dropped, whole = network.train().logits(), network.eval().logits()
    for layer in range(3):
        assert 0.45 < (kept[:, :, layer] == kept[:, :, (layer + 1) % 3]).float().mean() < 0.55
    assert dropped.mean() == pytest.approx(whole.mean().item(), rel=0.02)


# GRAND


def test_consistency_loss_by_hand():
    samples = torch.tensor([[0.9, 0.6], [0.1, 0.4]])  # classes, samples; the mean is (¾, ¼), sharpened (0.9, 0.1)
    log_probabilities = samples.log()[None, :, None].requires_grad_()
    loss = consistency_loss(log_probabilities, temperature=0.5)
    assert loss.item() == pytest.approx((0 + 2 * 0.3**2) / 2)
    loss.sum().backward()
    expected = samples * (samples - torch.tensor([[0.9], [0.1]]))  # no gradient flows to the mean
    torch.testing.assert_close(log_probabilities.grad[0, :, 0], expected)


@pytest.mark.parametrize("rate", [0.5, 0.3])
def test_node_dropout_keeps_the_mean(two_runs, rate):
    samples = 4000
    settings = {"dropout": 0.0, "input_dropout": 0.0, "node_dropout": rate, "hidden_channels": 3}
    network = create("grand", **settings, samples=samples).network(two_runs)
    with torch.no_grad():
        network.bias0.fill_(10.0)  # ReLU changes nothing
        network.new_epoch()
        drawn, expected = network.train().logits(), network.eval().logits()
    assert drawn.shape == (*expected.shape[:-1], samples)
    assert drawn.std(-1).min() > 1e-3
    error = drawn.std(-1) / samples**0.5
    assert ((drawn.mean(-1) - expected[..., 0]).abs() < 5 * error).all()


def test_samples_drop_other_nodes(two_runs):
    network = create("grand", dropout=0.0, input_dropout=0.0, steps=0, samples=64, hidden_channels=9).network(two_runs)
    with torch.no_grad():
        network.new_epoch()
        dropped = (network.train().logits() == 0).all(1)  # without propagation and bias; nodes, runs, samples
    assert 0.45 < dropped.float().mean() < 0.55
    assert len(dropped.flatten(0, 1).T.unique(dim=0)) == 64
    assert not torch.equal(dropped[:, 0], dropped[:, 1])


# IceBerg


def test_class_without_labels_gets_no_gradient():
    logits = torch.zeros(1, 3, 1, 1, requires_grad=True)
    balanced_log_softmax(logits, torch.tensor([[1], [3], [0]]))[0, 0].sum().backward()
    torch.testing.assert_close(logits.grad.flatten(), torch.tensor([0.75, -0.75, 0.0]))


def test_class_counts_ignore_padding(two_runs):
    logits = torch.zeros(6, 3, 2, 1)
    found = balanced_loss(logits, two_runs)[:, 0]  # two labels of each class; and 1, 1 and 2
    torch.testing.assert_close(found, torch.tensor([3.0, 2**1.5]).log())


def test_pseudo_labels_by_hand():
    probabilities = torch.tensor([[0.99, 0.01], [0.9, 0.1], [0.45, 0.55], [0.2, 0.8], [0.5, 0.5]])
    logits = torch.stack([probabilities.log(), torch.zeros(5, 2)], -1)  # the second run knows nothing
    labelled = torch.zeros(5, 2, dtype=torch.bool)
    labelled[0] = True
    found = pseudo_labels(logits, labelled)
    # The mean over unlabelled nodes is (0.9 + 0.55 + 0.8 + 0.5) / 4 = 0.6875.
    assert found[..., 0].nonzero().tolist() == [[1, 0], [3, 1]]
    assert found[..., 1].nonzero().tolist() == [[1, 0], [2, 0], [3, 0], [4, 0]]  # not below the mean


def test_features_propagated_once_or_in_every_epoch(two_runs):
    once, each = (create("iceberg", input_dropout=rate).network(two_runs) for rate in (0.0, 0.3))
    assert (once.steps, each.steps) == (0, 20)
    torch.testing.assert_close(each.eval().logits(), once.eval().logits())


# Krylov


def test_krylov_equals_the_formula(make_graph, dense_propagation):
    graph = make_graph(nodes=60, weighted=True, unreached=True)
    task = observe(graph, draw_splits(graph, 2, runs=1, seed=0), seed=0)
    found = create("krylov", degree=3, epochs=20).fit(task)
    features = normalize(torch.from_numpy(graph.features.toarray()).double())
    powers = [dense_propagation(graph).matrix_power(k) for k in range(4)]
    rows = torch.cat([normalize(power @ features) for power in powers], 1).numpy()
    trained = {name: values[0] for name, values in found.parameters.items() if name != "basis"}
    hidden = np.maximum(rows @ trained["weight0"][:, 0] + trained["bias0"], 0)
    scores = np.exp(hidden @ trained["weight1"][0] + trained["bias1"][:, 0])
    np.testing.assert_allclose(found.probabilities[0], scores / scores.sum(1, keepdims=True), atol=1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_krylov_logits_at_some_nodes(two_runs, training):
    network = create("krylov", degree=2, hidden_channels=4).network(two_runs).train(training)
    network.new_epoch()
    everywhere, index = network.logits(), two_runs.labelled.index
    found = network.logits_at(index)
    for run, nodes in enumerate(index):
        present = nodes >= 0
        torch.testing.assert_close(found[present, :, run], everywhere[nodes[present], :, run])
    assert (not training) or not torch.allclose(everywhere, network.eval().logits())


def test_memory_of_krylov_grows_with_the_network(two_runs):
    sizes = [create("krylov", **{key: 200}).bytes_per_run(two_runs) for key in ("degree", "hidden_channels")]
    assert min(sizes) > create("krylov").bytes_per_run(two_runs)
    assert create("krylov", degree=20).shared_bytes(two_runs) > create("krylov").shared_bytes(two_runs)
