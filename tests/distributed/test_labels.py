"""Every rank gets the labels of its nodes; rank 0 reads them, and complains for all."""

import numpy as np
import pytest

from mtgcn.distributed.labels import shared_labels
from mtgcn.distributed.local_graph import read_local_graph
from mtgcn.distributed.shards import read_manifest
from mtgcn.errors import GraphNote, InputError
from mtgcn.io.options import TableOptions
from thread_ranks import on_ranks


@pytest.fixture
def labelled(files, tmp_path):
    """What each of two ranks makes of a label table: the labels of its nodes by their ids."""

    def read(content, **choices):
        path = tmp_path / "labels.csv"
        path.write_text(content)

        def work(ranks):
            graph = read_local_graph(read_manifest(files / "shards"), ranks)
            labels, names = shared_labels(path, graph, TableOptions(may_add_nodes=False, **choices))
            some = np.flatnonzero(labels >= 0)
            return {graph.ids[int(node)].as_py(): names[labels[node]] for node in some}

        return on_ranks(2, work)

    return read


def test_each_rank_has_the_labels_of_its_nodes(labelled):
    found = labelled("id,label\nn1,cat\nn2,dog\nn3,NaN\nn40,dog\n")
    assert {**found[0], **found[1]} == {"n1": "cat", "n2": "dog", "n40": "dog"}
    assert not found[0].keys() & found[1].keys()


def test_a_header_that_nobody_knows_is_found_out(labelled):
    found = labelled("wer,was\nn1,cat\nn2,dog\n")
    assert {**found[0], **found[1]} == {"n1": "cat", "n2": "dog"}


def test_unknown_ids_are_refused_or_dropped(labelled):
    table = "id,label\nn1,cat\nn2,dog\nstranger,dog\n"
    with pytest.raises(InputError, match=r"line 4: node 'stranger' is not in the graph; .*leave such labels out$"):
        labelled(table)
    with pytest.warns(GraphNote, match="labels of 1 ids that are not in the graph are left out"):
        found = labelled(table, unknown_nodes="drop")
    assert {**found[0], **found[1]} == {"n1": "cat", "n2": "dog"}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("id,label\nn1,cat\nn2,cat\n", "has one class only, 'cat'"),
        ("id,label\nn1,cat\nn1,dog\n", "two labels for node 'n1'"),
        ("id,label\nn1,\n", "every label is empty"),
        ("id,label\n" + "".join(f"n{node},{'ab'[node % 2]}\n" for node in range(60)), "all 60 nodes are labelled"),
    ],
)
def test_labels_that_leave_nothing_to_learn_or_tell_are_refused(labelled, table, message):
    with pytest.raises(InputError, match=message):
        labelled(table)
