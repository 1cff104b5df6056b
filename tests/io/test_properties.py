"""Any file gives a graph with finite numbers or an error in one line."""

import warnings

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from mtgcn import read_graph
from mtgcn.errors import GraphNote, InputError

quick = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)

cells = st.one_of(
    st.sampled_from(
        ["a", "b", "c", "1", "2", "0.5", "-1", "nan", "", "source", "target", "id", "label", "weight", "é"]
    ),
    st.text(max_size=4),
)
tables = st.builds(
    lambda rows, delimiter, newline: newline.join(delimiter.join(row) for row in rows).encode(),
    st.integers(1, 4).flatmap(
        lambda width: st.lists(st.lists(cells, min_size=width, max_size=width), min_size=1, max_size=8)
    ),
    st.sampled_from([",", "\t", ";", " "]),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
contents = st.one_of(tables, st.binary(max_size=80), st.text(max_size=80).map(str.encode))


def assert_graph_or_line(*args, **options):
    """Read a graph with finite numbers only, or raise an error in one line; the graph, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphNote)
        try:
            graph = read_graph(*args, **options)
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017
            return None
    assert np.isfinite(graph.adjacency.data).all()
    assert graph.features is None or np.isfinite(graph.features.sum(dtype=np.float64))
    assert len(graph.node_ids) == graph.num_nodes
    return graph


@quick
@given(contents)
def test_any_edge_list(tmp_path, content):
    path = tmp_path / "edges.csv"
    path.write_bytes(content)
    assert_graph_or_line(path)


@quick
@given(contents, contents, contents)
def test_any_three_tables(tmp_path, edges, nodes, labels):
    paths = [tmp_path / name for name in ("edges.csv", "nodes.csv", "labels.csv")]
    for path, content in zip(paths, (edges, nodes, labels), strict=True):
        path.write_bytes(content)
    assert_graph_or_line(paths[0], nodes=paths[1], labels=paths[2])
    assert_graph_or_line(None, nodes=paths[1])
    assert_graph_or_line(paths[0], labels=paths[2])


@quick
@given(contents, contents)
def test_any_other_node_table(tmp_path, first, second):
    path = tmp_path / "nodes.csv"
    path.write_bytes(first)
    graph = assert_graph_or_line(None, nodes=path)
    if graph is None:
        return
    preprocessing = graph.preprocessing
    assert_graph_or_line(None, nodes=path, preprocessing=preprocessing)
    path.write_bytes(second)
    assert_graph_or_line(None, nodes=path, preprocessing=preprocessing)


@quick
@given(st.lists(st.tuples(st.text(min_size=1, max_size=5), st.text(min_size=1, max_size=5)), min_size=1, max_size=10))
def test_any_parquet_ids(tmp_path, pairs):
    path = tmp_path / "edges.parquet"
    try:
        sources, targets = (pa.array(column, pa.string()) for column in zip(*pairs, strict=True))
    except UnicodeEncodeError:  # an unpaired surrogate
        return
    parquet.write_table(pa.table({"source": sources, "target": targets}), path)
    if any("\0" in node for pair in pairs for node in pair):
        with pytest.raises(InputError, match="a NUL"):
            read_graph(path)
        return
    graph = assert_graph_or_line(path)
    ids = graph.node_ids.tolist()
    assert set(ids) == {node for pair in pairs for node in pair}
    for one, other in pairs:
        assert graph.adjacency[ids.index(one), ids.index(other)] == 1
    assert graph.adjacency.nnz == len({pair for one, other in pairs for pair in ((one, other), (other, one))})


def small_files(folder):
    """A valid file of each binary or structured format."""
    graph = nx.Graph([("a", "b"), ("b", "c")])
    nx.set_node_attributes(graph, {"a": 1.0, "b": 2.0, "c": 3.0}, "f")
    nx.set_node_attributes(graph, {"a": "x", "b": "y", "c": "x"}, "class")
    nx.write_graphml(graph, folder / "good.graphml")
    nx.write_gml(graph, folder / "good.gml")
    np.savez(folder / "good.npz", edge_index=[[0, 1], [1, 0]], x=np.ones((2, 2)), y=[0, 1])
    parquet.write_table(pa.table({"source": ["a", "b"], "target": ["b", "c"]}), folder / "good.parquet")


@pytest.mark.parametrize("kind", ["graphml", "gml", "npz", "parquet"])
@quick
@given(data=st.data())
def test_damaged_files(tmp_path, kind, data):
    small_files(tmp_path)
    content = bytearray((tmp_path / f"good.{kind}").read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / f"bad.{kind}"
    path.write_bytes(content[: data.draw(st.integers(1, len(content)))] if data.draw(st.booleans()) else content)
    assert_graph_or_line(path)


@pytest.mark.parametrize("kind", ["graphml", "gml", "npz", "parquet"])
@quick
@given(content=st.binary(max_size=200))
def test_any_bytes(tmp_path, kind, content):
    path = tmp_path / f"any.{kind}"
    path.write_bytes(content)
    assert_graph_or_line(path)
