"""`mtgcn fit`, `predict`, `suggest` and `compare` on a person's own files, as that person meets them."""

import csv
import errno
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mtgcn.cli import app as cli
from mtgcn.estimator.persistence import load_model, read_card

NODES, CLASSES = 60, ("ant", "bee", "cat")
QUICK = ["--method", "mt-gcn", "--set", "warmup_epochs=20", "--set", "teaching_epochs=20", "--device", "cpu"]


@pytest.fixture
def mtgcn_command(capsys):
    """Runs a command in this process; gives exit status, standard output and standard error."""

    def command(*arguments):
        status = cli.main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return command


def write_csv(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


def read_csv(path):
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


class OwnFiles:
    """A graph of three easy classes as three CSV files; ids are gapped and look like numbers with zeros in front."""

    def __init__(self, folder, make_graph):
        self.folder = folder
        graph = make_graph(nodes=NODES, easy=True, sparse=False)
        self.truth = {f"{7 * node:04}": CLASSES[label] for node, label in enumerate(graph.labels)}
        ids = list(self.truth)
        edges = np.argwhere(np.triu(graph.adjacency.toarray()))
        self.edge_rows = [["source", "target"], *([ids[first], ids[second]] for first, second in edges)]
        self.node_rows = [
            ["id", *(f"f{number}" for number in range(graph.num_features))],
            *([name, *map(str, row)] for name, row in zip(ids, graph.features.tolist(), strict=True)),
        ]
        self.label_rows = [["id", "label"], *([name, self.truth[name]] for name in ids[:24])]
        self.write()

    def write(self):
        self.edges = write_csv(self.folder / "edges.csv", self.edge_rows)
        self.nodes = write_csv(self.folder / "nodes.csv", self.node_rows)
        self.labels = write_csv(self.folder / "labels.csv", self.label_rows)

    @property
    def options(self):
        return ["--edges", self.edges, "--nodes", self.nodes, "--labels", self.labels]

    @property
    def out(self):
        return self.folder / "model"

    def content(self):
        """Every file in the folder, by name."""
        return {path.relative_to(self.folder): path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}


@pytest.fixture
def own(tmp_path, make_graph):
    return OwnFiles(tmp_path, make_graph)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory, make_graph):
    """Files and the model made of them, to be read only."""
    files = OwnFiles(tmp_path_factory.mktemp("own"), make_graph)
    assert cli.main([str(part) for part in ["fit", *files.options, "--out", files.out, *QUICK, "--folds", 0]]) == 0
    return files


# ---- fit


def test_fit_prints_a_summary_and_writes_a_model(mtgcn_command, own):
    status, out, err = mtgcn_command("fit", *own.options, "--out", own.out, *QUICK)
    assert (status, err) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert lines["graph"].startswith("60 nodes, ")
    assert lines["graph"].endswith(" edges, 12 features")
    assert lines["labels"] == "24: ant 8, bee 8, cat 8"
    assert lines["fitted"].startswith("mt-gcn, 40 iterations, ")
    assert "% expected (95 % interval" in lines["accuracy"]
    assert "cross-validated on 24 labels in 5 folds" in lines["accuracy"]
    assert lines["model"] == str(own.out)
    model = load_model(own.out)
    right = [model.transduction_[place] == own.truth[name] for place, name in enumerate(model.graph_.node_ids)]
    assert np.mean(right) > 0.9


def test_fit_json_is_one_object_and_nothing_else(mtgcn_command, own):
    status, out, err = mtgcn_command("fit", *own.options, "--out", own.out, *QUICK, "--json")
    assert (status, err) == (0, "")
    summary = json.loads(out)
    assert (summary["nodes"], summary["features"], summary["method"]) == (60, 12, "mt-gcn")
    assert summary["labels"] == {"ant": 8, "bee": 8, "cat": 8}
    assert summary["expected_accuracy"]["labels"] == 24
    assert 0 <= summary["expected_accuracy"]["ci95"][0] <= summary["expected_accuracy"]["accuracy"] <= 1
    assert summary["why_no_expected_accuracy"] is None
    assert 1 / 3 < summary["mean_confidence"] <= 1
    assert summary["model"] == str(own.out)
    told = read_card(own.out)["training"]
    assert told["expected_accuracy"] == summary["expected_accuracy"]
    assert told["labels_given"] == summary["labels"]


def test_how_labels_cover_the_components(mtgcn_command, own):
    # Two nodes linked to each other alone, one linked to nobody, none of them labelled.
    own.node_rows += [[name, *["0.5"] * 12] for name in ("x1", "x2", "lonely")]
    own.edge_rows += [["x1", "x2"]]
    own.write()
    _, out, _ = mtgcn_command("fit", *own.options, "--out", own.out, *QUICK, "--folds", 0, "--json")
    reach = json.loads(out)["coverage"]
    assert (reach["nodes_without_labels"] >= 3, reach["isolated_nodes"] >= 1) == (True, True)
    assert reach["components"] - reach["components_with_labels"] >= 2
    status, out, _ = mtgcn_command("fit", *own.options, "--out", own.out, *QUICK, "--folds", 0)
    assert status == 0
    assert "in components without labels" in out
    assert "accuracy    not known: not measured, as asked (--folds 0)" in out


def test_few_labels_are_said_to_be_few(mtgcn_command, own):
    own.label_rows = own.label_rows[:7]
    own.write()
    status, out, _ = mtgcn_command("fit", *own.options, "--out", own.out, *QUICK)
    assert status == 0
    assert "accuracy    not known: 6 labels are too few to tell; 20 are needed" in out


def test_a_class_with_one_label_is_warned_of(mtgcn_command, own):
    own.label_rows = own.label_rows[:6]  # ant 2, bee 2, cat 1
    own.write()
    status, out, _ = mtgcn_command("fit", *own.options, "--out", own.out, *QUICK)
    assert status == 0
    assert any(line.startswith("warning") and "'cat'" in line for line in out.splitlines())


def test_what_reading_did_is_noted(mtgcn_command, own):
    own.edge_rows += [own.edge_rows[1][::-1]]  # one edge in both directions, so that the others seem directed
    own.write()
    status, out, err = mtgcn_command("fit", *own.options, "--out", own.out, *QUICK, "--folds", 0)
    assert (status, err) == (0, "")
    assert any(line.startswith("note") and "without direction" in line for line in out.splitlines())


def test_labels_may_stand_in_the_node_table(mtgcn_command, own):
    labels = dict(own.label_rows[1:])
    own.node_rows = [[*row, "label" if row[0] == "id" else labels.get(row[0], "")] for row in own.node_rows]
    own.write()
    options = ["--edges", own.edges, "--nodes", own.nodes]
    status, _, err = mtgcn_command("fit", *options, "--out", own.out, *QUICK, "--folds", 0)
    assert (status, err) == (0, "")
    assert load_model(own.out).n_features_in_ == 12


