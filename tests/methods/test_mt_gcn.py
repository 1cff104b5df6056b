import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch

from mtgcn.datasets import load
from mtgcn.errors import InputError
from mtgcn.methods import create
from mtgcn.nn import backbones
from mtgcn.nn.gcn import GCN
from mtgcn.splits import draw_splits
from mtgcn.task import observe

# Features and steps large enough for the peers to be sure of something within a few epochs.
QUICK = {"warmup_epochs": 8, "teaching_epochs": 8, "per_class": 4, "learning_rate": 0.05, "dropout": 0.0}

OPTIONS = [
    {"supervised_reduction": "sum"},
    {"consistency_reduction": "sum"},
    {"certainty_of": "learner"},
    {"teacher_gradient": True},
    {"one_more_per_class": True},
    {"pseudo_labels": False},
    {"consistency": False},
    {"mutual": False},
    {"decay_on": "first-layer", "weight_decay": 0.05},
    {"peers": 3},
]


@dataclass
class Reference:
    """What one run of MT-GCN comes to."""

    weights: list  # of each peer
    probabilities: list = field(default_factory=list)  # of each peer, at the end
    history: list = field(default_factory=list)  # of each epoch: name -> one value per peer
    pseudo_labelled_at: dict = field(default_factory=dict)  # node -> epoch


@pytest.fixture
def reference(dense_propagation, dense_features, dense_logits, algorithm_1):
    """Algorithm 2 for one run, without dropout: dense matrices in doubles, plain loops, one Adam per peer."""

    def fit(graph, nodes, classes, weights, settings):
        propagation, features = dense_propagation(graph), dense_features(graph)
        result = Reference(weights)
        peers = range(len(weights))
        for parts in weights:
            for part in parts:
                part.requires_grad_()
        optimizers = [adam(parts, settings) for parts in weights]
        unlabelled = set(range(graph.num_nodes)) - set(nodes)
        per_class = settings.per_class + settings.one_more_per_class

        def forward():
            return [dense_logits(propagation, features, parts).log_softmax(1) for parts in weights]

        for epoch in range(1, settings.warmup_epochs + settings.teaching_epochs + 1):
            log_p = forward()  # of all peers, before any of them is updated
            notes = {}
            told = [-sum(log_p[g][node, number] for node, number in zip(nodes, classes, strict=True)) for g in peers]
            scale = 1 if settings.supervised_reduction == "sum" else len(nodes)
            notes["supervised"] = [loss / scale for loss in told]
            if epoch > settings.warmup_epochs:
                predicted = [one.argmax(1).tolist() for one in log_p]
                confidence = [one.detach().exp().amax(1).tolist() for one in log_p]
                chosen = [
                    algorithm_1(confidence[g], predicted[g], unlabelled, graph.num_classes, per_class) for g in peers
                ]
                pairs = [[(node, j) for j, row in enumerate(chosen[g]) for node in row] for g in peers]
                for node, _ in (pair for one in pairs for pair in one):
                    result.pseudo_labelled_at.setdefault(node, epoch)
                teachers = [(g + 1) % len(weights) if settings.mutual else g for g in peers]
                if settings.pseudo_labels:
                    notes["pseudo-label"] = [
                        pseudo_label_term(log_p[g], log_p[teacher], pairs[teacher], settings)
                        for g, teacher in zip(peers, teachers, strict=True)
                    ]
                if settings.consistency:
                    notes["consistency"] = [
                        consistency_term(log_p[g], log_p[teacher], pairs[teacher], settings)
                        for g, teacher in zip(peers, teachers, strict=True)
                    ]
            total = sum(loss for values in notes.values() for loss in values)
            for optimizer in optimizers:
                optimizer.zero_grad()
            total.backward()
            for optimizer in optimizers:
                optimizer.step()
            if epoch > settings.warmup_epochs:
                notes["pseudo labels"] = [len(pairs[teacher]) for teacher in teachers]
                notes["agreement"] = [
                    sum(predicted[g][node] == number for node, number in pairs[teacher]) / len(pairs[teacher])
                    for g, teacher in zip(peers, teachers, strict=True)
                ]
            result.history.append({name: [plain(value) for value in values] for name, values in notes.items()})
        result.probabilities = [one.detach().exp().numpy() for one in forward()]
        return result

    return fit


