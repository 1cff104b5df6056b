"""Graphs that PyTorch Geometric saved: read where they are nothing but arrays, and never run."""

import os
import subprocess
import sys
from collections import OrderedDict

import numpy as np
import pytest
import torch

from mtgcn import read_graph
from mtgcn.errors import InputError

pyg = pytest.importorskip("torch_geometric.data")
Data, HeteroData = pyg.Data, pyg.HeteroData
EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


@pytest.fixture
def data():
    return Data(
        x=torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]]),
        edge_index=EDGES,
        edge_weight=torch.tensor([0.5, 0.5, 2.0, 2.0]),
        y=torch.tensor([1, 0, -1]),
        train_mask=torch.tensor([True, False, False]),
    )


@pytest.fixture
def save(tmp_path):
    def put(content, **options):
        path = tmp_path / "graph.pt"
        torch.save(content, path, **options)
        return path

    return put


def assert_is_the_graph(graph):
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 0.5, 0], [0.5, 0, 2], [0, 2, 0]])
    np.testing.assert_array_equal(graph.features, [[1, 0], [0, 2], [3, 3]])
    np.testing.assert_array_equal(graph.labels, [1, 0, -1])
    assert graph.class_names == ("0", "1")


@pytest.mark.parametrize(
    "form",
    [
        lambda data: data,
        lambda data: data.to_dict(),
        lambda data: OrderedDict(data.to_dict()),
        lambda data: (data, None),
        lambda data: (data.to_dict(), {"x": torch.tensor([0, 3])}, Data),  # as PyG keeps a processed dataset
    ],
)
def test_a_data_is_read_however_it_was_saved(save, data, form):
    assert_is_the_graph(read_graph(save(form(data))))


def test_the_format_before_zip_files_is_read_too(save, data):
    assert_is_the_graph(read_graph(save(data, _use_new_zipfile_serialization=False)))


@pytest.mark.slow
def test_pyg_need_not_be_there(save, data):
    """This process has imported it; another, that could not, reads the same."""
    program = (
        "import sys; sys.modules['torch_geometric'] = None\n"
        "from mtgcn import read_graph; print(read_graph(sys.argv[1]))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(save(data))], capture_output=True, text=True, check=True)
    assert done.stdout == "Graph(nodes=3, edges=2, features=2, classes=2)\n"


def test_nodes_without_edges_and_features_are_counted_where_the_file_says_so(save):
    assert read_graph(save(Data(edge_index=EDGES, num_nodes=5))).num_nodes == 5


def test_a_label_table_may_stand_beside_it(save, data, tmp_path):
    labels = tmp_path / "labels.csv"
    labels.write_text("id,label\n0,cat\n2,dog\n")
    assert read_graph(save(data), labels=labels).class_names == ("cat", "dog")


class Trap:
    """What a pickle may do to who reads it."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


@pytest.mark.parametrize("options", [{}, {"_use_new_zipfile_serialization": False}])
def test_code_is_not_run_but_named_with_the_way_round_it(save, data, tmp_path, options):
    sprung = tmp_path / "sprung"
    data.extra = Trap(sprung)
    with pytest.raises(InputError) as refused:
        read_graph(save(data, **options))
    assert not sprung.exists()
    message = str(refused.value)
    assert f"graph.pt names {os.mkdir.__module__}.mkdir" in message
    assert 'data = torch.load("graph.pt", weights_only=False); numpy.savez("graph.npz", ' in message
    assert "\n" not in message


def test_the_two_lines_convert_what_was_refused(save, data, tmp_path, monkeypatch):
    data.extra = Trap(tmp_path / "sprung")
    with pytest.raises(InputError) as refused:
        read_graph(save(data))
    lines = str(refused.value).partition("in Python: ")[2].partition(" and give")[0]
    monkeypatch.chdir(tmp_path)
    exec(lines, {"torch": torch, "numpy": np})  # noqa: S102 (it is what is tested)
    np.testing.assert_array_equal(read_graph(tmp_path / "graph.npz").labels, [1, 0, -1])


def hetero():
    several = HeteroData()
    several["author"].x = torch.ones(2, 2)
    several["author", "knows", "author"].edge_index = torch.tensor([[0], [1]])
    return several


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (torch.nn.Linear(2, 2), "names torch.nn.modules.linear.Linear"),
        (hetero(), "holds no edge_index of a single graph"),
        (torch.ones(3), "holds no edge_index of a single graph"),
        ((Data(edge_index=EDGES), {"edge_index": torch.tensor([0, 2, 4])}), "holds no edge_index of a single graph"),
        (Data(x=torch.ones(3, 2)), "holds no edge_index of a single graph"),
        (Data(edge_index=torch.ones(3, 4)), r"edge_index is of shape \(3, 4\)"),
        (Data(edge_index=torch.ones(2, 4)), "edge_index is of shape"),
        (Data(edge_index=EDGES, x=torch.ones(2, 2)), "there are 2"),
        (Data(edge_index=EDGES, x=torch.ones(4, 2), y=torch.ones(3)), "x has 4 rows and y has 3"),
        (Data(edge_index=-EDGES, num_nodes=3), "node -"),
    ],
)
def test_what_is_no_graph_is_refused(save, content, message):
    with pytest.raises(InputError, match=message):
        read_graph(save(content))


@pytest.mark.parametrize("keep", [20, 700])
def test_a_file_that_was_cut_off_is_said_to_be(save, data, keep):
    path = save(data)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"graph\.pt is not a complete file of torch\.save .* write it again"):
        read_graph(path)