def test_columns_may_be_called_anything(mtgcn_command, own):
    own.edge_rows[0], own.label_rows[0] = ["one", "other"], ["who", "what"]
    own.node_rows = [["remark", *row] if row[0] == "id" else ["text", *row] for row in own.node_rows]
    own.write()
    named = ["--column", "source=one", "--column", "target=other", "--features", "f0,f1,f2,f3"]
    status, _, err = mtgcn_command("fit", *own.options, *named, "--out", own.out, *QUICK, "--folds", 0)
    assert (status, err) == (0, "")
    assert load_model(own.out).graph_.feature_names == ("f0", "f1", "f2", "f3")
    # The text column is no feature of the model, so it is in nobody's way here either.
    predictions = own.folder / "predictions.csv"
    named = ["--column", "source=one", "--column", "target=other"]
    status, _, err = mtgcn_command("predict", own.out, *own.options[:4], *named, "--new-graph", "--out", predictions)
    assert (status, err) == (0, "")
    assert len(read_csv(predictions)) == NODES


def test_edges_alone_will_do(mtgcn_command, own):
    linked = {name for row in own.edge_rows[1:] for name in row}
    own.label_rows = [row for row in own.label_rows if row[0] in linked or row[0] == "id"]
    own.write()
    options = ["--edges", own.edges, "--labels", own.labels]
    status, out, err = mtgcn_command("fit", *options, "--out", own.out, *QUICK, "--folds", 0)
    assert (status, err) == (0, "")
    assert "no features" in out


def test_features_alone_will_do(mtgcn_command, own):
    options = ["--nodes", own.nodes, "--knn", 5, "--labels", own.labels]
    status, _, err = mtgcn_command("fit", *options, "--out", own.out, *QUICK, "--folds", 0)
    assert (status, err) == (0, "")
    model = load_model(own.out)
    assert model.neighbors == 5
    assert model.graph_.num_edges >= 5 * NODES / 2
    assert np.mean([model.transduction_[place] == kind for place, kind in enumerate(own.truth.values())]) > 0.9


