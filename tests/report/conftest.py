"""Synthetic rows with known means, a comparison, and a fitted model."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from fitted_models import Model, with_labels
from mtgcn import environment
from mtgcn.experiments import statistics
from mtgcn.experiments.plan import Selection, plan
from mtgcn.experiments.rows import StoredRow
from mtgcn.methods import create
from mtgcn.splits import Split
from mtgcn.task import observe


def rows_of(unit, accuracy, scale):
    """Runs with the given mean accuracy; they grow with the square of the run, so no two differences tie."""
    mean_square = (unit.runs - 1) * (2 * unit.runs - 1) / 6
    return tuple(
        StoredRow(
            dataset=unit.dataset,
            labels_per_class=unit.labels_per_class,
            method=unit.method,
            settings=asdict(unit.settings),
            run=run,
            seed=unit.seed,
            accuracy=accuracy + scale * (run**2 - mean_square),
            macro_f1=accuracy,
            calibration_error=0.125,
            seconds=1.5,
            device=unit.device,
            threads=unit.threads,
            versions=environment.versions(),
            unit=unit.id,
            protocol=unit.protocol,
            split=unit.split,
            validation=unit.validation,
            runs=unit.runs,
            averages=unit.averages,
        )
        for run in range(unit.runs)
    )


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    """Hundreds of intervals are computed here; they need not be exact."""
    monkeypatch.setattr(statistics, "RESAMPLES", 50)


@pytest.fixture
def stored():
    """The units of a selection as in a store; each place has its own accuracy."""

    def units(**selection):
        planned = plan(Selection(**{"runs": 4, **selection})).units
        return {
            one.unit.id: rows_of(one.unit, accuracy=0.4 + 0.001 * number, scale=1e-6 * (number + 1))
            for number, one in enumerate(planned)
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
    from mtgcn.experiments.comparisons import comparison_of
    from mtgcn.experiments.rows import ComparedRow

    def comparison(means=(("lp", 0.5), ("my_gcn <b>", 0.6), ("mt-plus", 0.7)), *, scored=100, **changes):
        def rows(method, mean):
            fields = {
                "dataset": "edges_1.csv",
                "labels_per_class": 3,
                "split": "random",
                "method": method,
                "settings": {"alpha": 1},
                "seed": 7,
                "macro_f1": mean - 0.01,
                "calibration_error": 0.125,
                "seconds": 0.5,
                "device": "cpu",
                "threads": 1,
                "versions": environment.versions(),
                "unit": method,
                "protocol": "ours",
                "validation": 0,
                "runs": 4,
                "averages": 1,
                "comparison": "one",
                "scored_nodes": scored,
                "graph": {"nodes": 120, "edges": 300, "features": 5, "classes": 3},
            }
            return [ComparedRow(**fields | changes, run=run, accuracy=mean) for run in range(4)]

        return comparison_of({method: rows(method, mean) for method, mean in means})

    return comparison
