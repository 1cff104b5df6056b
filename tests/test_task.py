import gc
from collections import Counter
from types import BuiltinFunctionType, FunctionType, ModuleType

import numpy as np
import pytest
import torch

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.splits import draw_splits
from mtgcn.task import MISSING, Nodes, PeerReport, Prediction, Task, observe, run_seed


def contents(root):
    """Counts the numbers, texts and pieces of memory reachable from `root`, through attributes, containers, closures,
    the arrays that views share and the memory of tensors; without types and modules."""
    found, seen, waiting = Counter(), {}, [root]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, (type, ModuleType, BuiltinFunctionType)):
            continue
        seen[id(thing)] = thing
        if isinstance(thing, FunctionType):
            waiting += [cell.cell_contents for cell in thing.__closure__ or ()]
            waiting += [thing.__defaults__, thing.__kwdefaults__, thing.__dict__]
            continue
        waiting += gc.get_referents(thing)
        if isinstance(thing, np.ndarray):
            found[thing.tobytes()] += 1
            waiting.append(thing.base)
        elif isinstance(thing, torch.Tensor):
            memory = torch.empty(0, dtype=torch.uint8).set_(thing.untyped_storage())
            waiting += [memory.cpu().numpy().copy(), thing.grad]
        elif isinstance(thing, (bytes, bytearray, memoryview)):
            found[bytes(thing)] += 1
        elif isinstance(thing, (int, float, str)):
            found[repr(thing).encode()] += 1
        elif isinstance(thing, (list, tuple)) and thing and all(isinstance(item, int) for item in thing):
            found[np.array(thing).tobytes()] += 1
    return found


@pytest.fixture
def graph():
    random = np.random.default_rng(0)
    edges = np.triu(random.random((50, 50)) < 0.1, 1).astype(float)
    labels = random.integers(0, 3, 50)
    labels[[7, 20]] = -1
    return Graph(edges + edges.T, features=random.random((50, 4)), labels=labels)


@pytest.fixture
def splits(graph):
    return draw_splits(graph, 2, runs=3, seed=0, validation=5)


@pytest.fixture
def relabelled(graph, splits):
    """The graph with other labels of the nodes that no split gives."""
    given = np.concatenate([[*split.train, *split.validation] for split in splits])
    hidden, labels = np.setdiff1d(graph.known, given), graph.labels.copy()
    labels[hidden] = np.roll(labels[hidden], 1)
    assert not np.array_equal(labels, graph.labels)
    return Graph(graph.adjacency, graph.features, labels)


@pytest.mark.parametrize("with_validation", [False, True])
def test_hidden_labels_are_not_in_reach_of_a_task(graph, relabelled, splits, with_validation):
    tasks = [observe(one, splits, seed=0, with_validation=with_validation) for one in (graph, relabelled)]
    assert contents(tasks[0]) == contents(tasks[1])
    known = [observe(graph, splits, seed=0, with_validation=validation) for validation in (True, False)]
    assert contents(known[0]) != contents(known[1])  # validation labels are in reach if they are wanted


@pytest.mark.parametrize(
    "hide",
    [
        lambda graph: graph,
        lambda graph: graph.labels.view()[:1],
        lambda graph: torch.tensor(graph.labels)[:1],
        lambda graph: lambda: graph.labels,
        lambda graph: {"deep": [[int(label) for label in graph.labels]]},
        lambda graph: ["a task", (graph,)],
        lambda graph: graph.labels.astype(np.float32),
    ],
    ids=["graph", "view", "slice of a tensor", "closure", "list", "container", "other numbers"],
)
def test_contents_find_labels(graph, relabelled, hide):
    assert contents(hide(graph)) != contents(hide(relabelled))


def test_a_task_refuses_a_graph_with_labels(graph, splits):
    task = observe(graph, splits, seed=0)
    with pytest.raises(InputError, match="must not have labels"):
        Task(graph, task.labelled, task.seeds)