def test_one_file_for_everything(mtgcn_command, own):
    import networkx as nx

    labels = dict(own.label_rows[1:])
    graph = nx.Graph()
    for name, *values in own.node_rows[1:]:
        known = {"label": labels[name]} if name in labels else {}
        graph.add_node(name, **{f"f{place}": float(value) for place, value in enumerate(values)}, **known)
    graph.add_edges_from(own.edge_rows[1:])
    nx.write_graphml(graph, own.folder / "own.graphml")
    status, out, err = mtgcn_command("fit", "--graph", own.folder / "own.graphml", "--out", own.out, *QUICK, "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["labels"] == {"ant": 8, "bee": 8, "cat": 8}
    predictions = own.folder / "predictions.csv"
    unseen = ["--graph", own.folder / "own.graphml", "--out", predictions]
    assert mtgcn_command("predict", own.out, *unseen)[0] == 0
    assert [row["id"] for row in read_csv(predictions)] == list(own.truth)


def test_the_same_seed_gives_the_same_model(mtgcn_command, own):
    numbers = []
    for name, seed in (("first", 5), ("again", 5), ("other", 6)):
        mtgcn_command("fit", *own.options, "--out", own.folder / name, *QUICK, "--folds", 0, "--seed", seed)
        numbers.append(load_model(own.folder / name).label_distributions_)
    assert np.array_equal(numbers[0], numbers[1])
    assert not np.array_equal(numbers[0], numbers[2])


def test_every_method_can_be_fitted(mtgcn_command, own):
    status, out, err = mtgcn_command("fit", *own.options, "--out", own.out, "--method", "lp", "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["expected_accuracy"]["accuracy"] > 0.5
    assert not (own.out / "weights.safetensors").exists()


def test_a_report_is_written_beside_the_model(mtgcn_command, own):
    page = own.folder / "pages" / "fit.html"
    status, out, err = mtgcn_command("fit", *own.options, "--out", own.out, *QUICK, "--folds", 0, "--report", page)
    assert (status, err) == (0, "")
    assert f"report      {page}" in out
    assert page.read_text().lstrip().lower().startswith("<!doctype html")


def test_fit_says_who_decides(mtgcn_command, own, weighted_peers):
    page = own.folder / "fit.html"
    options = ["--out", own.out, "--method", weighted_peers, "--device", "cpu", "--folds", 0]
    status, out, err = mtgcn_command("fit", *own.options, *options, "--report", page)
    assert (status, err) == (0, "")
    assert [line for line in out.splitlines() if line.startswith("peers")] == [
        "peers       the near neighbourhood decides here",
        "peers       near neighbourhood weight 55 % (held-out accuracy 80 %), far neighbourhood 30 % (70 %), "
        "features 10 % (52 %), structure 5 %",
    ]
    assert "The near neighbourhood decides here" in page.read_text()
    status, out, _ = mtgcn_command("fit", *own.options, *options, "--set", "teaching=0.1", "--json")
    summary = json.loads(out)
    assert [peer["name"] for peer in summary["peers"]][::3] == ["near neighbourhood", "structure"]
    assert summary["peers"][0].keys() == {"name", "weight", "held_out_accuracy", "agreement"}
    assert summary["peers"][3]["held_out_accuracy"] is None
    assert summary["teaching"] == 0.1
    told = read_card(own.out)["training"]
    assert (told["peers"], told["teaching"]) == (summary["peers"], 0.1)
    status, out, _ = mtgcn_command("fit", *own.options, *options, "--set", "teaching=0.1")
    assert "peers       the given labels carry little information, so the peers hardly teach each other" in out


def test_of_methods_without_weighted_peers_there_is_nothing_to_say(mtgcn_command, own):
    options = ["--out", own.out, "--method", "lp", "--folds", 0]
    _, out, _ = mtgcn_command("fit", *own.options, *options, "--json")
    assert (json.loads(out)["peers"], json.loads(out)["teaching"]) == (None, None)
    _, out, _ = mtgcn_command("fit", *own.options, *options)
    assert not any(line.startswith("peers") for line in out.splitlines())


def test_the_peers_that_count_agree_in_the_predictions(mtgcn_command, own, weighted_peers):
    mtgcn_command("fit", *own.options, "--out", own.out, "--method", weighted_peers, "--folds", 0)
    path = own.folder / "predictions.csv"
    assert mtgcn_command("predict", own.out, "--out", path)[0] == 0
    peers = load_model(own.out).peer_distributions_.argmax(axis=2)
    assert [row["peers_agree"] == "yes" for row in read_csv(path)] == (peers[0] == peers[2]).tolist()  # 55 and 30 %
    assert not (peers == peers[0]).all(axis=0).all()


# ---- predict


def test_predictions_for_the_nodes_of_the_fit(mtgcn_command, fitted, tmp_path):
    path = tmp_path / "predictions.csv"
    status, out, err = mtgcn_command("predict", fitted.out, "--out", path)
    assert (status, err) == (0, "")
    assert out.startswith("60 nodes: ant ")
    rows = read_csv(path)
    assert list(rows[0]) == [
        *("id", "predicted", "probability", "probability_ant", "probability_bee", "probability_cat"),
        *("peers_agree", "role", "pseudo_label_epoch"),
    ]
    assert [row["id"] for row in rows] == list(fitted.truth)  # 0007 is still 0007
    given = {name for name, _ in fitted.label_rows[1:]}
    for row in rows:
        shares = {kind: float(row[f"probability_{kind}"]) for kind in CLASSES}
        assert sum(shares.values()) == pytest.approx(1, abs=3e-6)
        assert row["predicted"] == max(shares, key=shares.get)
        assert float(row["probability"]) == max(shares.values())
        assert (row["role"] == "given") == (row["id"] in given)
        assert (row["role"] == "pseudo-label") == (row["pseudo_label_epoch"] != "")
        assert row["peers_agree"] in ("yes", "no")
    epochs = {int(row["pseudo_label_epoch"]) for row in rows if row["pseudo_label_epoch"]}
    assert epochs
    assert epochs <= set(range(21, 41))  # teaching begins after 20 epochs


def test_predictions_for_a_graph_the_peers_have_not_seen(mtgcn_command, fitted, tmp_path):
    # The same graph under other names, its columns in another order: the same answers.
    renamed = {name: f"new {name}" for name in fitted.truth}
    header, *rows = fitted.node_rows
    order = [0, *range(len(header) - 1, 0, -1)]
    nodes = write_csv(
        tmp_path / "nodes.csv",
        [[header[column] for column in order]]
        + [[renamed[row[0]], *(row[column] for column in order[1:])] for row in rows],
    )
    edges = write_csv(
        tmp_path / "edges.csv", [fitted.edge_rows[0], *([renamed[a], renamed[b]] for a, b in fitted.edge_rows[1:])]
    )
    seen, unseen = tmp_path / "seen.csv", tmp_path / "unseen.csv"
    assert mtgcn_command("predict", fitted.out, "--out", seen)[0] == 0
    status, out, err = mtgcn_command(
        "predict", fitted.out, "--edges", edges, "--nodes", nodes, "--new-graph", "--out", unseen, "--json"
    )
    assert (status, err) == (0, "")
    assert json.loads(out)["nodes"] == NODES
    for old, new in zip(read_csv(seen), read_csv(unseen), strict=True):
        assert new["id"] == renamed[old["id"]]
        assert (new["predicted"], new["peers_agree"]) == (old["predicted"], old["peers_agree"])
        assert float(new["probability"]) == pytest.approx(float(old["probability"]), abs=1e-4)
        assert (new["role"], new["pseudo_label_epoch"]) == ("neither", "")


def test_predictions_for_new_rows_alone(mtgcn_command, fitted, tmp_path):
    header, *rows = fitted.node_rows
    # A little off an old node of each class each.
    new = [[f"new{number}", *(str(float(value) * 1.01) for value in row[1:])] for number, row in enumerate(rows[:3])]
    path = tmp_path / "predictions.csv"
    nodes = write_csv(tmp_path / "nodes.csv", [header, *new])
    status, _, err = mtgcn_command("predict", fitted.out, "--nodes", nodes, "--out", path)
    assert (status, err) == (0, "")
    table = read_csv(path)
    assert [row["predicted"] for row in table] == list(CLASSES)
    assert {row["peers_agree"] for row in table} <= {"yes", "no"}


def test_predictions_for_nodes_the_model_knows(mtgcn_command, fitted, tmp_path):
    header, *rows = fitted.node_rows
    nodes = write_csv(tmp_path / "nodes.csv", [header, *rows[::-1]])
    of_fit, again = tmp_path / "fit.csv", tmp_path / "again.csv"
    assert mtgcn_command("predict", fitted.out, "--out", of_fit)[0] == 0
    status, _, err = mtgcn_command("predict", fitted.out, "--nodes", nodes, "--out", again)
    note = "60 of 60 nodes have ids of the model and get the predictions of the fit"
    assert (status, err) == (0, f"mtgcn: note: {note}\n")
    assert read_csv(again) == read_csv(of_fit)[::-1]
    _, out, err = mtgcn_command("predict", fitted.out, "--nodes", nodes, "--out", again, "--json")
    assert (json.loads(out)["notes"], err) == ([note], "")


def new_node_files(folder, fitted):
    """A node like the first and one like the second, each with edges to its like, by zeros-in-front ids."""
    header, *rows = fitted.node_rows
    nodes = write_csv(folder / "new.csv", [header, ["9001", *rows[0][1:]], ["9002", *rows[1][1:]]])
    ends = [["9001", rows[3][0]], ["9001", rows[6][0]], [rows[4][0], "9002"], ["9002", rows[7][0]]]
    return ["--nodes", nodes, "--edges", write_csv(folder / "new-edges.csv", [["source", "target"], *ends])]


def test_new_nodes_join(mtgcn_command, fitted, tmp_path):
    path, everybody, of_fit = (tmp_path / name for name in ("new-p.csv", "all.csv", "fit.csv"))
    new = new_node_files(tmp_path, fitted)
    status, out, err = mtgcn_command("predict", fitted.out, *new, "--out", path)
    assert (status, err) == (0, "")
    assert out == f"2 nodes: ant 1, bee 1, cat 0\n{path}\n"
    assert [(row["id"], row["predicted"], row["role"]) for row in read_csv(path)] == [
        ("9001", "ant", "neither"),
        ("9002", "bee", "neither"),
    ]
    assert mtgcn_command("predict", fitted.out, "--out", of_fit)[0] == 0
    assert mtgcn_command("predict", fitted.out, *new, "--all", "--out", everybody)[0] == 0
    assert read_csv(everybody) == read_csv(of_fit) + read_csv(path)


def test_predictions_on_standard_output(mtgcn_command, fitted, tmp_path):
    path = tmp_path / "predictions.csv"
    mtgcn_command("predict", fitted.out, "--out", path)
    status, out, err = mtgcn_command("predict", fitted.out, "--out", "-")
    assert (status, out) == (0, path.read_text(encoding="utf-8"))
    assert err.startswith("mtgcn: 60 nodes: ant ")
    assert not (tmp_path / "-").exists()


@pytest.mark.slow
def test_whoever_has_read_enough_of_standard_output_is_not_bothered(fitted):
    program = f"{sys.executable} -m mtgcn predict {fitted.out} --out - | head -n 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {program}"], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("id,predicted,")
    assert (done.stdout.count("\n"), "Broken pipe" in done.stderr, "Traceback" in done.stderr) == (1, False, False)


# ---- label


def test_label_says_what_changed_and_replaces_the_model(mtgcn_command, own, model_copy):
    before = load_model(own.out)
    ids = list(own.truth)
    wrong = [["id", "label"], [ids[30], own.truth[ids[30]]], [ids[31], own.truth[ids[31]]], [ids[0], "bee"]]
    more = write_csv(own.folder / "more.csv", [*wrong, [ids[1], own.truth[ids[1]]], [ids[40], ""]])
    status, out, err = mtgcn_command("label", own.out, more)
    assert (status, err) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert lines["added"] == "2: ant 1, bee 1"
    assert lines["corrected"] == f"{ids[0]}: ant before, now bee"
    assert lines["known"] == "1 of the labels are in the model already"
    assert lines["labels"] == "26: ant 8, bee 10, cat 8"
    assert lines["changed"].endswith("of 36 nodes without a label before")
    assert lines["confidence"].endswith(" before")
    assert "% expected" in lines["accuracy"]
    assert lines["accuracy"].endswith("; not known before")  # the first fit was not asked to measure it
    model = load_model(own.out)
    assert model.graph_.label_counts.tolist() == [8, 10, 8]
    assert model.method_ == before.method_
    told = read_card(own.out)["training"]
    assert (told["labels_given"], told["expected_accuracy"]["labels"]) == ({"ant": 8, "bee": 10, "cat": 8}, 26)
    status, out, err = mtgcn_command("label", own.out, more, "--json")
    summary = json.loads(out)
    assert (status, err, summary["refit"], summary["changes"]["repeated"]) == (0, "", None, 4)
    content = own.content()
    status, out, _ = mtgcn_command("label", own.out, more)
    assert out.splitlines()[-1] == f"model       {own.out}, unchanged: no label is new"
    assert own.content() == content


def test_what_reading_did_is_kept_for_the_page_when_labels_are_added(mtgcn_command, own):
    ids = list(own.truth)
    own.edge_rows.append(own.edge_rows[1][::-1])  # both ways, while all others go one way, which reading remarks
    own.write()
    mtgcn_command("fit", *own.options, "--out", own.out, "--method", "lp", "--folds", 0)
    notes = read_card(own.out)["training"]["notes"]
    assert notes
    more = write_csv(own.folder / "more.csv", [["id", "label"], [ids[50], own.truth[ids[50]]]])
    mtgcn_command("label", own.out, more)
    assert read_card(own.out)["training"]["notes"][: len(notes)] == notes
    status, out, _ = mtgcn_command("report", own.out)
    assert (status, out) == (0, f"{own.out / 'report.html'}\n")
    page = (own.out / "report.html").read_text(encoding="utf-8")
    assert "Notes on the files" in page
    assert "of the 25" in page  # labels that accuracy was measured on, the added one among them


def test_label_json_tells_the_fit_before_and_after(mtgcn_command, own, model_copy):
    ids = list(own.truth)
    more = write_csv(own.folder / "more.csv", [["who", "what"], [ids[50], own.truth[ids[50]]]])
    named = ["--column", "id=who", "--column", "label=what"]
    status, out, err = mtgcn_command("label", own.out, more, *named, "--folds", 0, "--json")
    assert (status, err) == (0, "")
    refit = json.loads(out)["refit"]
    assert refit["nodes_without_label_before"] == 36
    assert 0 <= refit["nodes_predicted_otherwise"] <= 36
    assert refit["fit"]["labels"] == {"ant": 8, "bee": 8, "cat": 9}
    assert refit["fit"]["why_no_expected_accuracy"] == "not measured, as asked (--folds 0)"


def test_a_new_class_must_be_said_to_be_one(mtgcn_command, own, model_copy):
    ids = list(own.truth)
    more = write_csv(own.folder / "more.csv", [["id", "label"], [ids[50], "dog"], [ids[51], "dog"]])
    message = "unknown class 'dog'; choose from ant, bee, cat. If it is a new class, say so: --new-classes dog"
    assert_refused(mtgcn_command, own, ["label", own.out, more], message)
    status, out, err = mtgcn_command("label", own.out, more, "--new-classes", "dog", "--folds", 0)
    assert (status, err) == (0, "")
    assert "new class   dog" in out
    assert load_model(own.out).classes_.tolist() == ["ant", "bee", "cat", "dog"]


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([["nobody", "ant"]], [], "'nobody' is not in"),
        ([], [], "holds a header and no label"),
        ([["0007", "ant"], ["0007", "bee"]], [], "two labels for node '0007'"),
        ([["0007", "ant"]], ["--folds", 1], "folds is 1; give at least 2, or 0"),
        ([["0007", "ant"]], ["--column", "source=x"], "unknown column role 'source'"),
        ([["0007", "ant"]], ["--device", "gpu"], "unknown device 'gpu'"),
    ],
)
def test_labels_that_cannot_be_added(mtgcn_command, own, model_copy, rows, options, message):
    more = write_csv(own.folder / "more.csv", [["id", "label"], *rows])
    assert_refused(mtgcn_command, own, ["label", own.out, more, *options], message)


