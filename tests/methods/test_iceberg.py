import numpy as np
import torch
from torch.nn.functional import cross_entropy

from mtgcn.methods import create
from mtgcn.methods.iceberg import balanced_log_softmax, class_counts, pseudo_labels
from mtgcn.splits import draw_splits
from mtgcn.task import MISSING, Nodes, observe


def test_balanced_log_softmax_by_hand():
    logits = torch.tensor([2.0, 1.0, 0.0]).log().clamp(min=-30).view(1, 3, 1, 1)
    found = balanced_log_softmax(logits, torch.tensor([[1], [4], [0]])).exp().flatten()
    torch.testing.assert_close(found, torch.tensor([2 / 6, 4 / 6, 0.0]))  # 2 · 1, 1 · 4 and 0 · 0


def test_class_without_labels_gets_no_gradient():
    logits = torch.zeros(1, 3, 1, 1, requires_grad=True)
    balanced_log_softmax(logits, torch.tensor([[1], [3], [0]]))[0, 0].sum().backward()
    torch.testing.assert_close(logits.grad.flatten(), torch.tensor([0.75, -0.75, 0.0]))


def test_class_counts_ignore_padding():
    labelled = Nodes(torch.tensor([[5, 3, 8], [2, 7, MISSING]]), torch.tensor([[0, 2, 2], [1, 1, 0]]))
    assert class_counts(labelled, 3).tolist() == [[1, 0], [0, 2], [2, 0]]


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


def test_equals_plain_adam(make_graph, dense_propagation, weights_of, assert_trained_by_adam):
    graph = make_graph(weighted=True)
    task = observe(graph, draw_splits(graph, [3, 2, 1], runs=2, seed=0), seed=0)
    settings = {"dropout": 0, "weight_decay": 0.05, "learning_rate": 0.02, "hidden_channels": 8}
    settings |= {"warmup_epochs": 3, "epochs": 10}
    method = create("iceberg", **settings, steps=2, restart=0.3, self_training=0.6, feature_scaling="none")
    found, walk = method.fit(task), dense_propagation(graph)
    features = torch.from_numpy(graph.features.toarray().astype(np.float64))
    propagated = features
    for _ in range(2):
        propagated = 0.7 * walk @ propagated + 0.3 * features
    for run in range(2):
        weights = [part.requires_grad_() for part in weights_of(method.network(task), run, 0)]
        groups = [{"params": weights[:2], "weight_decay": 0.05}, {"params": weights[2:]}]
        nodes, classes = task.labelled.index[run], task.labelled.classes[run]
        unlabelled = torch.ones(len(walk), dtype=torch.bool)
        unlabelled[nodes] = False

        def logits(weights=weights):
            weight0, bias0, weight1, bias1 = weights
            return torch.relu(propagated @ weight0 + bias0) @ weight1 + bias1

        def losses(epoch, logits=logits, nodes=nodes, classes=classes, unlabelled=unlabelled):
            sure, predicted = logits().detach().softmax(1).max(1)
            chosen = unlabelled & (sure >= sure[unlabelled].mean())
            counts = [torch.bincount(some, minlength=3) for some in (classes, predicted[chosen])]
            supervised = cross_entropy(logits()[nodes] + counts[0].log(), classes)
            pseudo = 0.6 * cross_entropy(logits()[chosen] + counts[1].log(), predicted[chosen])
            taught = {"pseudo-label": pseudo, "pseudo labels": chosen.sum()} if epoch >= 3 else {}
            return {"supervised": supervised, **taught}

        assert_trained_by_adam(found, run, groups, 0.02, 13, losses, logits)
    assert np.isnan(found.history["pseudo-label"][:3]).all()
