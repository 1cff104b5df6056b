import numpy as np
import pytest
import torch

from mtgcn.errors import InputError
from mtgcn.linalg.normalisation import normalized_adjacency
from mtgcn.methods import create
from mtgcn.methods.mt_plus import Teaching
from mtgcn.nn.linear import LinearPeers
from mtgcn.splits import draw_splits
from mtgcn.task import observe
from mtgcn.training.progress import current_stage, reporting_progress

QUICK = {"dimensions": 8, "infomax_epochs": 10, "warmup_epochs": 20, "teaching_epochs": 20}


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path))


def teaching_of(graph, labels=2, **settings):
    task = observe(graph, draw_splits(graph, labels, 3, 0), 0)
    embeddings = [[torch.zeros(graph.num_nodes, 4)] * 2]
    return Teaching(create("mt-plus", **QUICK | settings), LinearPeers(task, embeddings, [0] * 3), task)


def some_probabilities(graph, seed=0):
    numbers = np.random.default_rng(seed).normal(size=(graph.num_nodes, graph.num_classes, 3, 1)).astype(np.float32)
    return torch.from_numpy(2 * numbers).softmax(1)


def test_nodes_surer_than_the_average_node_teach_and_given_ones_do_not(make_graph):
    graph = make_graph()
    teaching, teacher = teaching_of(graph), some_probabilities(make_graph())
    weight, classes = teaching._pseudo_label_weights(teacher)
    for run in range(3):
        probabilities = teacher[:, :, run, 0].numpy()
        sure = probabilities.max(1)
        expected = sure > sure.mean()
        expected[teaching.task.labelled.index[run].numpy()] = False
        np.testing.assert_array_equal(weight[:, run, 0].numpy() > 0, expected)
        np.testing.assert_array_equal(classes[:, run, 0].numpy(), probabilities.argmax(1))


def test_probabilities_are_propagated_and_a_well_connected_node_receives_more(make_graph):
    graph = make_graph()
    teacher = some_probabilities(graph)
    smooth = normalized_adjacency(graph).toarray()
    expected = given = teacher.numpy().reshape(graph.num_nodes, -1)
    for _ in range(4):
        expected = 0.8 * smooth @ expected + 0.2 * given
    found = teaching_of(graph)._propagated_teacher(teacher)
    np.testing.assert_allclose(found.numpy().reshape(expected.shape), expected, rtol=1e-4, atol=1e-6)
    in_all = found.sum(1)[:, 0, 0].numpy()
    degrees = np.asarray(graph.adjacency.sum(1)).ravel()
    assert in_all[degrees == degrees.max()].mean() > in_all[degrees == degrees.min()].mean()
    normalised = teaching_of(graph, propagated="normalised")._propagated_teacher(teacher)
    torch.testing.assert_close(normalised.sum(1), torch.ones(graph.num_nodes, 3, 1))
    torch.testing.assert_close(normalised.argmax(1), found.argmax(1))
    assert teaching_of(graph, propagated="not")._propagated_teacher(teacher) is teacher


def test_every_class_weighs_the_same_and_all_together_one(make_graph):
    graph = make_graph()
    weight, classes = teaching_of(graph)._pseudo_label_weights(some_probabilities(graph))
    for run in range(3):
        of_class = np.bincount(classes[:, run, 0], weights=weight[:, run, 0], minlength=graph.num_classes)
        np.testing.assert_allclose(of_class[of_class > 0], 1 / (of_class > 0).sum(), rtol=1e-5)


@pytest.mark.parametrize(
    ("labels", "settings", "power"),
    [
        (3, {}, 1.0),
        (6, {}, 0.5**0.5),
        (6, {"balanced": "always"}, 1.0),
        (6, {"balanced": "never"}, 0.0),
    ],
)
def test_the_more_labels_the_more_the_size_of_a_class_counts(make_graph, labels, settings, power):
    graph = make_graph(nodes=60)
    teacher = some_probabilities(graph)
    weight, classes = teaching_of(graph, labels, **settings)._pseudo_label_weights(teacher)
    plain, _ = teaching_of(graph, labels, balanced="never")._pseudo_label_weights(teacher)
    for run in range(3):
        sizes, found = (np.bincount(classes[:, run, 0], weights=one[:, run, 0], minlength=3) for one in (plain, weight))
        np.testing.assert_allclose(found, sizes ** (1 - power) / (sizes ** (1 - power)).sum(), rtol=1e-4)


def test_within_a_class_all_nodes_count_the_same(make_graph):
    graph = make_graph()
    weight, classes = teaching_of(graph)._pseudo_label_weights(some_probabilities(graph))
    of_first = weight[:, 0, 0][classes[:, 0, 0] == 0]
    assert (of_first > 0).sum() > 1
    assert of_first[of_first > 0].unique().numel() == 1


def test_a_class_that_nobody_is_sure_of_leaves_the_others_their_weight(make_graph):
    graph = make_graph()
    teacher = torch.full((graph.num_nodes, graph.num_classes, 3, 1), 0.0)
    teacher[:, 0] = torch.linspace(0.5, 0.9, graph.num_nodes)[:, None, None]
    teacher[:, 1] = 1 - teacher[:, 0]
    weight, _ = teaching_of(graph)._pseudo_label_weights(teacher)
    torch.testing.assert_close(weight.sum(0), torch.ones(3, 1))


@pytest.mark.parametrize(
    "setting",
    [
        {"balanced": "never"},
        {"balanced": "always"},
        {"chosen": "all"},
        {"taught_by": "other"},
        {"feature_scaling": "sum"},
        {"propagated": "not"},
        {"propagated": "normalised"},
        {"peers": 1},
        {"infomax_decay": 0.0},
    ],
    ids=str,
)
def test_every_choice_of_the_ablation_changes_something(make_graph, setting):
    graph = make_graph()
    task = observe(graph, draw_splits(graph, 5, 2, 0), 0)
    plain = create("mt-plus", **QUICK).fit(task).probabilities
    assert np.abs(create("mt-plus", **QUICK | setting).fit(task).probabilities - plain).max() > 1e-6


def test_runs_choose_among_a_few_embeddings_by_their_seed(make_graph, tmp_path):
    graph = make_graph()
    task = observe(graph, draw_splits(graph, 2, 12, 0), 0)
    create("mt-plus", **QUICK, embeddings=2).fit(task)
    assert len(list((tmp_path / "infomax").iterdir())) == 2 * 2  # embeddings times peers


def test_a_single_fit_can_be_taken_to_its_own_graph_and_to_another(make_graph):
    graph = make_graph()
    task = observe(graph, draw_splits(graph, 2, 1, 0), 0)
    method = create("mt-plus", **QUICK)
    prediction = method.fit(task)
    applied = method.apply(prediction.parameters, graph)
    np.testing.assert_allclose(applied, prediction.peers, atol=1e-5)
    with pytest.raises(InputError, match="features"):
        method.apply(prediction.parameters, make_graph(features=graph.num_features + 1))


def test_whoever_watches_is_told_which_vectors_are_made(make_graph):
    graph = make_graph()
    task = observe(graph, draw_splits(graph, 2, 2, 0), 0)
    stages = []
    with reporting_progress(lambda done, total: stages.append(current_stage())):
        create("mt-plus", **QUICK).fit(task)
    assert list(dict.fromkeys(stages)) == [f"embeddings {number} of 4" for number in range(1, 5)] + [""]