# ---- suggest


def test_suggestions_go_to_a_file_that_can_be_filled_in(mtgcn_command, own, model_copy):
    path = own.folder / "ask.csv"
    assert mtgcn_command("suggest", own.out, "--count", 3, "--out", path) == (0, f"{path}\n", "")
    rows = read_csv(path)
    assert list(rows[0]) == ["id", "label", "predicted", "score", "reason"]
    assert {row["label"] for row in rows} == {""}
    _, out, _ = mtgcn_command("suggest", own.out, "--count", 10, "--json")
    assert [one["node"] for one in json.loads(out)["suggestions"]][:3] == [row["id"] for row in rows]
    status, out, err = mtgcn_command("suggest", own.out, "--count", 3, "--out", "-")
    assert (status, out, err) == (0, path.read_text(encoding="utf-8"), "")
    answered = write_csv(own.folder / "answered.csv", [["id", "label"], *([row["id"], "ant"] for row in rows)])
    assert mtgcn_command("label", own.out, answered, "--folds", 0)[0] == 0  # all of one class, which is no fault here
    assert set(load_model(own.out).graph_.node_ids[load_model(own.out).graph_.known]) >= {row["id"] for row in rows}


def test_suggest_says_which_and_why(mtgcn_command, fitted):
    status, out, err = mtgcn_command("suggest", fitted.out, "--count", 4, "--json")
    assert (status, err) == (0, "")
    suggestions = json.loads(out)["suggestions"]
    given = {name for name, _ in fitted.label_rows[1:]}
    assert len({suggestion["node"] for suggestion in suggestions} - given) == 4
    assert all(suggestion["node"] in fitted.truth and suggestion["reason"] for suggestion in suggestions)
    status, table, err = mtgcn_command("suggest", fitted.out, "--count", 4)
    assert (status, err) == (0, "")
    assert all(suggestion["node"] in table for suggestion in suggestions)


# ---- compare


