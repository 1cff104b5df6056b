"""`predict_files`: a node whose id the model knows gets the answer of the fit, whatever the method and the order."""

import csv
from dataclasses import replace

import numpy as np
import pytest

from mtgcn.errors import InputError
from mtgcn.estimator.classifier import MutualTeachingClassifier
from mtgcn.estimator.model_folder import save_model
from mtgcn.graph import UNKNOWN
from mtgcn.io.options import TableOptions
from mtgcn.methods import METHODS
from mtgcn.workflows.fitting import fit_files
from mtgcn.workflows.predicting import predict_files

NODES = 40


@pytest.fixture(autouse=True, scope="module")
def empty_cache(tmp_path_factory):
    """What a method keeps between fits is not added to the user's own cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MTGCN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


class Tables:
    """A graph of 40 nodes as CSV files. Each node has the features of three others, and edges of its own."""

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
        with (self.folder / name).open("w", newline="") as file:
            csv.writer(file).writerows(rows)
        return self.folder / name

    def node_table(self, rows):
        return TableOptions(nodes=self.write("asked.csv", [self.header, *rows]))

    def joining(self, rows, edges, header=("source", "target")):
        """Files of new nodes and of edges that have one."""
        nodes = self.write("joining.csv", [self.header, *rows])
        return TableOptions(nodes=nodes, edges=self.write("joining-edges.csv", [header, *edges]))

    def predicted(self, model, files, **options):
        """The rows of predictions.csv by id, as text; and what was noted."""
        out = self.folder / "predictions.csv"
        _, notes = predict_files(model, files, out=out, device="cpu", **options)
        with out.open(newline="") as file:
            return {row["id"]: row for row in csv.DictReader(file)}, notes


@pytest.fixture(scope="module")
def tables(tmp_path_factory, make_graph):
    return Tables(tmp_path_factory.mktemp("tables"), make_graph(nodes=NODES, sparse=False))


@pytest.fixture(scope="module", params=[*METHODS, "mt-gcn, output=first"])
def model(request, tables):
    """The folder of a model of each method, fitted on these files."""
    name, _, first = request.param.partition(", ")
    settings = [f"{key}=8" for key in METHODS[name].__dataclass_fields__ if key.endswith("epochs")]
    settings += ["walks_per_node=2"] if name == "deepwalk" else []
    settings += [first] if first else []
    files = TableOptions(edges=tables.edges, nodes=tables.nodes, labels=tables.labels)
    out = tables.folder / request.param
    fit_files(files, out=out, method=name, settings=settings, folds=0, device="cpu")
    return out


# ---- what holds for every method


def test_the_same_nodes_in_any_order_or_subset_get_the_same_rows(tables, model):
    of_fit, notes = tables.predicted(model, TableOptions())
    assert len(of_fit) == NODES
    assert notes == []
    for order in (range(NODES), range(NODES - 1, -1, -1), (31, 7, 21, 1, 11)):
        found, notes = tables.predicted(model, tables.node_table([tables.rows[node] for node in order]))
        assert list(found) == [str(node) for node in order]
        assert found == {str(node): of_fit[str(node)] for node in order}
        assert notes == [
            f"{len(order)} of {len(order)} nodes have ids that the model knows and get the answers of the fit"
        ]


def test_the_same_graph_in_another_order_gets_the_same_rows(tables, model):
    of_fit, _ = tables.predicted(model, TableOptions())
    files = replace(tables.node_table(tables.rows[::-1]), edges=tables.edges)
    found, notes = tables.predicted(model, files, new_graph=True)
    assert list(found) == [str(node) for node in range(NODES - 1, -1, -1)]
    assert found == of_fit
    assert notes == []


def test_the_graph_under_other_names_is_judged_by_the_same_peers(tables, model):
    of_fit, _ = tables.predicted(model, TableOptions())
    nodes = tables.write("renamed.csv", [tables.header, *([f"n{row[0]}", *row[1:]] for row in tables.rows)])
    with tables.edges.open(newline="") as file:
        header, *edges = csv.reader(file)
    renamed = tables.write("renamed-edges.csv", [header, *([f"n{one}", f"n{other}"] for one, other in edges)])
    files = TableOptions(edges=renamed, nodes=nodes)
    if not (model / "weights.safetensors").exists():
        with pytest.raises(InputError, match="keeps nothing that could be applied to another graph"):
            tables.predicted(model, files, new_graph=True)
        return
    found, _ = tables.predicted(model, files, new_graph=True)
    for name, row in of_fit.items():
        other = found[f"n{name}"]
        assert other["role"] == "neither"
        if "mt-plus" not in model.name:  # whose peers that know nodes by their edges leave the vote
            assert (other["predicted"], other["peers_agree"]) == (row["predicted"], row["peers_agree"])
            assert float(other["probability"]) == pytest.approx(float(row["probability"]), abs=1e-5)
    same = [found[f"n{name}"]["predicted"] == row["predicted"] for name, row in of_fit.items()]
    assert np.mean(same) > 0.75


def test_a_new_node_joins_the_graph_that_the_model_knows(tables, model):
    of_fit, _ = tables.predicted(model, TableOptions())
    files = tables.joining([["new", *tables.rows[3][1:]]], [["new", 3], ["new", 6], [9, "new"]])
    if not (model / "weights.safetensors").exists():
        with pytest.raises(InputError, match="keeps nothing that could be applied to another graph"):
            tables.predicted(model, files)
        return
    found, _ = tables.predicted(model, files)
    assert (list(found), found["new"]["role"]) == (["new"], "neither")
    beside, _ = tables.predicted(model, files, with_known=True)
    assert beside.pop("new") == found["new"]
    assert beside == of_fit


# ---- new nodes that join


def test_new_nodes_without_edges_are_spoken_of(tables, mt_gcn):
    new = [["a", *tables.rows[3][1:]], ["b", *tables.rows[4][1:]], ["c", *tables.rows[5][1:]]]
    _, notes = tables.predicted(mt_gcn, tables.joining(new, [["b", 0]]))
    assert notes == ["2 of 3 new nodes have no edge and are told by their features alone"]


def test_nodes_that_the_model_has_do_not_join_again(tables, mt_gcn):
    files = tables.joining([["new", *tables.rows[3][1:]], *tables.rows[:5]], [["new", 3]])
    message = (
        r"joining.csv: the model already has 5 of these 6 nodes, for instance '0', '1', '2'; give new nodes alone.*"
        "or add --new-graph to read both files as a graph of their own"
    )
    with pytest.raises(InputError, match=message):
        tables.predicted(mt_gcn, files)


def test_edges_to_nobody_are_told_together(tables, mt_gcn):
    edges = [["new", 3], ["new", "x"], ["y", "new"], ["z", 4], ["x", "w"]]
    files = tables.joining([["new", *tables.rows[3][1:]]], edges)
    message = "4 ids are neither in .*joining.csv nor in the model, for instance 'w', 'x', 'y'; add these nodes to"
    with pytest.raises(InputError, match=message):
        tables.predicted(mt_gcn, files)


def test_edges_to_nobody_are_dropped_where_that_is_asked_for(tables, mt_gcn):
    new = [["new", *tables.rows[3][1:]]]
    found, _ = tables.predicted(mt_gcn, tables.joining(new, [["new", 3]]))
    files = replace(tables.joining(new, [["new", 3], ["new", "x"], ["y", "new"]]), unknown_nodes="drop")
    again, notes = tables.predicted(mt_gcn, files)
    assert again == found
    assert any("2 edges name nodes that are neither new nor known, and are left out" in note for note in notes)


def test_edges_between_known_nodes_change_nothing_and_it_is_said(tables, mt_gcn):
    new, edges = [["new", *tables.rows[3][1:]]], [["new", 3], ["new", 6]]
    found, _ = tables.predicted(mt_gcn, tables.joining(new, edges))
    again, notes = tables.predicted(mt_gcn, tables.joining(new, [*edges, [0, 1], [1, 2]]))
    assert again == found
    assert len(notes) == 1
    assert "2 of 4 edges join two nodes that the model knows, and are left out; fit again to count them in" in notes[0]


def test_nobody_who_is_known_is_linked_to(tables, mt_gcn):
    new = [["a", *tables.rows[3][1:]], ["b", *tables.rows[6][1:]]]
    _, notes = tables.predicted(mt_gcn, tables.joining(new, [["a", "b"]]))
    assert notes == [
        "no edge leads to a node that the model knows; if this is a graph of its own, say so with --new-graph"
    ]


def test_edges_alone_do_not_tell_what_new_nodes_look_like(tables, mt_gcn):
    edges = tables.write("joining-edges.csv", [["source", "target"], ["new", 3]])
    with pytest.raises(InputError, match="alone does not tell the features of new nodes; give them with --nodes"):
        tables.predicted(mt_gcn, TableOptions(edges=edges))


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        (TableOptions(), {"new_graph": True}, "--new-graph reads edges as a graph of their own, and there are none"),
        (TableOptions(), {"with_known": True}, "--all lists the nodes of the fit beside new ones that join them"),
    ],
)
def test_options_that_would_do_nothing_are_refused(tables, mt_gcn, files, options, message):
    with pytest.raises(InputError, match=message):
        tables.predicted(mt_gcn, files, **options)


def test_new_edges_without_weights_weigh_what_those_of_the_model_do(tables, tmp_path):
    with tables.edges.open(newline="") as file:
        header, *edges = csv.reader(file)
    weighted = tables.write("weighted.csv", [[*header, "weight"], *([*edge, 500] for edge in edges)])
    folder, settings = tmp_path / "weighted", ["warmup_epochs=5", "teaching_epochs=5"]
    files = TableOptions(edges=weighted, nodes=tables.nodes, labels=tables.labels)
    fit_files(files, out=folder, method="mt-gcn", settings=settings, folds=0, device="cpu")
    new, ends = [["new", *tables.rows[3][1:]]], [["new", 4], ["new", 7]]
    found, notes = tables.predicted(folder, tables.joining(new, ends))
    assert len(notes) == 1
    assert "has no weights; every new edge weighs 500, as those of the model do on average" in notes[0]
    with_weights = tables.joining(new, [[*edge, 500] for edge in ends], ["source", "target", "weight"])
    assert tables.predicted(folder, with_weights) == (found, [])


def test_peers_that_have_no_say_about_new_nodes_are_spoken_of(tables, tmp_path, monkeypatch):
    settings = ["dimensions=8", "infomax_epochs=5", "votes=equal"]  # two of eight peers know nodes by their place
    files = TableOptions(edges=tables.edges, nodes=tables.nodes, labels=tables.labels)
    fit_files(files, out=tmp_path / "model", method="mt-plus", settings=settings, folds=0, device="cpu")
    _, notes = tables.predicted(tmp_path / "model", tables.joining([["new", *tables.rows[3][1:]]], [["new", 4]]))
    assert len(notes) == 1
    assert notes[0].startswith("peers with 25 % of the vote know nodes by their place in the graph of the fit")
    monkeypatch.setattr("mtgcn.workflows.predicting.MUCH_OF_THE_VOTE", 0.3)
    assert tables.predicted(tmp_path / "model", tables.joining([["n", *tables.rows[3][1:]]], [["n", 4]]))[1] == []


def test_columns_of_both_tables_may_be_named(tables, mt_gcn):
    new = [["new", *tables.rows[3][1:]]]
    plain, _ = tables.predicted(mt_gcn, tables.joining(new, [["new", 3]]))
    nodes = tables.write("named.csv", [["who", *tables.header[1:]], *new])
    edges = tables.write("named-edges.csv", [["note", "one", "other"], ["x", "new", 3]])
    named = {"id": "who", "source": "one", "target": "other"}
    assert tables.predicted(mt_gcn, TableOptions(nodes=nodes, edges=edges, columns=named))[0] == plain


# ---- single cases


@pytest.fixture(scope="module")
def mt_gcn(tables):
    files = TableOptions(edges=tables.edges, nodes=tables.nodes, labels=tables.labels)
    settings = ["warmup_epochs=20", "teaching_epochs=20", "output=first"]
    fit_files(files, out=tables.folder / "model", method="mt-gcn", settings=settings, folds=0, device="cpu")
    return tables.folder / "model"


def test_known_and_new_nodes_in_one_table(tables, mt_gcn):
    of_fit, _ = tables.predicted(mt_gcn, TableOptions())
    asked = [tables.rows[20], ["new", *tables.rows[3][1:]], tables.rows[4]]
    found, notes = tables.predicted(mt_gcn, tables.node_table(asked))
    assert (found["20"], found["4"]) == (of_fit["20"], of_fit["4"])
    assert (found["20"]["role"] != "given", found["4"]["role"], found["new"]["role"]) == (True, "given", "neither")
    assert found["new"]["peers_agree"] in ("yes", "no")
    assert notes == ["2 of 3 nodes have ids that the model knows and get the answers of the fit"]


def test_new_nodes_alone_are_not_remarked_upon(tables, mt_gcn):
    found, notes = tables.predicted(mt_gcn, tables.node_table([[100, *tables.rows[3][1:]]]))
    assert (list(found), notes) == (["100"], [])


def test_a_known_node_whose_features_changed_gets_the_answer_of_the_fit_and_it_is_said(tables, mt_gcn):
    of_fit, _ = tables.predicted(mt_gcn, TableOptions())
    changed = [[5, *(value + 1 for value in tables.rows[5][1:])], tables.rows[6]]
    found, notes = tables.predicted(mt_gcn, tables.node_table(changed))
    assert found == {"5": of_fit["5"], "6": of_fit["6"]}
    assert notes == [
        "2 of 2 nodes have ids that the model knows and get the answers of the fit; "
        "1 of them have other features here, which are not looked at: fit again to count them in"
    ]


def test_ids_that_are_numbers_in_one_file_and_text_in_another_are_the_same(tables, mt_gcn):
    of_fit, _ = tables.predicted(mt_gcn, TableOptions())
    found, _ = tables.predicted(mt_gcn, tables.node_table([tables.rows[7], ["x", *tables.rows[3][1:]]]))
    assert found["7"] == of_fit["7"]
    found, notes = tables.predicted(mt_gcn, tables.node_table([["007", *tables.rows[7][1:]]]))
    assert (list(found), notes) == (["007"], [])


def test_a_part_of_the_graph_with_its_edges_is_a_graph_of_its_own(tables, mt_gcn):
    of_fit, _ = tables.predicted(mt_gcn, TableOptions())
    half = [[0, 1], [1, 2], [2, 3]]
    edges = tables.write("part.csv", [["source", "target"], *half])
    found, notes = tables.predicted(mt_gcn, replace(tables.node_table(tables.rows[:4]), edges=edges), new_graph=True)
    assert {row["role"] for row in found.values()} == {"neither"}
    assert any(found[name]["probability"] != of_fit[name]["probability"] for name in found)
    assert notes == []


def test_a_model_without_features_knows_its_nodes_by_their_ids(tables):
    files = TableOptions(edges=tables.edges, labels=tables.labels)
    folder = tables.folder / "edges alone"
    fit_files(files, out=folder, method="lp", folds=0, device="cpu")
    of_fit, _ = tables.predicted(folder, TableOptions())
    ids = TableOptions(nodes=tables.write("ids.csv", [["id"], [30], [2]]))
    assert tables.predicted(folder, ids)[0] == {"30": of_fit["30"], "2": of_fit["2"]}
    assert tables.predicted(folder, TableOptions(edges=tables.edges), new_graph=True)[0] == of_fit
    with pytest.raises(InputError, match="fitted without features"):
        tables.predicted(folder, TableOptions(edges=tables.edges))
    with pytest.raises(InputError, match="fitted without features, so its numbers mean nothing on another graph"):
        tables.predicted(folder, TableOptions(nodes=tables.write("ids.csv", [["id"], [30], [200]])))


def test_a_model_of_a_bare_table_knows_its_rows_by_their_features(tables, make_graph):
    features = make_graph(sparse=False).features
    y = np.where(np.arange(NODES) < 15, np.arange(NODES) % 3, UNKNOWN)
    settings = {"warmup_epochs": 20, "teaching_epochs": 20}
    model = MutualTeachingClassifier("mt-gcn", settings=settings, random_state=0).fit(features, y)
    save_model(model, tables.folder / "bare")
    # Counted from 1: no number may be mistaken for a place in the table.
    rows = [[node + 1, *features[node].tolist()] for node in range(NODES)]
    found, notes = tables.predicted(tables.folder / "bare", tables.node_table(rows))
    assert [row["predicted"] for row in found.values()] == model.transduction_.astype(str).tolist()
    assert notes == []
    with pytest.raises(InputError, match="never given ids, so that no edge can name them"):
        tables.predicted(tables.folder / "bare", tables.joining([["new", *rows[3][1:]]], [["new", 3]]))