def plain(value):
    return value.item() if isinstance(value, torch.Tensor) else value


def adam(parts, settings):
    decayed = parts if settings.decay_on == "all" else parts[:2]
    groups = [
        {"params": decayed, "weight_decay": settings.weight_decay},
        {"params": parts[len(decayed) :], "weight_decay": 0},
    ]
    return torch.optim.Adam([group for group in groups if group["params"]], lr=settings.learning_rate)


def pseudo_label_term(learner, teacher, pairs, settings):
    sure = (teacher if settings.certainty_of == "teacher" else learner).detach().exp()
    total = 0
    for node, number in pairs:
        entropy = -(sure[node] * sure[node].log()).sum()
        total = total - (1 - entropy / math.log(len(sure[node]))) * learner[node, number]
    return total / len(pairs)


def consistency_term(learner, teacher, pairs, settings):
    target = teacher if settings.teacher_gradient else teacher.detach()
    total = sum((target[node].exp() * (target[node] - learner[node])).sum() for node, _ in pairs)
    return total / len(pairs) if settings.consistency_reduction == "mean" else total


@pytest.fixture
def graph(make_graph):
    return make_graph(nodes=40, features=12, weighted=True)


@pytest.fixture
def task(graph):
    few, many = draw_splits(graph, 1, 1, seed=0)[0], draw_splits(graph, [3, 2, 1], 2, seed=1)[1]
    return observe(graph, [few, many], seed=0)


@pytest.fixture
def trained_network(monkeypatch):
    """The networks that fits leave behind, the latest last."""
    networks = []

    class Kept(GCN):
        def __init__(self, *arguments, **more):
            super().__init__(*arguments, **more)
            networks.append(self)

    monkeypatch.setitem(backbones.BACKBONES, "gcn", replace(backbones.BACKBONES["gcn"], stack=Kept))
    return networks


@pytest.mark.parametrize("option", [{}, *OPTIONS], ids=str)
def test_a_stack_trains_as_the_papers_algorithm_does_for_one_run(
    graph, task, reference, weights_of, trained_network, option
):
    method = create("mt-gcn", **{**QUICK, **option})
    found = method.fit(task)
    (network,) = trained_network
    for run in range(task.runs):
        fresh = GCN(task, method.peers, method)
        present = task.labelled.present[run]
        expected = reference(
            graph,
            task.labelled.index[run][present].tolist(),
            task.labelled.classes[run][present].tolist(),
            [weights_of(fresh, run, peer) for peer in range(method.peers)],
            method,
        )
        for peer in range(method.peers):
            for mine, theirs in zip(weights_of(network, run, peer), expected.weights[peer], strict=True):
                torch.testing.assert_close(mine, theirs.detach(), atol=2e-4, rtol=0)
            np.testing.assert_allclose(found.peers[run, peer], expected.probabilities[peer], atol=1e-4)
        np.testing.assert_allclose(found.probabilities[run], np.mean(expected.probabilities, axis=0), atol=1e-4)
        for epoch, values in enumerate(expected.history):
            for name, value in values.items():
                np.testing.assert_allclose(found.history[name][epoch, run], value, atol=1e-4, rtol=1e-3)
        assert found.pseudo_labelled_at[run].tolist() == [
            expected.pseudo_labelled_at.get(node, 0) for node in range(40)
        ]


@pytest.mark.parametrize("option", OPTIONS, ids=str)
def test_every_option_changes_the_answer(task, option):
    answers = [create("mt-gcn", **{**QUICK, **more}).fit(task).probabilities for more in ({}, option)]
    assert np.abs(answers[0] - answers[1]).max() > 1e-3  # ten times what rounding may do above


