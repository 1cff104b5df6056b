"""Synthetic rows with known means, a comparison, and a fitted model."""

from dataclasses import replace

import numpy as np
import pytest

from fitted_models import Model, with_labels
from mtgcn.experiments import statistics
from mtgcn.experiments.compare import comparison_of
from mtgcn.experiments.plan import Selection, plan
from mtgcn.methods import create
from mtgcn.splits import Split
from mtgcn.task import observe
from stored_rows import compared_row, rows_of


def _accuracy(runs, mean, scale):
    """Runs with this mean; they grow with the square of the run, so that no two differences tie."""
    mean_square = (runs - 1) * (2 * runs - 1) / 6
    return lambda run: mean + scale * (run**2 - mean_square)


@pytest.fixture(autouse=True, scope="module")
def few_resamples():
    """Hundreds of intervals are computed here; they need not be exact."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "RESAMPLES", 50)
        yield


@pytest.fixture(scope="session")
def stored():
    """The units of a selection as in a store; each place has its own accuracy."""

    def units(**selection):
        planned = plan(Selection(**{"runs": 4, **selection})).units
        return {
            unit.id: rows_of(unit, _accuracy(unit.runs, 0.4 + 0.001 * number, 1e-6 * (number + 1)))
            for number, unit in enumerate(planned)
        }

    return units


@pytest.fixture(scope="session")
def fitted_model(make_graph):
    """Two peers on 60 nodes with six labels; the names need escaping."""
    graph = replace(make_graph(nodes=60), class_names=("left", "<b>&$x", "right"), name="a<b")
    labelled = np.arange(6)
    method = create("mt-gcn", warmup_epochs=12, teaching_epochs=8)
    answer = method.fit(observe(graph, [Split(labelled, [], np.arange(6, 60))], seed=0))
    return Model(
        with_labels(graph, labelled),
        method,
        answer.probabilities[0],
        answer.peers[0],
        history_={name: values[:, 0] for name, values in answer.history.items()},
    )


@pytest.fixture
def compared():
    """Three methods on four splits with equal runs, so that the intervals are the means: 50, 60 and 70 per cent."""

    def comparison(means=(("lp", 0.5), ("my_gcn <b>", 0.6), ("mt-plus", 0.7)), *, scored=100, **changes):
        def rows(method, mean):
            fields = {"dataset": "edges_1.csv", "labels_per_class": 3, "method": method, "settings": {"alpha": 1}}
            fields |= {"seed": 7, "macro_f1": mean - 0.01, "seconds": 0.5, "runs": 4, "scored_nodes": scored}
            return [compared_row(**fields | changes, run=run, accuracy=mean) for run in range(4)]

        return comparison_of({method: rows(method, mean) for method, mean in means})

    return comparison