def test_compare_on_own_files(mtgcn_command, fitted, monkeypatch):
    from mtgcn.methods import METHODS, create

    def quick(name, **settings):
        known = METHODS[name].__dataclass_fields__
        few = {"epochs": 5, "warmup_epochs": 5, "teaching_epochs": 5}
        return create(name, **settings, **{key: value for key, value in few.items() if key in known})

    monkeypatch.setattr("mtgcn.methods.create", quick)
    options = [*fitted.options, "--methods", "gcn,mt-gcn", "--labels-per-class", 3, "--runs", 4]
    status, out, err = mtgcn_command("compare", *options, "--json")
    assert (status, err) == (0, "")
    gcn, mt_gcn = json.loads(out)["cells"]
    assert (gcn["dataset"], gcn["labels_per_class"], gcn["runs"]) == ("edges.csv", 3, 4)
    # 15 of the 24 labels are left to be scored on.
    assert all(round(share * 15, 6) == round(share * 15) for share in mt_gcn["accuracy"]["per_run"])


def test_compare_says_what_reading_did(mtgcn_command, own):
    own.edge_rows += [own.edge_rows[1][::-1]]
    own.write()
    options = [*own.options, "--labels-per-class", 3, "--runs", 2, "--methods", "lp"]
    status, _, err = mtgcn_command("compare", *options)
    assert status == 0
    assert err.startswith("mtgcn: note: ")
    assert mtgcn_command("compare", *options, "--json")[2] == ""


def test_compare_needs_one_graph(mtgcn_command, own):
    message = "give either --dataset or own files"
    assert_refused(mtgcn_command, own, ["compare", "--labels-per-class", 3], message)
    assert_refused(mtgcn_command, own, ["compare", "--dataset", "digits", *own.options], message)
    arguments = ["compare", *own.options, "--split", "public"]
    assert_refused(mtgcn_command, own, arguments, "own files have no public split")


def test_a_file_called_cora_is_not_the_papers_cora(mtgcn_command, own):
    own.edges = own.edges.rename(own.folder / "cora.csv")
    assert mtgcn_command("fit", *own.options, "--out", own.out, *QUICK, "--folds", 0)[0] == 0
    assert load_model(own.out).graph_.name == "cora.csv"


# ---- columns of every kind


@pytest.fixture
def mixed(own):
    """The same graph, its node table as somebody keeps it: features of unlike size, gaps, dates, words and notes."""
    header, *rows = own.node_rows
    own.node_rows = [[*header[:4], "income", "city", "joined", "member", "notes"]]
    for place, row in enumerate(rows):
        kind = CLASSES.index(own.truth[row[0]])
        income = "" if place % 9 == 4 else f"{(kind + 1) * 20000 + 37 * place},50"
        city = "?" if place % 11 == 3 else ("Köln", "Ulm", "Hof")[kind]
        decimals = [cell.replace(".", ",") for cell in row[1:4]]
        joined = f"{place % 28 + 1:02}.{kind + 1:02}.2024"
        own.node_rows.append([row[0], *decimals, income, city, joined, ("ja", "nein")[kind % 2], f"note {place}"])
    own.write()
    return own


def test_columns_of_every_kind_are_prepared_and_described(mtgcn_command, mixed):
    status, out, err = mtgcn_command("fit", *mixed.options, "--out", mixed.out, *QUICK, "--folds", 0)
    assert (status, err) == (0, "")
    columns = [line.split(maxsplit=1)[1] for line in out.splitlines() if line.startswith("column ")]
    assert columns == [
        *(f"f{number}: standardised (decimal commas)" for number in range(3)),
        "income: standardised (decimal commas), missing values filled and marked",
        "city: 3 values, one-hot, missing values marked",
        "joined: days (written day, month, year), standardised",
        "member: yes or no",
        "notes: left out, 60 different values",
    ]
    assert read_card(mixed.out)["training"]["columns"] == columns
    model = load_model(mixed.out)
    assert np.mean([model.transduction_[place] == kind for place, kind in enumerate(mixed.truth.values())]) > 0.95


def test_new_nodes_are_prepared_as_those_of_the_fit(mtgcn_command, mixed):
    assert mtgcn_command("fit", *mixed.options, "--out", mixed.out, *QUICK, "--folds", 0)[0] == 0
    header, *rows = mixed.node_rows
    new = [["new " + row[0], *row[1:]] for row in rows[30:]]
    new[0][5], new[1][4] = "Paris", "k.A."
    order = [5, 0, 4, 3, 2, 1, 7, 6]  # and the notes are not even there
    table = [[row[place] for place in order] for row in (header, *new)]
    path = write_csv(mixed.folder / "new.csv", table)
    predictions = mixed.folder / "predictions.csv"
    status, _, err = mtgcn_command("predict", mixed.out, "--nodes", path, "--out", predictions)
    assert (status, err) == (0, "")
    right = [row["predicted"] == mixed.truth[row["id"].removeprefix("new ")] for row in read_csv(predictions)]
    assert np.mean(right) > 0.9
    path = write_csv(
        mixed.folder / "new.csv", [[cell for cell in row if cell not in ("city", row[0])] for row in table]
    )
    arguments = ["predict", mixed.out, "--nodes", path, "--out", mixed.folder / "other.csv", "--column", "id=id"]
    assert_refused(mtgcn_command, mixed, arguments, "the model was fitted with the column 'city', which")
    arguments = ["predict", mixed.out, "--nodes", path, "--out", mixed.folder / "other.csv", "--column", "date=joined"]
    assert_refused(mtgcn_command, mixed, arguments, "the model knows what its columns are")


def test_a_person_says_what_columns_are(mtgcn_command, mixed):
    told = ["--column", "category=member", "--column", "ignore=notes", "--column", "text=city", "--exclude", "f0,f1"]
    _, out, _ = mtgcn_command("fit", *mixed.options, *told, "--check", "--json")
    assert json.loads(out)["columns"] == [
        "f2: standardised (decimal commas)",
        "income: standardised (decimal commas), missing values filled and marked",
        "city: left out, free text, 3 different values",
        "joined: days (written day, month, year), standardised",
        "member: 2 values, one-hot",
    ]
    _, out, _ = mtgcn_command("fit", *mixed.options, "--features", "income,city", "--check", "--json")
    assert [line.split(":")[0] for line in json.loads(out)["columns"]] == ["income", "city"]


def test_check_reads_and_fits_nothing(mtgcn_command, own):
    before = own.content()
    status, out, err = mtgcn_command("fit", *own.options, "--check")
    assert (status, err) == (0, "")
    assert "would fit   mt-plus on " in out
    assert out.splitlines()[-1].startswith("checked     nothing was fitted")
    assert own.content() == before
    assert_refused(mtgcn_command, own, ["fit", *own.options], "no folder for the model; give --out, or --check")