def test_history_tells_of_teaching_from_the_first_epoch_that_teaches(task):
    history = create("mt-gcn", **QUICK).fit(task).history
    assert set(history) == {"supervised", "pseudo-label", "consistency", "pseudo labels", "agreement"}
    assert all(values.shape == (16, 2, 2) for values in history.values())
    assert np.isfinite(history["supervised"]).all()
    for name in set(history) - {"supervised"}:
        assert np.isnan(history[name][:8]).all()
        assert np.isfinite(history[name][8:]).all()
    assert (history["agreement"][8:] <= 1).all()
    assert (history["pseudo labels"][8:] <= 3 * 4).all()


@pytest.mark.parametrize(("off", "missing"), [("pseudo_labels", "pseudo-label"), ("consistency", "consistency")])
def test_a_loss_that_is_off_leaves_no_history(task, off, missing):
    assert missing not in create("mt-gcn", **QUICK, **{off: False}).fit(task).history


def test_without_any_teaching_loss_peers_are_gcns_trained_longer(task):
    alone = create("mt-gcn", **{**QUICK, "dropout": 0.5}, pseudo_labels=False, consistency=False).fit(task)
    warm = create("mt-gcn", **{**QUICK, "dropout": 0.5, "warmup_epochs": 16, "teaching_epochs": 0}).fit(task)
    np.testing.assert_allclose(alone.peers, warm.peers, atol=1e-4)


def test_the_answer_is_the_mean_of_the_peers_or_the_first_of_them(task):
    mean, first = (create("mt-gcn", **QUICK, output=answer).fit(task) for answer in ("mean", "first"))
    np.testing.assert_allclose(mean.probabilities, mean.peers.mean(axis=1), atol=1e-6)
    assert np.array_equal(first.probabilities, first.peers[:, 0])
    assert np.array_equal(first.peers, mean.peers)
    assert not np.array_equal(first.probabilities, mean.probabilities)


def test_reading_as_the_authors_do_takes_each_peer_after_its_last_best_pass_over_the_labels(task):
    # Without dropout, an epoch's pass over the labels is what the peers believed when the epoch before it was over.
    settings = {**QUICK, "learning_rate": 0.5}  # so wild that the last epoch is not always among the best
    epochs = range(QUICK["warmup_epochs"] + QUICK["teaching_epochs"] + 1)
    probabilities = [
        create("mt-gcn", **{**settings, "warmup_epochs": min(epoch, 8), "teaching_epochs": max(epoch - 8, 0)})
        .fit(task)
        .peers
        for epoch in epochs
    ]
    found = create("mt-gcn", **settings, checkpoint="best-training").fit(task)
    read_at = set()
    for run in range(task.runs):
        present = task.labelled.present[run]
        nodes, classes = task.labelled.index[run][present].numpy(), task.labelled.classes[run][present].numpy()
        for peer in range(2):
            right = [int((moment[run, peer, nodes].argmax(1) == classes).sum()) for moment in probabilities]
            last_best = max(epoch for epoch in epochs[1:] if right[epoch - 1] == max(right[:epoch]))
            read_at.add(last_best)
            np.testing.assert_allclose(found.peers[run, peer], probabilities[last_best][run, peer], atol=1e-4)
    assert read_at != {epochs[-1]}
    np.testing.assert_allclose(found.probabilities, found.peers.mean(axis=1), atol=1e-6)


def test_the_reading_changes_no_step_of_training(task):
    settings = {**QUICK, "dropout": 0.5}
    last, best = (create("mt-gcn", **settings, checkpoint=reading).fit(task) for reading in ("last", "best-training"))
    for name, values in last.history.items():
        assert np.array_equal(values, best.history[name], equal_nan=True)


def test_one_more_per_class_is_one_more_per_class(task):
    one_more = create("mt-gcn", **QUICK, one_more_per_class=True).fit(task)
    five = create("mt-gcn", **{**QUICK, "per_class": 5}).fit(task)
    assert np.array_equal(one_more.probabilities, five.probabilities)


