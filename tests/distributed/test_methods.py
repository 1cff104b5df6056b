"""Methods of the library on ranks: the predictions of a single process, for any number of ranks."""

import numpy as np
import pytest

from mtgcn import read_graph
from mtgcn.errors import InputError
from mtgcn.methods import create
from mtgcn.splits import Split
from mtgcn.task import observe
from thread_ranks import assert_equal_predictions, fit_on

QUICK = {"directions": 6, "edge_directions": 12, "dimensions": 8, "infomax_epochs": 4, "rounds": 2, "steps": 3}
EPOCHS = {"warmup_epochs": 4, "teaching_epochs": 4, "per_class": 6}


def fit_alone(folder, method):
    graph = read_graph(folder / "edges.csv", nodes=folder / "nodes.csv", labels=folder / "labels.csv", name="edges.csv")
    return method.fit(observe(graph, [Split(graph.known, [], [])], seed=5))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "settings"),
    [
        ("files", {}),
        ("sparse_files", {}),
        ("files", {"left_out": "infomax", "taught_by": "itself", "balanced": "always"}),
        (
            "sparse_files",
            {"votes": "equal", "taught": "always", "balanced": "never", "nodes_per_round": 20, "infomax_batch": 25},
        ),
    ],
    ids=str,
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
    tolerance = 1e-4 if settings else 1e-5  # teaching on few nodes makes differences of 1e-7 larger
    np.testing.assert_allclose(ranks[1].probabilities, ranks[4].probabilities, atol=tolerance)


@pytest.mark.parametrize(
    ("source", "settings"),
    [
        ("files", {}),
        ("sparse_files", {}),
        ("files", {"dropout": 0.0}),
        ("files", {"dropout": 0.3, "peers": 3, "hidden_channels": 2}),
        ("files", {"choose_with_dropout": False, "teacher_gradient": True, "certainty_of": "learner"}),
        ("files", {"supervised_reduction": "sum", "consistency_reduction": "sum", "mutual": False, "output": "first"}),
        ("files", {"pseudo_labels": False, "one_more_per_class": True, "per_class": None, "feature_scaling": "length"}),
    ],
    ids=str,
)
def test_mt_gcn(source, settings, request):
    folder = request.getfixturevalue(source)
    method = create("mt-gcn", **EPOCHS | settings)
    alone = fit_alone(folder, method)
    for count in (1, 4):
        assert_equal_predictions(fit_on(count, folder, method), alone, 1e-5)


def test_divergence_is_reported_by_all_ranks(files):
    class Diverging(type(create("mt-gcn"))):
        def fit(self, task):
            prediction = super().fit(task)
            if task.communicator.ranks.rank == 1:
                prediction.probabilities[0, 0] = np.nan
            return prediction

    with pytest.raises(InputError, match=r"Diverging.fit (answered|returned) probabilities that are not finite"):
        fit_on(2, files, Diverging(**EPOCHS))