@pytest.mark.parametrize(("choice", "nodes"), [("drop", 60), ("add", 62)])
def test_edges_to_nobody(mtgcn_command, own, choice, nodes):
    own.edge_rows += [["0007", "nobody"], ["noone", "nobody"], ["0007", "0014"]]
    own.write()
    message = (
        f"edges.csv: 2 edges are of nodes that are not in {own.nodes} (line {len(own.edge_rows) - 2} 'nobody', "
        f"line {len(own.edge_rows) - 1} 'noone'); add these there, or say --unknown-nodes drop to leave such "
        "edges out, or --unknown-nodes add to take them as nodes"
    )
    assert_refused(mtgcn_command, own, ["fit", *own.options, "--out", own.out, *QUICK], message)
    options = ["--unknown-nodes", choice, "--out", own.out, *QUICK, "--folds", 0, "--json"]
    status, out, _ = mtgcn_command("fit", *own.options, *options)
    assert status == 0
    assert json.loads(out)["nodes"] == nodes
    assert "2 ids that are not in" in json.loads(out)["notes"][0]


# ---- bad input: one line, status 2, nothing written


def assert_refused(command, own, arguments, message):
    before = own.content()
    status, out, err = command(*arguments)
    assert (status, out) == (2, ""), err
    assert err.startswith("mtgcn: error: ")
    assert err.count("\n") == 1
    assert message in err, err
    assert own.content() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda own: own.node_rows[5].__setitem__(2, "inf"),
            "nodes.csv, column 'f1': 1 of 60 values are not numbers (line 6 'inf')",
        ),
        (
            lambda own: [row.__setitem__(2, "many") for row in own.node_rows[5:9]],
            "nodes.csv, column 'f1': 4 of 60 values are not numbers (line 6 'many', line 7 'many', line 8 'many', …); "
            "mend them, or say --column number=f1 to count them as missing, or --column category=f1",
        ),
        (lambda own: own.edge_rows.append(["0007", "nobody"]), "node 'nobody' is not in"),
        (lambda own: own.label_rows.append(["nobody", "ant"]), "node 'nobody' is not in"),
        (lambda own: own.label_rows.append(["0000", "bee"]), "0000"),
        (lambda own: own.node_rows.append(own.node_rows[3]), "keep one row per node"),
        (lambda own: own.label_rows.__delitem__(slice(2, None)), "one class"),
        (lambda own: own.label_rows.__delitem__(slice(1, None)), "labels.csv holds a header and no label"),
        (lambda own: own.edge_rows.__delitem__(slice(1, None)), "edges.csv holds a header and no edge"),
        (lambda own: own.node_rows.__delitem__(slice(1, None)), "nodes.csv holds a header and no row"),
        (
            lambda own: own.label_rows.extend([name, kind] for name, kind in list(own.truth.items())[24:]),
            "all 60 nodes are labelled, so there is nothing to predict",
        ),
    ],
)
def test_bad_tables(mtgcn_command, own, change, message):
    change(own)
    own.write()
    assert_refused(mtgcn_command, own, ["fit", *own.options, "--out", own.out, *QUICK], message)


PIECES = st.sampled_from(
    [b"", b",", b"\n", b'"', b"-1", b"nan", b"\xff", b"\x00", b"0007", b"label", b";", b"1e999", b"#"]
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["edges.csv", "nodes.csv", "labels.csv"]),
    place=st.floats(0, 1),
    size=st.integers(0, 40),
    piece=PIECES,
)
@pytest.mark.slow
def test_whatever_is_in_the_files_it_is_an_answer_or_one_line(mtgcn_command, own, name, place, size, piece):
    own.write()
    path = own.folder / name
    content = path.read_bytes()
    cut = int(place * len(content))
    path.write_bytes(content[:cut] + piece + content[cut + size :])
    status, out, err = mtgcn_command("fit", *own.options, "--out", own.out, "--method", "lp", "--folds", 0)
    if status == 0:
        assert np.isfinite(load_model(own.out).label_distributions_).all()
    else:
        assert (status, out, err.count("\n")) == (2, "", 1)


def test_a_negative_weight(mtgcn_command, own):
    own.edge_rows = [[*row, "weight" if row[0] == "source" else "1"] for row in own.edge_rows]
    own.edge_rows[4][2] = "-0.5"
    own.write()
    assert_refused(mtgcn_command, own, ["fit", *own.options, "--out", own.out, *QUICK], "is -0.5; weights must be >= 0")


def empty(content):
    return b""


def cut_in_half(content):
    return content[: len(content) // 2]


def half_latin_1(content):
    return content.replace(b"ant", "améise".encode("latin-1")).replace(b"bee", "abéille".encode())


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("edges.csv", empty, "edges.csv is empty"),
        ("nodes.csv", empty, "nodes.csv is empty"),
        ("labels.csv", empty, "labels.csv is empty"),
        ("nodes.csv", cut_in_half, "if it was cut off"),
        ("labels.csv", half_latin_1, "is not UTF-8 while line"),
    ],
)
def test_bad_files(mtgcn_command, own, name, damage, message):
    path = own.folder / name
    path.write_bytes(damage(path.read_bytes()))
    assert_refused(mtgcn_command, own, ["fit", *own.options, "--out", own.out, *QUICK], message)


def test_bad_graph_files(mtgcn_command, own):
    np.savez(own.folder / "oblong.npz", adjacency=np.ones((2, 3)), labels=[0, 1])
    np.savez(own.folder / "short.npz", adjacency=np.ones((3, 3)), features=np.ones((2, 4)), labels=[0, 1, -1])
    (own.folder / "half.graphml").write_text("<graphml><graph>")
    for name, message in (("oblong.npz", "square"), ("short.npz", "one row per node"), ("half.graphml", "XML")):
        arguments = ["fit", "--graph", own.folder / name, "--out", own.out, *QUICK]
        assert_refused(mtgcn_command, own, arguments, message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--classes", "ant,bee,cat,dog"], "class 'dog' has no labelled node; label at least one"),
        (["--classes", "ant,bee"], "a node is labelled 'cat', which --classes does not list"),
        (["--knn", "3"], "--edges gives the edges and --knn would make others"),
        (["--graph", "own.graphml"], "--graph already holds edges and features"),
        (["--method", "mt-gnc"], "unknown method 'mt-gnc'; did you mean 'mt-gcn'?"),
        (["--set", "warmup=3"], "unknown setting 'warmup'; did you mean 'warmup_epochs'?"),
        (["--column", "label"], "column 'label'; write role=column"),
        (["--column", "labels=what"], "unknown role or kind of column 'labels'; did you mean 'label'?"),
        (["--column", "label=what"], "unknown column 'what'"),
        (["--features", "f1,g2"], "unknown column 'g2'"),
        (["--folds", "1"], "folds is 1; give at least 2, or 0"),
        (["--seed", "-1"], "seed is -1; give at least 0"),
        (["--seed", str(2**128 + 1)], "seed is 34028236692093846346…; give at most 2**128"),
        (["--device", "gpu"], "unknown device 'gpu'"),
        (["--edges", "nowhere.csv"], "nowhere.csv does not exist"),
    ],
)
def test_bad_options(mtgcn_command, own, options, message):
    assert_refused(mtgcn_command, own, ["fit", *own.options, "--out", own.out, *QUICK, *options], message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--nodes", "--labels"], "no edges; give --edges or --graph, or --nodes with --knn"),
        (["--edges", "--nodes"], "no node is labelled; give --labels"),
        (["--edges", "--labels", "--knn"], "--edges gives the edges and --knn would make others"),
        (["--labels", "--knn"], "--knn joins nodes with similar features and there are none; add --nodes"),
    ],
)
def test_too_little_to_fit(mtgcn_command, own, options, message):
    values = {"--edges": own.edges, "--nodes": own.nodes, "--labels": own.labels, "--knn": 3}
    given = [part for option in options for part in (option, values[option])]
    assert_refused(mtgcn_command, own, ["fit", *given, "--out", own.out, *QUICK], message)