def chosen_by_confidence(algorithm_1, task, peers, per_class):
    """For each run, the nodes that any peer is surest of."""
    nodes = []
    for run, probabilities in enumerate(peers):
        unlabelled = set(range(task.num_nodes)) - set(task.labelled.index[run].tolist())
        chosen = [
            algorithm_1(peer.max(1), peer.argmax(1), unlabelled, task.num_classes, per_class) for peer in probabilities
        ]
        nodes.append({node for one in chosen for row in one for node in row})
    return nodes


def test_choosing_without_dropout_chooses_what_the_peers_believe_without_dropout(task, algorithm_1):
    settings = {**QUICK, "dropout": 0.5, "teaching_epochs": 1}
    before = create("mt-gcn", **{**settings, "teaching_epochs": 0}).fit(task)
    expected = chosen_by_confidence(algorithm_1, task, before.peers, per_class=4)

    def taught(choose_with_dropout):
        pseudo_labelled_at = (
            create("mt-gcn", **settings, choose_with_dropout=choose_with_dropout).fit(task).pseudo_labelled_at
        )
        assert set(np.unique(pseudo_labelled_at)) == {0, 9}  # never, or in the first epoch after eight of warm-up
        return [set(np.flatnonzero(row)) for row in pseudo_labelled_at]

    assert taught(False) == expected
    assert taught(True) != expected


def test_choosing_without_dropout_still_trains_with_it(task):
    settings = {**QUICK, "teaching_epochs": 1, "choose_with_dropout": False}
    with_dropout = create("mt-gcn", **{**settings, "dropout": 0.5}).fit(task)
    before = create("mt-gcn", **{**settings, "dropout": 0.5, "warmup_epochs": 9, "teaching_epochs": 0}).fit(task)
    # In one epoch, with the same masks, the supervised loss is the same whether the epoch teaches or not.
    np.testing.assert_allclose(with_dropout.history["supervised"], before.history["supervised"], rtol=1e-4)


def test_choosing_with_or_without_dropout_is_the_same_where_nothing_is_dropped(task):
    answers = [create("mt-gcn", **QUICK, choose_with_dropout=choose).fit(task) for choose in (True, False)]
    np.testing.assert_allclose(answers[0].probabilities, answers[1].probabilities, atol=1e-5)


def test_labelled_nodes_never_teach_and_peers_of_a_small_graph_may_teach_with_all_others(task):
    pseudo_labelled_at = create("mt-gcn", **{**QUICK, "per_class": 1000}).fit(task).pseudo_labelled_at
    for run in range(task.runs):
        labelled = task.labelled.index[run][task.labelled.present[run]].tolist()
        assert np.flatnonzero(pseudo_labelled_at[run] == 0).tolist() == sorted(labelled)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("per_class", 0),
        ("warmup_epochs", -1),
        ("teaching_epochs", -1),
        ("peers", 1),
        ("supervised_reduction", "max"),
        ("consistency_reduction", "max"),
        ("certainty_of", "nobody"),
        ("output", "last"),
        ("checkpoint", "first"),
        ("dropout", 1.0),
    ],
)
def test_settings_out_of_range_are_refused(setting, value):
    with pytest.raises(InputError, match=f"{setting} is .*{value}"):
        create("mt-gcn", **{setting: value})


@pytest.mark.slow
@pytest.mark.data
def test_mt_gcn_on_cora_with_two_labels_per_class():
    graph = load("cora")
    splits = draw_splits(graph, 2, runs=10, seed=0)
    probabilities = create("mt-gcn").fit(observe(graph, splits, seed=0)).probabilities
    accuracy = [
        100 * np.mean(probabilities[run, split.test].argmax(1) == graph.labels[split.test])
        for run, split in enumerate(splits)
    ]
    # 64.3 is itself a mean, of 100 splits, with a standard error of 0.5.
    standard_error = np.hypot(np.std(accuracy, ddof=1) / np.sqrt(10), 0.5)
    assert abs(np.mean(accuracy) - 64.3) < 3 * standard_error
