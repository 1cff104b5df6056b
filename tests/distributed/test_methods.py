"""Methods of the library on ranks: the predictions of a single process, whatever the number of ranks."""

from contextlib import nullcontext

import numpy as np
import pytest

from mtgcn import read_graph
from mtgcn.distributed.fitting import fit_on_ranks, local_labels
from mtgcn.distributed.local_graph import read_local_graph
from mtgcn.distributed.shards import read_manifest
from mtgcn.errors import InputError
from mtgcn.io.options import TableOptions
from mtgcn.methods import create
from mtgcn.splits import Split
from mtgcn.task import Prediction, observe
from mtgcn.training.loop import checkpointing
from thread_ranks import on_ranks

QUICK = {"directions": 6, "edge_directions": 12, "dimensions": 8, "infomax_epochs": 6, "rounds": 3, "steps": 3}
EPOCHS = {"warmup_epochs": 4, "teaching_epochs": 4, "per_class": 6}


def fit_on(count, folder, method, checkpoints=None):
    """The prediction of all ranks, in the order of the node table."""

    def work(ranks):
        graph = read_local_graph(read_manifest(folder / "shards"), ranks)
        labels, names = local_labels(folder / "labels.csv", graph, TableOptions())
        with checkpointing(checkpoints(graph)) if checkpoints else nullcontext():
            return graph.numbers, fit_on_ranks(method, graph.task(labels, names, seed=5), ranks)

    done = on_ranks(count, work)
    order = np.argsort(np.concatenate([numbers for numbers, _ in done]))
    parts = [part for _, part in done]
    for part in parts[1:]:
        for name, values in parts[0].parameters.items():
            np.testing.assert_array_equal(part.parameters[name], values)  # ranks never diverge
        for name, values in parts[0].history.items():
            np.testing.assert_array_equal(part.history[name], values)
    return Prediction(
        np.concatenate([part.probabilities for part in parts], 1)[:, order],
        parts[0].history,
        peers=np.concatenate([part.peers for part in parts], 2)[:, :, order],
        pseudo_labelled_at=np.concatenate([part.pseudo_labelled_at for part in parts], 1)[:, order],
        parameters=parts[0].parameters,
        peer_report=parts[0].peer_report,
    )


def fit_alone(folder, method):
    graph = read_graph(folder / "edges.csv", nodes=folder / "nodes.csv", labels=folder / "labels.csv", name="edges.csv")
    return method.fit(observe(graph, [Split(graph.known, [], [])], seed=5))


def assert_equal_predictions(found, expected, tolerance):
    np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=tolerance)
    np.testing.assert_array_equal(found.probabilities.argmax(-1), expected.probabilities.argmax(-1))
    np.testing.assert_allclose(found.peers, expected.peers, atol=10 * tolerance)
    np.testing.assert_array_equal(found.pseudo_labelled_at, expected.pseudo_labelled_at)
    assert found.history.keys() == expected.history.keys()
    for name, values in expected.history.items():
        np.testing.assert_allclose(found.history[name], values, atol=tolerance, err_msg=name)
    assert {name: one.shape for name, one in found.parameters.items()} == {
        name: one.shape for name, one in expected.parameters.items()
    }


@pytest.mark.parametrize("source", ["files", "sparse_files"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"left_out": "infomax", "taught_by": "itself", "balanced": "always"},
        {"votes": "equal", "taught": "always", "balanced": "never", "nodes_per_round": 20, "infomax_batch": 25},
    ],
    ids=lambda settings: ",".join(settings) or "defaults",
)
def test_mt_plus(source, settings, request):
    folder = request.getfixturevalue(source)
    method = create("mt-plus", **QUICK | settings)
    alone = fit_alone(folder, method)
    ranks = {count: fit_on(count, folder, method) for count in (1, 4)}
    for found in ranks.values():
        assert_equal_predictions(found, alone, 3e-4)  # a single process has 32 bits
        for part in ("weights", "held_out_accuracy", "agreement", "teaching"):
            one, other = getattr(found.peer_report, part), getattr(alone.peer_report, part)
            np.testing.assert_allclose(one, other, atol=1e-4, err_msg=part)
    tolerance = 1e-4 if settings else 1e-6  # teaching on few nodes makes differences of 1e-7 larger
    np.testing.assert_allclose(ranks[1].probabilities, ranks[4].probabilities, atol=tolerance)


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
def test_mt_gcn(files, settings):
    method = create("mt-gcn", **EPOCHS | settings)
    alone = fit_alone(files, method)
    for count in (1, 3):
        assert_equal_predictions(fit_on(count, files, method), alone, 1e-5)


def test_mt_gcn_with_sparse_features(sparse_files):
    method = create("mt-gcn", **EPOCHS)
    alone = fit_alone(sparse_files, method)
    for count in (1, 4):
        assert_equal_predictions(fit_on(count, sparse_files, method), alone, 1e-5)


def test_divergence_is_reported_by_all_ranks(files):
    class Diverging(type(create("mt-gcn"))):
        def fit(self, task):
            prediction = super().fit(task)
            if task.communicator.ranks.rank == 1:
                prediction.probabilities[0, 0] = np.nan
            return prediction

    with pytest.raises(InputError, match=r"Diverging.fit answered probabilities that are not finite"):
        fit_on(2, files, Diverging(**EPOCHS))
