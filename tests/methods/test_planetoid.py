import numpy as np
import pytest
import torch

from mtgcn.graph import Graph
from mtgcn.methods import create, planetoid
from mtgcn.splits import Split, draw_splits
from mtgcn.task import observe


@pytest.fixture
def task(make_graph):
    """Runs with six and with four labels."""
    splits = [Split([0, 1, 2, 3, 4, 5], [], [10]), Split([12, 8, 10, 20], [], [11])]
    return observe(make_graph(unreached=True), splits, seed=3)


def test_contexts_of_walks_by_hand():
    # Two walks of three nodes in the first run, with node 4 in both; in the second run, back and forth.
    walks = torch.tensor([[[4, 7, 2], [9, 4, 9]], [[1, 3, 1], [3, 1, 3]]])
    batch, pairs = planetoid.walk_contexts(walks, window=1, num_nodes=10)
    assert batch.tolist() == [[2, 4, 7, 9], [1, 3, 10, 10]]
    # Itself at every visit, and who stands next to it on either side.
    assert pairs[0].tolist() == [[1, 0, 1, 0], [0, 2, 1, 2], [1, 1, 1, 0], [0, 2, 0, 2]]
    assert pairs[1].tolist() == [[3, 4, 0, 0], [4, 3, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]


def test_window_limits_contexts():
    _, pairs = planetoid.walk_contexts(torch.arange(6).view(1, 1, 6), window=2, num_nodes=6)
    apart = (torch.arange(6)[:, None] - torch.arange(6)).abs()
    assert torch.equal(pairs[0], (apart <= 2).float())


def test_walks_start_at_every_node_with_edges(task):
    adjacency = task.graph.adjacency.toarray()
    linked = np.flatnonzero(adjacency.sum(1))
    batches = list(planetoid.batches_of_walks(task, per_node=3, steps=4, at_once=7))
    assert all(one.shape[1] <= 7 for one in batches)
    walks = torch.cat(batches, 1).numpy()
    assert walks.shape == (2, 3 * len(linked), 5)
    for run in range(2):
        assert sorted(walks[run, :, 0]) == sorted(np.tile(linked, 3))
        assert (adjacency[walks[run, :, :-1], walks[run, :, 1:]] > 0).all()


def test_label_pairs_are_uniform_within_a_class():
    classes = np.array([1, 0, 1, 2, 2, 2])  # class 2 of two classes: padding
    pairs = planetoid.same_class_pairs(classes, 30_000, np.random.default_rng(0), num_classes=2)
    # Three places are drawn alike; the one of class 0 only has itself.
    expected = np.zeros((6, 6))
    expected[1, 1] = 10_000
    expected[[0, 0, 2, 2], [0, 2, 0, 2]] = 5_000
    np.testing.assert_allclose(pairs, expected, atol=5 * np.sqrt(10_000))
    assert pairs.sum() == 30_000


def test_number_of_label_pairs(task):
    batches = list(planetoid.label_contexts(task, batches=3, pairs_per_label=4))
    assert len(batches) == 3
    for nodes, pairs in batches:
        assert nodes[0].tolist() == [0, 1, 2, 3, 4, 5]
        assert nodes[1].tolist() == [12, 8, 10, 20, 40, 40]
        assert pairs.sum((1, 2)).tolist() == [24, 16]
        classes = task.labelled.classes
        same = classes[:, :, None] == classes[:, None]
        assert (pairs[~same] == 0).all()


def test_context_step_equals_gradient_descent(task):
    model = planetoid.ContextModel(task, size=4, others=1000, learning_rate=0.3)
    model.context *= 10  # so that the softmax is not almost even
    model.table *= 100
    before = [part.clone().double() for part in (model.table, model.context, model.bias)]
    nodes, pairs = next(planetoid.label_contexts(task, batches=1, pairs_per_label=5))
    model.step(nodes, pairs)
    for run, count in enumerate((6, 4)):
        table, context, bias = (part[run, :40].clone().requires_grad_() for part in before)
        log_probabilities = (table @ context.T + bias).log_softmax(1)
        batch = nodes[run, :count]
        loss = -(pairs[run, :count, :count] * log_probabilities[batch][:, batch]).sum()
        loss.backward()
        for found, part in zip((model.table, model.context, model.bias), (table, context, bias), strict=True):
            torch.testing.assert_close(found[run, :40].double(), part - 0.3 * part.grad, atol=1e-5, rtol=1e-4)


def test_a_few_others_stand_for_all_the_rest(task):
    model = planetoid.ContextModel(task, size=4, others=15, learning_rate=0)
    batch = torch.tensor([[0, 1, 2, 3, 4, 5], [12, 8, 10, 20, 40, 40]])
    seen = np.zeros((2, 41))
    for _ in range(400):
        softmax_over, log_share = model._softmax_over(batch)
        # However few were drawn, together they weigh as much as all nodes: 40.
        np.testing.assert_allclose(log_share.exp().sum(1), 40, rtol=1e-5)
        for run in range(2):
            np.add.at(seen[run], softmax_over[run].numpy(), log_share[run].exp().numpy())
    # On average every node stands for itself alone; 400 draws of about half of them leave 5 % of doubt.
    np.testing.assert_allclose(seen[:, :40] / 400, 1, atol=0.3)
    assert (seen[:, 40] == 0).all()


def test_classifier_equals_gradient_descent(task):
    table = torch.randn(2, 41, 4, generator=torch.Generator().manual_seed(0))
    classifier = planetoid.Classifier(task, table, row_square=5.0)
    features = task.graph.features.toarray().astype(np.float64)
    features = torch.from_numpy(features * np.sqrt(5.0 / (features**2).sum(1).mean()))
    names = ("from_embedding", "from_features", "from_both")
    starts = [[part.detach().clone().double() for part in getattr(classifier, name)] for name in names]
    history = classifier.train(epochs=5, learning_rate=0.2)
    found = classifier.probabilities()
    for run, count in enumerate((6, 4)):
        nodes, classes = task.labelled.index[run, :count], task.labelled.classes[run, :count]
        layers = [(weight[:, run].clone(), bias[run].clone()) for weight, bias in starts]
        embedding = table[run, :40].double().clone()
        parameters = [embedding, *(part for layer in layers for part in layer)]
        optimizer = torch.optim.SGD([part.requires_grad_() for part in parameters], lr=0.2)

        def outputs(layers=layers, embedding=embedding):
            (weight_e, bias_e), (weight_x, bias_x), (weight, bias) = layers
            by_embedding, by_features = embedding @ weight_e + bias_e, features @ weight_x + bias_x
            both = torch.cat([by_features.softmax(1), by_embedding.softmax(1)], 1)
            return by_embedding, by_features, both @ weight + bias

        for epoch in range(5):
            loss = sum(torch.nn.functional.cross_entropy(logits[nodes], classes) for logits in outputs())
            assert history[epoch, run, 0] == pytest.approx(loss.item(), rel=1e-4)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        np.testing.assert_allclose(found[run], outputs()[-1].softmax(1).detach(), atol=1e-5)


@pytest.mark.slow
def test_edges_alone_tell_blocks_apart(make_graph):
    graph = make_graph(nodes=90, classes=2)
    bare = Graph(graph.adjacency, np.ones((90, 1)), graph.labels)
    splits = draw_splits(bare, 5, runs=2, seed=0)
    probabilities = create("planetoid").fit(observe(bare, splits, seed=0)).probabilities
    right = [probabilities[run, split.test].argmax(1) == bare.labels[split.test] for run, split in enumerate(splits)]
    assert np.mean(right) > 0.7  # a guess is right in half of 160 cases, give or take 0.04
