"""`mtgcn fit`, `predict`, `label` and `suggest` on files."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from mtgcn.estimator.persistence import load_model, read_card
from own_files import CLASSES, QUICK, read_csv, write_csv


def starting_with(word, text):
    return [line for line in text.splitlines() if line.startswith(word)]


# fit


def test_fit_prints_a_summary_and_writes_a_model(succeeds, own):
    page = own.folder / "pages" / "fit.html"
    out = succeeds("fit", *own.options, *QUICK, "--out", own.out, "--report", page)
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert lines["graph"].startswith("60 nodes, ")
    assert lines["graph"].endswith(" edges, 12 features")
    assert lines["labels"] == "24: ant 8, bee 8, cat 8"
    assert lines["fitted"].startswith("mt-gcn, 40 iterations, ")
    assert lines["file"] == "labels.csv: label table, separated by commas, with header; 24 labels"
    assert "% expected (90 % interval" in lines["accuracy"]
    assert "cross-validated on 24 labels in 5 folds" in lines["accuracy"]
    assert (lines["model"], lines["report"]) == (str(own.out), str(page))
    assert own.accuracy(load_model(own.out)) > 0.9
    assert page.read_text().lstrip().lower().startswith("<!doctype html")


def test_fit_json_is_one_object(succeeds, own):
    summary = json.loads(succeeds("fit", *own.options, "--out", own.out, *QUICK, "--json"))
    assert (summary["nodes"], summary["features"], summary["method"]) == (60, 12, "mt-gcn")
    assert summary["labels"] == {"ant": 8, "bee": 8, "cat": 8}
    assert summary["expected_accuracy"]["labels"] == 24
    assert 0 <= summary["expected_accuracy"]["ci95"][0] <= summary["expected_accuracy"]["accuracy"] <= 1
    assert summary["why_no_expected_accuracy"] is None
    assert 1 / 3 < summary["mean_confidence"] <= 1
    assert (summary["peers"], summary["teaching"]) == (None, None)
    assert summary["model"] == str(own.out)
    assert [line.partition(":")[0] for line in summary["files"]] == ["nodes.csv", "edges.csv", "labels.csv"]
    training = read_card(own.out)["training"]
    assert training["expected_accuracy"] == summary["expected_accuracy"]
    assert training["labels_given"] == summary["labels"]


def test_fit_reports_label_coverage(succeeds, own):
    # Two nodes connected to each other and one isolated node, all without labels.
    own.node_rows += [[name, *["0.5"] * 12] for name in ("x1", "x2", "x3")]
    own.edge_rows += [["x1", "x2"]]
    own.write()
    coverage = json.loads(succeeds(*own.fit, "--json"))["coverage"]
    assert coverage["nodes_without_labels"] >= 3
    assert coverage["isolated_nodes"] >= 1
    assert coverage["components"] - coverage["components_with_labels"] >= 2
    out = succeeds(*own.fit)
    assert "in components without labels" in out
    assert "accuracy    not known: not measured, as asked (--folds 0)" in out


def test_fit_warns_of_few_labels_and_notes_what_reading_changed(succeeds, own):
    own.label_rows = own.label_rows[:6]  # ant 2, bee 2, cat 1
    own.edge_rows += [own.edge_rows[1][::-1]]  # one edge in both directions, so that the others seem directed
    own.write()
    out = succeeds("fit", *own.options, "--out", own.out, *QUICK)
    assert "accuracy    not known: class 'cat' has 1 label, and none can be held out; 2 of each class are needed" in out
    assert "'cat'" in starting_with("warning", out)[0]
    assert "without direction" in starting_with("note", out)[0]


def test_edges_without_features(succeeds, own):
    connected = {name for row in own.edge_rows[1:] for name in row}
    own.label_rows = [row for row in own.label_rows if row[0] in connected or row[0] == "id"]
    own.edges = own.edges.rename(own.folder / "cora.csv")
    write_csv(own.labels, own.label_rows)
    out = succeeds("fit", "--edges", own.edges, "--labels", own.labels, "--out", own.out, *QUICK, "--folds", 0)
    assert "no features" in out
    assert load_model(own.out).graph_.name == "cora.csv"  # not taken for the dataset


def test_graph_file(succeeds, own):
    import networkx as nx

    labels = dict(own.label_rows[1:])
    graph = nx.Graph()
    for name, *values in own.node_rows[1:]:
        known = {"label": labels[name]} if name in labels else {}
        graph.add_node(name, **{f"f{place}": float(value) for place, value in enumerate(values)}, **known)
    graph.add_edges_from(own.edge_rows[1:])
    path, predictions = own.folder / "own.graphml", own.folder / "predictions.csv"
    nx.write_graphml(graph, path)
    out = succeeds("fit", "--graph", path, "--out", own.out, *QUICK, "--json")
    assert json.loads(out)["labels"] == {"ant": 8, "bee": 8, "cat": 8}
    succeeds("predict", own.out, "--graph", path, "--out", predictions)
    assert [row["id"] for row in read_csv(predictions)] == own.ids


@pytest.mark.slow
def test_the_seed_decides_the_model(succeeds, own):
    probabilities = []
    for seed in (5, 5, 6):
        succeeds(*own.fit, "--seed", seed)
        probabilities.append(load_model(own.out).label_distributions_)
    assert np.array_equal(probabilities[0], probabilities[1])
    assert not np.array_equal(probabilities[0], probabilities[2])


def test_fit_reports_peer_weights(succeeds, own, weighted_peers):
    fit = ["fit", *own.options, "--out", own.out, "--method", weighted_peers, "--device", "cpu", "--folds", 0]
    assert "peers       the near neighbourhood decides here" in succeeds(*fit)
    summary = json.loads(succeeds(*fit, "--set", "teaching=0.1", "--json"))
    assert [peer["name"] for peer in summary["peers"]][::3] == ["near neighbourhood", "structure"]
    assert summary["peers"][3].keys() == {"name", "weight", "held_out_accuracy", "agreement"}
    training = read_card(own.out)["training"]
    assert (training["peers"], training["teaching"]) == (summary["peers"], 0.1)
    path = own.folder / "predictions.csv"
    succeeds("predict", own.out, "--out", path)
    peers = load_model(own.out).peer_distributions_.argmax(axis=2)
    agree = [row["peers_agree"] == "yes" for row in read_csv(path)]
    assert agree == (peers[0] == peers[2]).tolist()  # the peers with weights 0.55 and 0.3
    assert not (peers == peers[0]).all(axis=0).all()


@pytest.fixture
def mixed(own):
    """The same graph with features of all kinds: decimal commas, gaps, dates, categories and notes."""
    header, *rows = own.node_rows
    own.node_rows = [[*header[:4], "income", "city", "joined", "member", "notes"]]
    for place, row in enumerate(rows):
        kind = CLASSES.index(own.truth[row[0]])
        income = "" if place % 9 == 4 else f"{(kind + 1) * 20000 + 37 * place},50"
        city = "?" if place % 11 == 3 else ("Köln", "Ulm", "Hof")[kind]
        decimals = [cell.replace(".", ",") for cell in row[1:4]]
        joined = f"{place % 28 + 1:02}.{kind + 1:02}.2024"
        own.node_rows.append([row[0], *decimals, income, city, joined, ("yes", "no")[kind % 2], f"note-{place}"])
    own.write()
    return own


def test_columns_are_preprocessed_and_described(succeeds, mtgcn_command, refused, mixed):
    out = succeeds(*mixed.fit)
    columns = [line.split(maxsplit=1)[1] for line in starting_with("column ", out)]
    assert [line.split(":")[0] for line in columns] == mixed.node_rows[0][1:]
    assert read_card(mixed.out)["training"]["columns"] == columns
    assert mixed.accuracy(load_model(mixed.out)) > 0.95
    # New nodes: other order of columns, no notes, an unknown city, a missing income.
    header, *rows = mixed.node_rows
    new = [["new " + row[0], *row[1:]] for row in rows[30:]]
    new[0][5], new[1][4] = "Paris", "n/a"
    table = [[row[place] for place in (5, 0, 4, 3, 2, 1, 7, 6)] for row in (header, *new)]
    nodes, predictions = mixed.folder / "new.csv", mixed.folder / "predictions.csv"
    predict = ["predict", mixed.out, "--nodes", nodes, "--out", predictions]
    write_csv(nodes, table)
    status, _, err = mtgcn_command(*predict)
    assert (status, err) == (
        0,
        "mtgcn: note: 1 of 30 values of 'city' are unknown to the fit ('Paris') and were ignored\n",
    )
    right = [row["predicted"] == mixed.truth[row["id"].removeprefix("new ")] for row in read_csv(predictions)]
    assert np.mean(right) > 0.9
    write_csv(nodes, [row[1:] for row in table])
    refused("the model was fitted with the column 'city', which", *predict)
    refused("the model fixes the column kinds", *predict, "--column", "date=joined")


# Labels that look like numbers


@pytest.mark.parametrize(
    ("first", "second", "third"), [("1_23", "12_3", "123"), ("007", "7", "07"), ("-1", "x", "1.0"), ("1.0", "+1", "1")]
)
def test_labels_that_are_text_stay_distinct(succeeds, refused, own, first, second, third):
    """In files, --classes, `mtgcn label` and --new-classes."""
    own.label_rows = [["id", "label"], *([name, (first, second)[place % 2]] for place, name in enumerate(own.ids[:8]))]
    own.write()

    def given():
        return read_card(own.out)["training"]["labels_given"]

    fit = ["fit", *own.options, "--method", "lp", "--folds", 0, "--out", own.out]
    succeeds(*fit, "--classes", f"{first},{second}")
    assert given() == {first: 4, second: 4}
    label = ["label", own.out, own.folder / "more.csv", "--folds", 0]
    own.write_labels([own.ids[10], first])
    succeeds(*label)
    assert given() == {first: 5, second: 4}
    own.write_labels([own.ids[11], third])
    refused(f"unknown class '{third}'", *label)
    succeeds(*label, "--new-classes", third)
    assert given() == {first: 5, second: 4, third: 1}


# predict


def test_predictions_for_the_nodes_of_the_fit(succeeds, fitted, tmp_path):
    path = tmp_path / "predictions.csv"
    assert succeeds("predict", fitted.out, "--out", path).startswith("60 nodes: ant ")
    rows = read_csv(path)
    assert list(rows[0]) == [
        *("id", "predicted", "probability", "probability_ant", "probability_bee", "probability_cat"),
        *("peers_agree", "role", "pseudo_label_epoch"),
    ]
    assert [row["id"] for row in rows] == fitted.ids  # with leading zeros
    labelled = {name for name, _ in fitted.label_rows[1:]}
    for row in rows:
        shares = {kind: float(row[f"probability_{kind}"]) for kind in CLASSES}
        assert sum(shares.values()) == pytest.approx(1, abs=3e-6)
        assert row["predicted"] == max(shares, key=shares.get)
        assert float(row["probability"]) == max(shares.values())
        assert (row["role"] == "given") == (row["id"] in labelled)
        assert (row["role"] == "pseudo-label") == (row["pseudo_label_epoch"] != "")
        assert row["peers_agree"] in ("yes", "no")
    epochs = {int(row["pseudo_label_epoch"]) for row in rows if row["pseudo_label_epoch"]}
    assert epochs
    assert epochs <= set(range(21, 41))  # teaching starts after 20 epochs


def test_new_nodes_join_the_graph(succeeds, fitted, tmp_path):
    header, *rows = fitted.node_rows
    nodes = write_csv(tmp_path / "new.csv", [header, ["9001", *rows[0][1:]], ["9002", *rows[1][1:]]])
    ends = [["9001", rows[3][0]], ["9001", rows[6][0]], [rows[4][0], "9002"], ["9002", rows[7][0]]]
    new = ["--nodes", nodes, "--edges", write_csv(tmp_path / "new-edges.csv", [["source", "target"], *ends])]
    path, complete, of_fit = (tmp_path / name for name in ("new-p.csv", "all.csv", "fit.csv"))
    assert succeeds("predict", fitted.out, *new, "--out", path) == f"2 nodes: ant 1, bee 1, cat 0\n{path}\n"
    assert [(row["id"], row["predicted"]) for row in read_csv(path)] == [("9001", "ant"), ("9002", "bee")]
    succeeds("predict", fitted.out, "--out", of_fit)
    succeeds("predict", fitted.out, *new, "--all", "--out", complete)
    assert read_csv(complete) == read_csv(of_fit) + read_csv(path)
    assert succeeds("predict", fitted.out, *fitted.options[:4], "--new-graph", "--out", path).startswith("60 nodes: ")
    assert [row["predicted"] for row in read_csv(path)] == [row["predicted"] for row in read_csv(of_fit)]


def test_predictions_on_standard_output(mtgcn_command, succeeds, refused, model, tmp_path):
    path = tmp_path / "predictions.csv"
    succeeds("predict", model, "--out", path)
    for out in ("-", "/dev/stdout"):
        status, out, err = mtgcn_command("predict", model, "--out", out)
        assert (status, out) == (0, path.read_text(encoding="utf-8"))
        assert err.startswith("mtgcn: 60 nodes: ant ")
    assert not (tmp_path / "-").exists()
    message = "--out - and --json both write to standard output; give a file, or omit --json"
    refused(message, "predict", model, "--out", "-", "--json")
    refused(message, "suggest", model, "--out", "-", "--json")


@pytest.mark.slow
def test_a_closed_pipe_is_no_error(fitted):
    program = f"{sys.executable} -m mtgcn predict {fitted.out} --out - | head -n 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {program}"], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("id,predicted,")
    assert (done.stdout.count("\n"), "Broken pipe" in done.stderr, "Traceback" in done.stderr) == (1, False, False)


# label and suggest


def test_label_reports_changes_and_replaces_the_model(succeeds, own, model):
    before = load_model(model)
    one, two, wrong, known, empty = (own.ids[place] for place in (30, 31, 0, 1, 40))
    more = own.write_labels(
        [one, own.truth[one]], [two, own.truth[two]], [wrong, "bee"], [known, own.truth[known]], [empty, ""]
    )
    lines = dict(line.split(maxsplit=1) for line in succeeds("label", model, more).splitlines())
    assert lines["added"] == "2: ant 1, bee 1"
    assert lines["corrected"] == f"{wrong}: ant before, now bee"
    assert lines["known"] == "1 of the labels were already in the model"
    assert lines["labels"] == "26: ant 8, bee 10, cat 8"
    assert lines["changed"].endswith("of 36 previously unlabelled nodes")
    assert lines["confidence"].endswith(" before")
    assert "% expected" in lines["accuracy"]
    assert lines["accuracy"].endswith("; not known before")  # the first fit did not estimate it
    after = load_model(model)
    assert after.graph_.label_counts.tolist() == [8, 10, 8]
    assert after.method_ == before.method_
    training = read_card(model)["training"]
    assert (training["labels_given"], training["expected_accuracy"]["labels"]) == ({"ant": 8, "bee": 10, "cat": 8}, 26)
    content = own.content()
    summary = json.loads(succeeds("label", model, more, "--json"))
    assert (summary["refit"], summary["changes"]["repeated"]) == (None, 4)
    assert succeeds("label", model, more).splitlines()[-1] == f"model       {model}, unchanged: no label is new"
    assert own.content() == content


def test_label_keeps_the_notes_of_the_fit(succeeds, own):
    own.edge_rows.append(own.edge_rows[1][::-1])  # both directions, which reading notes
    own.write()
    succeeds("fit", *own.options, "--out", own.out, "--method", "lp", "--folds", 0)
    notes = read_card(own.out)["training"]["notes"]
    assert notes
    succeeds("label", own.out, own.write_labels([own.ids[50], own.truth[own.ids[50]]]))
    assert read_card(own.out)["training"]["notes"][: len(notes)] == notes
    assert succeeds("report", own.out) == f"{own.out / 'report.html'}\n"
    assert notes[0].split(";")[0][-20:] in (own.out / "report.html").read_text(encoding="utf-8")


def test_new_classes_must_be_declared(succeeds, refused, own, model):
    more = write_csv(own.folder / "more.csv", [["who", "what"], [own.ids[50], "dog"], [own.ids[51], "dog"]])
    label = ["label", model, more, "--column", "id=who", "--column", "label=what", "--folds", 0]
    refused("unknown class 'dog'; choose from ant, bee, cat", *label)
    assert "new class   dog" in succeeds(*label, "--new-classes", "dog")
    assert load_model(model).classes_.tolist() == ["ant", "bee", "cat", "dog"]


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([["x", "ant"]], [], "'x' is not in"),
        ([], [], "holds a header and no label"),
        ([["0007", "ant"]], ["--column", "source=x"], "unknown column role 'source'"),
        ([["0007", "ant"]], ["--device", "gpu"], "unknown device 'gpu'"),
    ],
)
def test_label_refuses(refused, own, model, rows, options, message):
    refused(message, "label", model, own.write_labels(*rows), *options)


def test_doubtful_labels_can_be_corrected(succeeds, own, model):
    path = own.folder / "doubt.csv"
    assert succeeds("doubt", model, "--count", 3, "--out", path) == f"{path}\n"
    rows, found = read_csv(path), json.loads(succeeds("doubt", model, "--json"))["doubtful_labels"]
    assert [row["id"] for row in rows] == [one["node"] for one in found][:3]
    assert {one["node"] for one in found} <= set(own.ids[:24])  # given labels alone
    table = succeeds("doubt", model)
    assert all(one["node"] in table for one in found)
    before = {row["id"]: row["label"] for row in rows}
    corrected = "bee" if before[rows[0]["id"]] == "ant" else "ant"
    rows[0]["label"] = corrected
    path.write_text("id,label\n" + "".join(f"{row['id']},{row['label']}\n" for row in rows), encoding="utf-8")
    changes = json.loads(succeeds("label", model, path, "--folds", 0, "--json"))["changes"]
    assert [one["after"] for one in changes["corrected"]] == [corrected]


def test_suggestions_can_be_filled_in(mtgcn_command, succeeds, refused, own, model):
    path = own.folder / "ask.csv"
    assert succeeds("suggest", model, "--count", 3, "--out", path) == f"{path}\n"
    rows = read_csv(path)
    assert list(rows[0])[:6] == ["id", "label", "predicted", "score", "reason", "f0"]  # then own columns
    assert {row["label"] for row in rows} == {""}
    suggestions = json.loads(succeeds("suggest", model, "--json"))["suggestions"]
    assert len({one["node"] for one in suggestions} - set(own.ids[:24])) == 10  # all unlabelled
    assert [one["node"] for one in suggestions][:3] == [row["id"] for row in rows]
    assert all(one["reason"] for one in suggestions)
    table = succeeds("suggest", model)
    assert all(one["node"] in table for one in suggestions)
    assert succeeds("suggest", model, "--count", 3, "--out", "-") == path.read_text(encoding="utf-8")
    for count in (0, 37):
        refused(f"count is {count}", "suggest", model, "--count", count)
    succeeds("label", model, own.write_labels(*([row["id"], "ant"] for row in rows)), "--folds", 0)
    graph = load_model(model).graph_
    assert set(graph.node_ids[graph.known]) >= {row["id"] for row in rows}


# Invalid input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--classes", "ant,bee,cat,dog"], "class 'dog' has no labelled node; label at least one"),
        (["--classes", "ant,bee"], "a node is labelled 'cat', which --classes does not list"),
        (["--knn", "3"], "--edges and --knn exclude each other"),
        (["--column", "label=what"], "unknown column 'what'"),
        (["--device", "gpu"], "unknown device 'gpu'"),
        (["--edges", "nowhere.csv"], "nowhere.csv does not exist"),
    ],
)
def test_fit_refuses_options(refused, own, options, message):
    refused(message, *own.fit, *options)


def test_memory_is_checked_before_fitting(refused, own, monkeypatch):
    monkeypatch.setattr("mtgcn.workflows.fit.available_bytes", lambda _: 20_000)
    monkeypatch.setattr("mtgcn.estimator.graph_model.fit_in_chunks", lambda *_: pytest.fail("must not be tried"))
    refused("out of memory: fitting 60 nodes with", *own.fit)


# Imports


UNUSED = ("sklearn", "scipy.stats", "scipy.optimize", "pandas", "matplotlib", "numba", "networkx", "gensim", "jinja2")


@pytest.mark.slow
def test_commands_import_only_what_they_use(mixed):
    folder, first = mixed.folder, mixed.node_rows[1]
    new = ["--nodes", write_csv(folder / "new.csv", [mixed.node_rows[0], ["new", *first[1:]]])]
    new += ["--edges", write_csv(folder / "new-edges.csv", [["source", "target"], ["new", first[0]]])]
    more = mixed.write_labels(*([name, mixed.truth[name]] for name in mixed.ids[24:27]))
    methods = ["gcn", "--set", "epochs=3"], ["mt-plus", "--set", "infomax_epochs=3", "--set", "rounds=1"]
    commands = [
        command
        for method, out in zip(methods, ("first", "second"), strict=True)
        for command in (
            ["fit", *mixed.options, "--out", folder / out, "--method", *method],
            ["label", folder / out, more],
            ["predict", folder / out, "--out", folder / "all.csv"],
            ["predict", folder / out, *new, "--out", folder / "some.csv"],
        )
    ]
    program = (
        "import json, sys; from mtgcn.cli.app import main\n"
        "for command in json.loads(sys.argv[1]): assert main(command) == 0\n"
        f"print('found', *[name for name in {UNUSED} if name in sys.modules])"
    )
    typed = json.dumps([[str(part) for part in command] for command in commands])
    done = subprocess.run([sys.executable, "-c", program, typed], capture_output=True, text=True, check=True)
    assert "% expected" in done.stdout  # folds were fitted, too
    assert done.stdout.splitlines()[-1].split() == ["found"]


def test_predictions_as_a_frame(succeeds, own, model):
    succeeds("predict", model, "--out", own.folder / "p.csv")
    written = pd.read_csv(own.folder / "p.csv", dtype={"id": str, "pseudo_label_epoch": "Int64"})
    frame = load_model(model).predictions().replace({"peers_agree": {True: "yes", False: "no"}})
    pd.testing.assert_frame_equal(frame, written, check_dtype=False, atol=1e-6)


LABEL_SLOWLY = """
import sys, time
from pathlib import Path
from mtgcn.workflows import fit
save = fit.save_model
fit.save_model = lambda *given, **named: (time.sleep(4), save(*given, **named))
fit.label_files(Path(sys.argv[1]), Path(sys.argv[2]), folds=0)
"""


@pytest.mark.long
def test_two_processes_that_add_labels(own, model):
    """Both load the model before either saves, unless one waits for the other."""
    parts = [own.ids[30:40], own.ids[40:50]]
    files = [
        write_csv(own.folder / f"{number}.csv", [["id", "label"], *([name, own.truth[name]] for name in part)])
        for number, part in enumerate(parts)
    ]
    processes = [subprocess.Popen([sys.executable, "-c", LABEL_SLOWLY, model, file]) for file in files]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    assert sum(read_card(model)["training"]["labels_given"].values()) == 44
