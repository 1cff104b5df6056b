"""`mtgcn predict`: nodes of the model, new nodes, other graphs, and the table that is written."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest

from mtgcn.errors import InputError
from mtgcn.estimator.classifier import MutualTeachingClassifier
from mtgcn.estimator.persistence import save_model
from mtgcn.estimator.predictions import prediction_columns
from mtgcn.graph import UNLABELED
from mtgcn.io.options import TableOptions
from mtgcn.workflows.fit import fit_files
from mtgcn.workflows.predict import predict_files, predictions_table
from own_files import read_csv, write_csv

pytestmark = pytest.mark.usefixtures("empty_cache")
NODES = 40


class Tables:
    """A graph of 40 nodes as CSV files; always four nodes have the same features."""

    def __init__(self, folder, graph):
        self.folder = folder
        edges = np.argwhere(np.triu(graph.adjacency.toarray())).tolist()
        self.header = ["id", *(f"f{number}" for number in range(graph.num_features))]
        self.rows = [[node, *graph.features[node % 10].tolist()] for node in range(NODES)]
        self.edges = self.write("edges.csv", [["source", "target"], *edges])
        self.nodes = self.write("nodes.csv", [self.header, *self.rows])
        labels = [[node, f"class {graph.labels[node]}"] for node in range(15)]
        self.labels = self.write("labels.csv", [["id", "label"], *labels])

    def write(self, name, rows):
        return write_csv(self.folder / name, rows)

    def fitted(self, folder, method, settings=(), **files):
        """The folder of a model of these files."""
        files = TableOptions(**{"edges": self.edges, "nodes": self.nodes, "labels": self.labels} | files)
        fit_files(files, out=self.folder / folder, method=method, settings=settings, folds=0, device="cpu")
        return self.folder / folder

    def node_table(self, rows):
        return TableOptions(nodes=self.write("asked.csv", [self.header, *rows]))

    def joining(self, rows, edges, header=("source", "target")):
        """Files of new nodes and their edges."""
        nodes = self.write("joining.csv", [self.header, *rows])
        return TableOptions(nodes=nodes, edges=self.write("joining-edges.csv", [header, *edges]))

    def predicted(self, model, files, **options):
        """The rows of predictions.csv by id, and the notes."""
        out = self.folder / "predictions.csv"
        _, notes = predict_files(model, files, out=out, device="cpu", **options)
        return {row["id"]: row for row in read_csv(out)}, notes


@pytest.fixture(scope="module")
def tables(tmp_path_factory, make_graph):
    return Tables(tmp_path_factory.mktemp("tables"), make_graph(nodes=NODES, sparse=False))


@pytest.fixture(scope="module")
def mt_gcn(tables):
    return tables.fitted("model", "mt-gcn", ["warmup_epochs=20", "teaching_epochs=20", "output=first"])


# Nodes of the model. tests/estimator/test_inference.py checks every method.


@pytest.mark.parametrize("order", [range(NODES), range(NODES - 1, -1, -1), (31, 7, 21, 1, 11)])
def test_predict_is_order_invariant(tables, mt_gcn, order):
    of_fit, notes = tables.predicted(mt_gcn, TableOptions())
    assert (len(of_fit), notes) == (NODES, [])
    files = tables.node_table([tables.rows[node] for node in order])
    found, [note] = tables.predicted(mt_gcn, files)
    assert list(found) == [str(node) for node in order]
    assert found == {str(node): of_fit[str(node)] for node in order}
    assert note.startswith(f"{len(order)} of {len(order)} nodes have ids of the model")
    if len(order) == NODES:
        again, notes = tables.predicted(mt_gcn, replace(files, edges=tables.edges), new_graph=True)
        assert (list(again), again, notes) == (list(found), of_fit, [])


# New nodes that join


@pytest.fixture
def new(tables):
    """The rows of two new nodes."""
    return [["a", *tables.rows[3][1:]], ["b", *tables.rows[6][1:]]]


@pytest.mark.parametrize(
    ("edges", "note"),
    [
        ([["b", 0]], "1 of 2 new nodes have no edge; their predictions use features only"),
        ([["a", "b"]], "no edge connects to a node of the model; for a separate graph add --new-graph"),
    ],
)
def test_new_nodes_without_edges_to_the_model_are_noted(tables, mt_gcn, new, edges, note):
    assert tables.predicted(mt_gcn, tables.joining(new, edges))[1] == [note]


@pytest.mark.parametrize(
    ("more", "options", "note"),
    [
        ([["a", "x"], ["y", "a"]], {"unknown_nodes": "drop"}, "2 edges refer to unknown nodes and are dropped"),
        ([[0, 1], [1, 2]], {}, "2 of 4 edges connect two nodes of the model and are dropped; fit again to use them"),
    ],
)
def test_edges_that_cannot_be_used_are_dropped_with_a_note(tables, mt_gcn, new, more, options, note):
    edges = [["a", 3], ["b", 6]]
    found, _ = tables.predicted(mt_gcn, tables.joining(new, edges))
    again, notes = tables.predicted(mt_gcn, replace(tables.joining(new, [*edges, *more]), **options))
    assert again == found
    assert any(note in one for one in notes)


@pytest.mark.parametrize(
    ("known", "edges", "message"),
    [
        (
            5,
            [["a", 3]],
            r"joining.csv: the model already has 5 of these 7 nodes, for instance '0', '1', '2'; .* --new-g",
        ),
        (
            0,
            [["a", 3], ["a", "x"], ["y", "a"], ["z", 4], ["x", "w"]],
            "4 ids are neither in .*joining.csv nor in the model, for instance 'w', 'x', 'y'; add these nodes to",
        ),
    ],
)
def test_nodes_that_cannot_join_are_refused(tables, mt_gcn, new, known, edges, message):
    with pytest.raises(InputError, match=message):
        tables.predicted(mt_gcn, tables.joining([*new, *tables.rows[:known]], edges))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("new_graph", "--new-graph requires --edges"),
        ("with_known", "--all requires new nodes that join the model's graph"),
    ],
)
def test_options_without_effect_are_refused(tables, mt_gcn, option, message):
    with pytest.raises(InputError, match=message):
        tables.predicted(mt_gcn, TableOptions(), **{option: True})


def test_edges_without_nodes_are_refused(tables, mt_gcn):
    edges = tables.write("joining-edges.csv", [["source", "target"], ["new", 3]])
    with pytest.raises(InputError, match="has no features of new nodes; give them with --nodes"):
        tables.predicted(mt_gcn, TableOptions(edges=edges))


def test_new_edges_get_the_mean_weight_of_the_model(tables, new):
    rows = [[*edge.values(), 500] for edge in read_csv(tables.edges)]
    weighted = tables.write("weighted.csv", [["source", "target", "weight"], *rows])
    folder = tables.fitted("weighted", "mt-gcn", ["warmup_epochs=5", "teaching_epochs=5"], edges=weighted)
    ends = [["a", 4], ["b", 7]]
    found, notes = tables.predicted(folder, tables.joining(new, ends))
    assert len(notes) == 1
    assert "has no weights; new edges get weight 500" in notes[0]
    with_weights = tables.joining(new, [[*edge, 500] for edge in ends], ["source", "target", "weight"])
    assert tables.predicted(folder, with_weights) == (found, [])


def test_peers_that_cannot_predict_new_nodes_are_noted(tables, new, monkeypatch):
    # One of eight peers uses the position of nodes.
    folder = tables.fitted("equal", "mt-plus", ["dimensions=8", "infomax_epochs=5", "votes=equal"])
    files = tables.joining(new, [["a", 4], ["b", 4]])
    assert tables.predicted(folder, files)[1] == []
    monkeypatch.setattr("mtgcn.workflows.predict.NOTED_WEIGHT", 0.1)
    [note] = tables.predicted(folder, files)[1]
    assert note.startswith("peers with 12 % of the weight use the position of a node")


def test_columns_of_both_tables_can_be_named(tables, mt_gcn, new):
    plain, _ = tables.predicted(mt_gcn, tables.joining(new[:1], [["a", 3]]))
    nodes = tables.write("named.csv", [["who", *tables.header[1:]], *new[:1]])
    edges = tables.write("named-edges.csv", [["note", "one", "other"], ["x", "a", 3]])
    named = {"id": "who", "source": "one", "target": "other"}
    assert tables.predicted(mt_gcn, TableOptions(nodes=nodes, edges=edges, columns=named))[0] == plain


# Tables of nodes, and other graphs


def test_known_and_new_nodes_in_one_table(tables, mt_gcn, new):
    of_fit, _ = tables.predicted(mt_gcn, TableOptions())
    found, notes = tables.predicted(mt_gcn, tables.node_table([tables.rows[20], new[0], tables.rows[4]]))
    assert (found["20"], found["4"]) == (of_fit["20"], of_fit["4"])
    assert (found["20"]["role"] != "given", found["4"]["role"], found["a"]["role"]) == (True, "given", "neither")
    assert found["a"]["peers_agree"] in ("yes", "no")
    assert notes == ["2 of 3 nodes have ids of the model and get the predictions of the fit"]


@pytest.mark.parametrize("name", [100, "007"])  # 7 is a node of the model, "007" is not
def test_a_table_of_new_nodes_has_no_notes(tables, mt_gcn, name):
    found, notes = tables.predicted(mt_gcn, tables.node_table([[name, *tables.rows[3][1:]]]))
    assert (list(found), notes) == ([str(name)], [])


def test_changed_features_of_known_nodes_are_noted(tables, mt_gcn):
    of_fit, _ = tables.predicted(mt_gcn, TableOptions())
    changed = [[5, *(value + 1 for value in tables.rows[5][1:])], tables.rows[6]]
    found, notes = tables.predicted(mt_gcn, tables.node_table(changed))
    assert found == {"5": of_fit["5"], "6": of_fit["6"]}
    assert len(notes) == 1
    assert notes[0].endswith("1 of them have other features here, which are ignored: fit again to use them")


def test_a_subgraph_with_its_edges_is_another_graph(tables, mt_gcn):
    of_fit, _ = tables.predicted(mt_gcn, TableOptions())
    edges = tables.write("part.csv", [["source", "target"], [0, 1], [1, 2], [2, 3]])
    found, notes = tables.predicted(mt_gcn, replace(tables.node_table(tables.rows[:4]), edges=edges), new_graph=True)
    assert {row["role"] for row in found.values()} == {"neither"}
    assert any(found[name]["probability"] != of_fit[name]["probability"] for name in found)
    assert notes == []


def test_a_model_without_features_predicts_known_ids_only(tables):
    folder = tables.fitted("edges only", "lp", nodes=None)
    of_fit, _ = tables.predicted(folder, TableOptions())
    ids = TableOptions(nodes=tables.write("ids.csv", [["id"], [30], [2]]))
    assert tables.predicted(folder, ids)[0] == {"30": of_fit["30"], "2": of_fit["2"]}
    assert tables.predicted(folder, TableOptions(edges=tables.edges), new_graph=True)[0] == of_fit
    with pytest.raises(InputError, match="fitted without features"):
        tables.predicted(folder, TableOptions(edges=tables.edges))
    with pytest.raises(InputError, match="fitted without features"):
        tables.predicted(folder, TableOptions(nodes=tables.write("ids.csv", [["id"], [30], [200]])))


def test_a_model_without_ids_matches_rows_by_features(tables, make_graph):
    features = make_graph(sparse=False).features
    y = np.where(np.arange(NODES) < 15, np.arange(NODES) % 3, UNLABELED)
    settings = {"warmup_epochs": 20, "teaching_epochs": 20}
    model = MutualTeachingClassifier("mt-gcn", settings=settings, random_state=0).fit(features, y)
    save_model(model, tables.folder / "bare")
    # Ids start at 1, so that none equals the position of its row.
    rows = [[node + 1, *features[node].tolist()] for node in range(NODES)]
    found, notes = tables.predicted(tables.folder / "bare", tables.node_table(rows))
    assert [row["predicted"] for row in found.values()] == model.transduction_.astype(str).tolist()
    assert notes == [f"{NODES} of {NODES} rows equal rows of the fit and get the predictions of the fit"]
    with pytest.raises(InputError, match="have no ids, so edges cannot refer to them"):
        tables.predicted(tables.folder / "bare", tables.joining([["new", *rows[3][1:]]], [["new", 3]]))


# predictions.csv


PEERS = np.array([[[9, 1], [2, 8], [6, 4], [7, 3]], [[7, 3], [4, 6], [8, 2], [1, 9]]]) / 10


def four_nodes(peers=PEERS, weights=None):
    """A labelled node, a pseudo-labelled one, one that is neither, and one whose peers disagree."""
    ids, classes = np.array(["007", "n, 2", "Käse", "=1+1"]), np.array(["a", 'b, or "c"'])
    return prediction_columns(ids, classes, PEERS.mean(0), np.array([0, 201, -1, -1]), peers, weights)


@pytest.mark.parametrize("batch", [1, 3, 10_000])
def test_predictions_table(monkeypatch, batch):
    monkeypatch.setattr("mtgcn.workflows.predict.ROWS_PER_BATCH", batch)
    assert predictions_table(four_nodes()).decode().split("\n") == [
        'id,predicted,probability,probability_a,"probability_b, or ""c""",peers_agree,role,pseudo_label_epoch',
        "007,a,0.800000,0.800000,0.200000,yes,given,",
        '"n, 2","b, or ""c""",0.700000,0.300000,0.700000,yes,pseudo-label,201',
        "Käse,a,0.700000,0.700000,0.300000,yes,neither,",
        '=1+1,"b, or ""c""",0.600000,0.400000,0.600000,no,neither,',
        "",
    ]
    without_peers = predictions_table(four_nodes(peers=None)).decode()
    assert {row["peers_agree"] for row in csv.DictReader(without_peers.splitlines())} == {""}


def test_formulas_become_text_for_spreadsheets():
    columns = four_nodes() | {"note": np.array(["=1+1", "-5.2", "@sum", "-x"])}
    content = predictions_table(columns, excel_safe=True, bom=True)
    assert content.startswith(b"\xef\xbb\xbfid,")
    rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"))))
    assert [row["note"] for row in rows] == ["'=1+1", "-5.2", "'@sum", "'-x"]
    assert predictions_table(columns).decode().count("'") == 0


@pytest.mark.parametrize(("weights", "last"), [(None, False), ([0.85, 0.15], True), ([0.7, 0.3], False)])
def test_peers_of_small_weight_do_not_count_for_agreement(weights, last):
    columns = four_nodes(weights=weights if weights is None else np.array(weights))
    assert columns["peers_agree"].tolist() == [True, True, True, last]
