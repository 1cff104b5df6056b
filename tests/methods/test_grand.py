import numpy as np
import pytest
import torch

from mtgcn.graph import Graph
from mtgcn.linalg.normalisation import normalized_adjacency
from mtgcn.linalg.operators import SparseOperator
from mtgcn.methods import create
from mtgcn.methods.grand import consistency_loss, mean_over_steps, sharpened
from mtgcn.splits import draw_splits
from mtgcn.task import observe


def test_mean_over_steps_by_hand():
    pair = SparseOperator(normalized_adjacency(Graph(np.array([[0, 1], [1, 0]]))), torch.device("cpu"), symmetric=True)
    found = mean_over_steps(torch.tensor([[1.0], [0.0]]), pair, steps=2)
    torch.testing.assert_close(found, torch.tensor([[2 / 3], [1 / 3]]))  # (1, 0), (½, ½) and (½, ½)


@pytest.mark.parametrize("temperature", [0.2, 1.0])
def test_sharpened_is_a_normalised_power(temperature):
    given = torch.tensor([[0.6, 0.3, 0.1]])
    power = given ** (1 / temperature)
    torch.testing.assert_close(sharpened(given.log(), temperature), power / power.sum())


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


def test_equals_plain_adam(make_graph, dense_propagation, dense_features, weights_of, assert_trained_by_adam):
    graph = make_graph(weighted=True)
    task = observe(graph, draw_splits(graph, [3, 2, 1], runs=2, seed=0), seed=0)
    settings = dict.fromkeys(("dropout", "input_dropout", "node_dropout"), 0)
    settings |= {"epochs": 12, "weight_decay": 0.05, "learning_rate": 0.05}
    method = create("grand", **settings, steps=3, consistency=0.7, temperature=0.4, feature_scaling="sum")
    found, walk = method.fit(task), dense_propagation(graph)
    eye = torch.eye(len(walk), dtype=torch.float64)
    propagated = (eye + walk + walk @ walk + walk @ walk @ walk) / 4 @ dense_features(graph)
    for run in range(2):
        weights = [part.requires_grad_() for part in weights_of(method.network(task), run, 0)]
        nodes, classes = task.labelled.index[run], task.labelled.classes[run]

        def logits(weights=weights):
            weight0, bias0, weight1, bias1 = weights
            return torch.relu(propagated @ weight0 + bias0) @ weight1 + bias1

        def losses(_, logits=logits, nodes=nodes, classes=classes):
            probabilities = logits().softmax(1)
            target = probabilities.detach() ** (1 / 0.4)
            target /= target.sum(1, keepdim=True)
            consistency = 0.7 * (probabilities - target).square().sum(1).mean()
            return {"supervised": -probabilities[nodes, classes].log().mean(), "consistency": consistency}

        groups = [{"params": weights, "weight_decay": 0.05}]
        assert_trained_by_adam(found, run, groups, 0.05, 12, losses, logits)