def test_a_node_table_without_features_has_no_neighbours(mtgcn_command, own):
    own.node_rows = [row[:1] for row in own.node_rows]
    own.write()
    arguments = ["fit", "--nodes", own.nodes, "--knn", 3, "--labels", own.labels, "--out", own.out, *QUICK]
    assert_refused(mtgcn_command, own, arguments, "has no feature columns, so no node is near another")


def test_no_cuda(mtgcn_command, own, fitted, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    message = "torch finds no CUDA device; use --device cpu or auto"
    assert_refused(mtgcn_command, own, ["fit", *own.options, "--out", own.out, *QUICK, "--device", "cuda"], message)
    arguments = ["predict", fitted.out, "--out", own.folder / "predictions.csv", "--device", "cuda"]
    assert_refused(mtgcn_command, own, arguments, message)


def test_too_little_memory_is_told_before_fitting(mtgcn_command, own, monkeypatch):
    monkeypatch.setattr("mtgcn.workflows.fit.available_bytes", lambda _: 20_000)
    monkeypatch.setattr("mtgcn.estimator.graph_model.fit_in_chunks", lambda *_: pytest.fail("must not be tried"))
    arguments = ["fit", *own.options, "--out", own.out, *QUICK]
    assert_refused(mtgcn_command, own, arguments, "out of memory: fitting 60 nodes takes about")


def test_running_out_of_memory_is_told(mtgcn_command, own, monkeypatch):
    monkeypatch.setattr(
        "mtgcn.estimator.graph_model.fit_in_chunks", lambda *_: torch.empty(2**62 - 1, dtype=torch.uint8)
    )
    arguments = ["fit", *own.options, "--out", own.out, *QUICK]
    assert_refused(mtgcn_command, own, arguments, "out of memory while fitting 60 nodes")


# ---- bad places to write to


def test_places_that_cannot_be_written_are_refused_before_fitting(mtgcn_command, own, fitted, monkeypatch):
    monkeypatch.setattr("mtgcn.estimator.graph_model.fit_in_chunks", lambda *_: pytest.fail("must not be tried"))
    blocked, taken = own.edges / "model", own.folder / "thesis"
    taken.mkdir()
    (taken / "chapter1.tex").write_text("years of work")
    fit = ["fit", *own.options, *QUICK, "--out"]
    assert_refused(mtgcn_command, own, [*fit, blocked], "edges.csv is a file; give another folder")
    assert_refused(mtgcn_command, own, [*fit, own.edges], "edges.csv is a file; give a folder for the model")
    assert_refused(mtgcn_command, own, [*fit, taken], "thesis holds files and is no model folder")
    assert_refused(mtgcn_command, own, [*fit, own.out, "--report", own.edges / "page.html"], "is a file; give another")
    assert_refused(mtgcn_command, own, [*fit, own.out, "--report", taken], "thesis is a folder; give a file name")
    suggest = ["suggest", fitted.out, "--out"]
    assert_refused(mtgcn_command, own, [*suggest, taken], "thesis is a folder; give a file name")
    predict = ["predict", fitted.out, "--out"]
    assert_refused(mtgcn_command, own, [*predict, own.edges / "p.csv"], "is a file; give another place")
    assert_refused(mtgcn_command, own, [*predict, taken], "thesis is a folder; give a file name")
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)  # root may write everywhere
    assert_refused(mtgcn_command, own, [*fit, own.out], "permission denied")
    assert_refused(mtgcn_command, own, [*predict, own.folder / "p.csv"], "permission denied")


