"""Whatever the number of ranks, the same losses and the same answer as from one process that holds the graph."""

import numpy as np
import pytest

from mtgcn import read_graph
from mtgcn.distributed.labels import shared_labels
from mtgcn.distributed.local_graph import read_local_graph
from mtgcn.distributed.local_task import local_task
from mtgcn.distributed.mt_gcn import fit_mt_gcn
from mtgcn.distributed.shards import read_manifest
from mtgcn.errors import InputError
from mtgcn.io.options import TableOptions
from mtgcn.methods import create
from mtgcn.splits import Split
from mtgcn.task import observe
from thread_ranks import on_ranks

EPOCHS = {"warmup_epochs": 4, "teaching_epochs": 4, "per_class": 6}


def fit_on(count, folder, method, checkpoints=lambda graph: None):
    """Number by number of a node: its probabilities, the peers' and the epoch it first taught in; and the history."""

    def work(ranks):
        graph = read_local_graph(read_manifest(folder / "shards"), ranks)
        labels, names = shared_labels(folder / "labels.csv", graph, TableOptions())
        task = local_task(graph, labels, len(names), seed=5)
        return graph.numbers.numpy(), fit_mt_gcn(method, graph, task, checkpoints(graph))

    done = on_ranks(count, work)
    order = np.argsort(np.concatenate([numbers for numbers, _ in done]))
    answers = [answer for _, answer in done]
    for answer in answers[1:]:
        for name, values in answers[0].parameters.items():
            np.testing.assert_array_equal(answer.parameters[name], values)  # weights never drift apart
    return (
        np.concatenate([answer.probabilities for answer in answers])[order],
        np.concatenate([answer.peers for answer in answers], axis=1)[:, order],
        np.concatenate([answer.pseudo_labelled_at for answer in answers])[order],
        answers[0].history,
    )


def fit_alone(folder, method):
    graph = read_graph(folder / "edges.csv", nodes=folder / "nodes.csv", labels=folder / "labels.csv", name="edges.csv")
    return method.fit(observe(graph, [Split(graph.known, [], [])], seed=5))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"dropout": 0.0},
        {"dropout": 0.3, "peers": 3, "hidden_channels": 2},
        {"choose_with_dropout": False, "teacher_gradient": True, "certainty_of": "learner"},
        {"supervised_reduction": "sum", "consistency_reduction": "sum", "mutual": False, "output": "first"},
        {"pseudo_labels": False, "one_more_per_class": True, "per_class": None, "feature_scaling": "length"},
    ],
    ids=lambda settings: ",".join(settings) or "defaults",
)
def test_ranks_give_what_one_process_gives(files, settings):
    method = create("mt-gcn", **EPOCHS | settings)
    alone = fit_alone(files, method)
    for count in (1, 3):
        probabilities, peers, taught, history = fit_on(count, files, method)
        assert history.keys() == alone.history.keys()
        for name, values in alone.history.items():
            np.testing.assert_allclose(history[name], values, atol=1e-5, err_msg=name)
        np.testing.assert_allclose(probabilities, alone.probabilities[0], atol=1e-5)
        np.testing.assert_allclose(peers, alone.peers[0], atol=1e-5)
        np.testing.assert_array_equal(taught, alone.pseudo_labelled_at[0])


def test_sparse_features_take_their_first_step_with_the_weights(sparse_files):
    method = create("mt-gcn", **EPOCHS)
    alone = fit_alone(sparse_files, method)
    for count in (1, 4):
        probabilities, *_, history = fit_on(count, sparse_files, method)
        np.testing.assert_allclose(history["supervised"], alone.history["supervised"], atol=1e-5)
        np.testing.assert_allclose(probabilities, alone.probabilities[0], atol=1e-5)


@pytest.mark.parametrize("setting", [{"backbone": "gat"}, {"input_dropout": 0.5}, {"checkpoint": "best-training"}])
def test_what_needs_the_whole_graph_is_refused(files, setting):
    with pytest.raises(InputError, match=f"{next(iter(setting))} is .*, and on shards only"):
        fit_on(1, files, create("mt-gcn", **setting))