def test_shorter_rows_are_padded():
    nodes = Nodes.of([np.array([4, 2, 0]), np.array([1])], np.array([5, 6, 7, 8, 9]))
    assert nodes.index.tolist() == [[4, 2, 0], [1, MISSING, MISSING]]
    assert nodes.present.tolist() == [[True, True, True], [True, False, False]]
    assert nodes.classes[nodes.present].tolist() == [9, 7, 5, 6]


def test_observe(graph, splits):
    task = observe(graph, splits, seed=4, with_validation=True)
    assert (task.runs, task.num_nodes, task.num_classes) == (3, 50, 3)
    for run, split in enumerate(splits):
        assert task.labelled.index[run].tolist() == split.train.tolist()
        assert task.labelled.classes[run].tolist() == graph.labels[split.train].tolist()
        assert task.validation.classes[run].tolist() == graph.labels[split.validation].tolist()
    assert task.seeds == tuple(run_seed(4, run) for run in range(3))
    assert len(set(task.seeds)) == 3
    assert task.seeds != observe(graph, splits, seed=5).seeds
    assert (task.seed, Task.without_labels(graph).seed) == (4, 0)
    assert observe(graph, splits[:2], seed=4).seeds == task.seeds[:2]
    assert observe(graph, splits, seed=4).validation is None


def test_neighbouring_seeds_share_no_run():
    seeds = [run_seed(seed, run) for seed in range(10) for run in range(10)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_missing_validation_is_refused(graph):
    with pytest.raises(InputError, match="validation nodes, which a split does not have"):
        observe(graph, draw_splits(graph, 1, runs=2, seed=0), seed=0, with_validation=True)


def test_chunks_hold_all_runs_in_order(graph, splits):
    task = observe(graph, splits, seed=6, with_validation=True)
    chunks = list(task.chunks(2))
    assert [(chunk.runs, chunk.seed) for chunk in chunks] == [(2, 6), (1, 6)]
    assert chunks[0].seeds + chunks[1].seeds == task.seeds
    for part in ("labelled", "validation"):
        for field in ("index", "classes"):
            joined = torch.cat([getattr(getattr(chunk, part), field) for chunk in chunks])
            assert torch.equal(joined, getattr(getattr(task, part), field))


def test_concatenate_predictions():
    def part(runs, start):
        column = np.full((runs, 1), start)  # weights, held-out accuracy, agreement
        report = PeerReport(("features",), column, column + 1, column + 2, teaching=column[:, 0] + 3)
        history, peers = {"loss": np.full((5, runs, 1), start)}, np.full((runs, 1, 4, 2), start)
        shares = np.full((runs, 4, 2), start)
        return Prediction(shares, history, peers=peers, peer_report=report, groups=np.arange(runs))

    whole = Prediction.concatenate([part(2, 0.25), part(1, 0.5)])
    assert whole.probabilities[:, 0, 0].tolist() == [0.25, 0.25, 0.5]
    assert whole.history["loss"].shape == (5, 3, 1)
    assert whole.history["loss"][0, :, 0].tolist() == [0.25, 0.25, 0.5]
    assert whole.peers[:, 0, 0, 0].tolist() == [0.25, 0.25, 0.5]
    assert whole.groups.tolist() == [0, 1, 0]
    assert whole.pseudo_labelled_at is None
    report = whole.peer_report
    assert report.names == ("features",)
    for more, values in enumerate((report.weights[:, 0], report.held_out_accuracy[:, 0], report.agreement[:, 0])):
        assert values.tolist() == [0.25 + more, 0.25 + more, 0.5 + more]
    assert report.teaching.tolist() == [3.25, 3.25, 3.5]
    without = Prediction(np.full((1, 4, 2), 0.5))
    assert Prediction.concatenate([without, without]).peer_report is None


def test_task_without_labels(graph):
    task = Task.without_labels(graph, runs=3)
    assert (task.runs, task.labelled.index.shape, task.validation) == (3, (3, 0), None)
    assert task.graph is graph.without_labels
    assert Task.without_labels(graph).runs == 1