def test_a_full_disk(mtgcn_command, own, fitted, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    arguments = ["fit", *own.options, "--out", own.out, *QUICK, "--folds", 0]
    assert_refused(mtgcn_command, own, arguments, "cannot write model folder")
    arguments = ["predict", fitted.out, "--out", own.folder / "predictions.csv"]
    assert_refused(mtgcn_command, own, arguments, "No space left on device; make room there, or give another place")


# ---- bad models


@pytest.fixture
def model_copy(fitted, own):
    import shutil

    shutil.copytree(fitted.out, own.out)
    return own.out


def commands_that_read(own):
    return [
        ["predict", own.out, "--out", own.folder / "predictions.csv"],
        ["suggest", own.out],
        ["label", own.out, own.labels],
    ]


def test_a_model_that_was_tampered_with(mtgcn_command, own, model_copy):
    weights = model_copy / "weights.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    for arguments in commands_that_read(own):
        assert_refused(mtgcn_command, own, arguments, "weights.safetensors was changed after it was written")


def test_a_model_from_a_newer_version(mtgcn_command, own, model_copy):
    card = json.loads((model_copy / "card.json").read_text())
    (model_copy / "card.json").write_text(json.dumps({**card, "format": 99}))
    for arguments in commands_that_read(own):
        assert_refused(mtgcn_command, own, arguments, "has format 99")


def test_a_model_from_an_older_version(mtgcn_command, own, model_copy):
    card = json.loads((model_copy / "card.json").read_text())
    (model_copy / "card.json").write_text(json.dumps({**card, "format": 1, "versions": {"mtgcn": "0.2.0"}}))
    for arguments in commands_that_read(own):
        message = "has format 1, written by mtgcn 0.2.0, which reads it"
        assert_refused(mtgcn_command, own, arguments, message)


def test_no_model_at_all(mtgcn_command, own):
    for arguments in commands_that_read(own):
        assert_refused(mtgcn_command, own, arguments, "is no model folder")


def test_new_nodes_must_have_the_features_of_training(mtgcn_command, own, model_copy):
    own.node_rows = [row[:-1] for row in own.node_rows]
    own.write()
    arguments = ["predict", model_copy, "--edges", own.edges, "--nodes", own.nodes, "--out", own.folder / "p.csv"]
    assert_refused(mtgcn_command, own, arguments, "'f11'")


def test_a_method_without_parameters_knows_its_own_nodes_alone(mtgcn_command, own):
    assert mtgcn_command("fit", *own.options, "--out", own.out, "--method", "lp", "--folds", 0)[0] == 0
    predictions, same = own.folder / "p.csv", own.folder / "same.csv"
    arguments = ["predict", own.out, "--edges", own.edges, "--nodes", own.nodes, "--new-graph", "--out"]
    assert mtgcn_command("predict", own.out, "--out", predictions)[0] == 0
    assert {row["peers_agree"] for row in read_csv(predictions)} == {""}
    assert mtgcn_command(*arguments, same)[0] == 0
    assert same.read_text() == predictions.read_text()
    own.edge_rows.pop()
    own.write()
    message = "keeps nothing that could be applied to another graph"
    assert_refused(mtgcn_command, own, [*arguments, predictions], message)


def test_two_results_on_standard_output_are_refused(mtgcn_command, own, model_copy):
    message = "--out - and --json both print on standard output; give a file, or leave out --json"
    assert_refused(mtgcn_command, own, ["predict", model_copy, "--out", "-", "--json"], message)
    assert_refused(mtgcn_command, own, ["suggest", model_copy, "--out", "-", "--json"], message)


def test_known_nodes_do_not_join_again(mtgcn_command, own, model_copy):
    arguments = ["predict", model_copy, "--edges", own.edges, "--nodes", own.nodes, "--out", own.folder / "p.csv"]
    assert_refused(mtgcn_command, own, arguments, "the model already has 60 of these 60 nodes, for instance '0000'")
    assert_refused(mtgcn_command, own, arguments, "or add --new-graph")


def test_suggest_more_than_there_are(mtgcn_command, own, model_copy):
    assert_refused(mtgcn_command, own, ["suggest", model_copy, "--count", 37], "count is 37")
    assert_refused(mtgcn_command, own, ["suggest", model_copy, "--count", 0], "count is 0")


def test_help_is_there_without_heavy_imports():
    program = (
        "import sys; from mtgcn.cli.app import main; main(['fit', '--help']); "
        "print(*[name for name in ('torch', 'numpy', 'sklearn', 'pyarrow') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "--labels" in done.stdout
    assert done.stderr.split() == []


NEEDLESS = ("sklearn", "scipy.stats", "scipy.optimize", "pandas", "matplotlib", "numba", "networkx", "gensim", "jinja2")


@pytest.mark.parametrize("method", [["gcn", "--set", "epochs=3"], ["mt-plus"]], ids=lambda method: method[0])
def test_commands_on_files_import_nothing_that_they_do_not_need(mixed, method):
    write_csv(mixed.folder / "new.csv", [mixed.node_rows[0], ["new", *mixed.node_rows[1][1:]]])
    write_csv(mixed.folder / "new-edges.csv", [["source", "target"], ["new", mixed.node_rows[1][0]]])
    write_csv(
        mixed.folder / "more.csv", [["id", "label"], *([name, mixed.truth[name]] for name in list(mixed.truth)[24:27])]
    )
    new = ["--nodes", mixed.folder / "new.csv", "--edges", mixed.folder / "new-edges.csv"]
    commands = [
        ["fit", *mixed.options, "--out", mixed.out, "--method", *method],
        ["label", mixed.out, mixed.folder / "more.csv"],
        ["predict", mixed.out, "--out", mixed.folder / "all.csv"],
        ["predict", mixed.out, *new, "--out", mixed.folder / "some.csv"],
    ]
    program = (
        "import json, sys; from mtgcn.cli.app import main\n"
        "for command in json.loads(sys.argv[1]): assert main(command) == 0\n"
        f"print('found', *[name for name in {NEEDLESS} if name in sys.modules])"
    )
    typed = json.dumps([[str(part) for part in command] for command in commands])
    done = subprocess.run([sys.executable, "-c", program, typed], capture_output=True, text=True, check=True)
    assert "% expected" in done.stdout  # folds were fitted, too
    assert done.stdout.splitlines()[-1].split() == ["found"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process as Linux does")
def test_a_real_lack_of_memory_ends_in_one_line(own):
    program = (
        "import resource, sys, mtgcn.memory, mtgcn.workflows.fit as check\n"
        "from mtgcn.cli.app import main\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "check.available_bytes = lambda device: 2**40\n"  # the guesses are wrong, so that it comes to the worst
        "mtgcn.memory.free_bytes = lambda: 2**40\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 2**30,) * 2)\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    arguments = ["fit", *own.options, "--out", own.out, *QUICK, "--set", "hidden_channels=1000000"]
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        # A thread that cannot be started ends the whole process before anybody can say why.
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "out of memory while fitting 60 nodes" in done.stderr
    assert not own.out.exists()


# ---- labels that look like numbers


@pytest.mark.parametrize(
    ("first", "second", "third"), [("1_23", "12_3", "123"), ("007", "7", "07"), ("-1", "x", "1.0"), ("1.0", "+1", "1")]
)
def test_labels_that_are_text_stay_apart(mtgcn_command, own, first, second, third):
    """In files, as --classes, with mtgcn label and as --new-classes."""
    ids = list(own.truth)
    rows = [[name, (first, second)[number % 2]] for number, name in enumerate(ids[:8])]
    own.label_rows = [["id", "label"], *rows]
    own.write()
    fit = ["fit", *own.options, "--method", "lp", "--folds", 0, "--out", own.out, "--classes", f"{first},{second}"]
    assert mtgcn_command(*fit)[0] == 0
    assert read_card(own.out)["training"]["labels_given"] == {first: 4, second: 4}
    more = write_csv(own.folder / "more.csv", [["id", "label"], [ids[10], first]])
    assert mtgcn_command("label", own.out, more, "--folds", 0)[0] == 0
    assert read_card(own.out)["training"]["labels_given"] == {first: 5, second: 4}
    more = write_csv(own.folder / "more.csv", [["id", "label"], [ids[11], third]])
    assert_refused(mtgcn_command, own, ["label", own.out, more, "--folds", 0], f"unknown class '{third}'")
    assert mtgcn_command("label", own.out, more, "--folds", 0, "--new-classes", third)[0] == 0
    assert read_card(own.out)["training"]["labels_given"] == {first: 5, second: 4, third: 1}


def test_numbers_are_numbers_however_they_are_typed(mtgcn_command, own):
    ids = list(own.truth)
    own.label_rows = [["id", "label"], *([name, ("1.0", "2")[number % 2]] for number, name in enumerate(ids[:8]))]
    own.write()
    fit = ["fit", *own.options, "--method", "lp", "--folds", 0, "--out", own.out, "--classes", "1,2.0"]
    assert mtgcn_command(*fit)[0] == 0
    more = write_csv(own.folder / "more.csv", [["id", "label"], [ids[10], "2.0"], [ids[11], "3.0"]])
    assert mtgcn_command("label", own.out, more, "--folds", 0, "--new-classes", "3.0")[0] == 0
    assert read_card(own.out)["training"]["labels_given"] == {"1": 4, "2": 5, "3": 1}
