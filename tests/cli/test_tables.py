"""One table, one target: `mtgcn fit TABLE` and the commands that follow, without edges and without preparation."""

import io
import json

import numpy as np
import pandas as pd
import pytest

from mtgcn.io.options import standard_input

TRUTH = np.where(np.arange(60) % 2 == 0, "saver", "spender")
GCN = ("--method", "gcn", "--set", "epochs=30", "--folds", "0", "--device", "cpu")


@pytest.fixture
def table(tmp_path):
    """A table without ids, whose target is empty except in eight rows."""
    generator = np.random.default_rng(0)
    saver = TRUTH == "saver"
    frame = pd.DataFrame(
        {
            "age": generator.normal(np.where(saver, 60, 25), 6).round(),
            "income": generator.normal(np.where(saver, 30, 50), 5).round(2),
            "city": np.where(generator.random(60) < 0.5, "Ulm", "Hof"),
            "segment": TRUTH,
        }
    )
    frame.loc[8:, "segment"] = ""
    frame.to_csv(tmp_path / "customers.csv", index=False)
    frame.to_parquet(tmp_path / "customers.parquet")
    return frame


def written(path):
    return pd.read_csv(path)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_two_commands(succeeds, table, tmp_path, suffix):
    path, model = tmp_path / f"customers.{suffix}", tmp_path / "model"
    found = json.loads(succeeds("fit", path, "--target", "segment", "--out", model, *GCN, "--json"))
    assert (found["nodes"], found["labels"]) == (60, {"saver": 4, "spender": 4})
    assert [note.partition(": ")[2].partition(";")[0] for note in found["notes"]] == [
        "without edges, each row is linked to its 10 nearest",
        "rows are numbered from 1, since no column has an id for each row",
    ]
    succeeds("predict", model, "--out", tmp_path / "p.csv")
    predicted = written(tmp_path / "p.csv")
    assert predicted["id"].tolist() == list(range(1, 61))
    assert (predicted["predicted"] == TRUTH).mean() > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "segmnt"], "unknown column 'segmnt'; did you mean 'segment'?"),
        (["--target", "segment", "--column", "label=city"], "column of 'label' is given twice"),
        (["--target", "income"], "as in regression"),
        (["--column", "label=none"], "no row or node is labelled; name the class column with --target"),
        (["--nodes", "other.csv"], "are two tables of nodes; give one of them"),
        (["--knn", "0"], "--knn is 0; give at least 1"),
    ],
)
def test_refusals(fails, table, tmp_path, options, message):
    fails(message, "fit", tmp_path / "customers.csv", "--out", tmp_path / "model", *GCN, *options)


def test_standard_input(succeeds, table, tmp_path, monkeypatch):
    standard_input.cache_clear()
    content = (tmp_path / "customers.csv").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    out = succeeds("fit", "-", "--target", "segment", "--out", tmp_path / "model", *GCN)
    standard_input.cache_clear()
    assert out.startswith("graph       60 nodes")


def test_predict_never_confuses_row_numbers(succeeds, table, tmp_path):
    """Row 1 of another table is not row 1 of the fit."""
    model, new = tmp_path / "model", tmp_path / "new.csv"
    succeeds("fit", tmp_path / "customers.csv", "--out", model, *GCN)
    table.drop(columns="segment").iloc[[1, 0]].assign(age=[26.5, 61.5]).to_csv(new, index=False)
    succeeds("predict", model, new, "--out", tmp_path / "p.csv")
    assert written(tmp_path / "p.csv")["predicted"].tolist() == ["spender", "saver"]


def test_predict_without_the_ids_of_the_fit(succeeds, mtgcn_command, table, tmp_path):
    table.insert(0, "customer_no", range(1, 61))
    table.to_csv(tmp_path / "ids.csv", index=False)
    succeeds("fit", tmp_path / "ids.csv", "--out", tmp_path / "model", *GCN)
    new = tmp_path / "new.csv"
    table.iloc[[1]].drop(columns=["customer_no", "segment"]).assign(age=24.5).to_csv(new, index=False)
    status, _, err = mtgcn_command("predict", tmp_path / "model", new, "--out", tmp_path / "p.csv")
    assert status == 0
    assert "rows are numbered from 1, since there is no column 'customer_no' as in the fit" in err
    assert written(tmp_path / "p.csv")["role"].tolist() == ["neither"]
    table.iloc[[1]].to_csv(new, index=False)
    mtgcn_command("predict", tmp_path / "model", new, "--out", tmp_path / "p.csv")
    assert written(tmp_path / "p.csv")[["id", "role"]].values.tolist() == [[2, "given"]]


def test_labels_by_row_number(succeeds, table, tmp_path):
    model, more = tmp_path / "model", tmp_path / "more.csv"
    succeeds("fit", tmp_path / "customers.csv", "--out", model, *GCN)
    more.write_text("id,label\n60,spender\n", encoding="utf-8")
    assert "added       1: spender 1" in succeeds("label", model, more, "--folds", "0")


def test_compare_reads_a_table(succeeds, mtgcn_command, table, tmp_path):
    table.assign(segment=TRUTH).to_csv(tmp_path / "full.csv", index=False)
    options = ("--labels-per-class", "3", "--methods", "lp,logistic", "--runs", "2", "--json")
    status, out, _ = mtgcn_command("compare", tmp_path / "full.csv", "--target", "segment", *options)
    assert status == 0
    assert min(cell["accuracy"]["mean"] for cell in json.loads(out)["cells"]) > 0.8


def test_small_tables_have_fewer_neighbours(succeeds, table, tmp_path):
    rows = table.iloc[[0, 1, 8, 9, 10]]
    rows.to_csv(tmp_path / "five.csv", index=False)
    out = succeeds("fit", tmp_path / "five.csv", "--out", tmp_path / "model", *GCN)
    assert out.startswith("graph       5 nodes, 10 edges")


@pytest.fixture
def named(succeeds, table, tmp_path):
    """A model of a table with names and a column called role."""
    table.insert(0, "name", [f"Ada {row}" for row in range(60)])
    table["role"] = ["boss", "staff"] * 30
    table.to_csv(tmp_path / "named.csv", index=False)
    succeeds("fit", tmp_path / "named.csv", "--out", tmp_path / "named", *GCN, "--report", tmp_path / "page.html")
    return tmp_path / "named"


def test_own_columns_of_predictions(succeeds, mtgcn_command, fails, named, table, tmp_path):
    ours = ["id", "predicted", "probability", "probability_saver", "probability_spender"]
    ours += ["peers_agree", "role", "pseudo_label_epoch"]
    own = {"none": [], "names": ["name"], "all": [*table.columns[:-1], "role_input"]}
    for keep, columns in own.items():
        succeeds("predict", named, "--keep-columns", keep, "--out", tmp_path / "p.csv")
        found = written(tmp_path / "p.csv")
        assert list(found) == [*ours, *columns]
    assert found["role_input"].tolist() == table["role"].tolist()
    table.iloc[[3]].assign(age=99).to_csv(tmp_path / "new.csv", index=False)
    mtgcn_command("predict", named, tmp_path / "new.csv", "--keep-columns", "all", "--out", tmp_path / "p.csv")
    assert written(tmp_path / "p.csv")[["name", "age"]].values.tolist() == [["Ada 3", 99]]
    fails("unknown choice of input columns 'some'", "predict", named, "--keep-columns", "some", "--out", "-")


def test_suggestions_show_the_row(succeeds, named, table, tmp_path):
    [one, *_] = json.loads(succeeds("suggest", named, "--json"))["suggestions"]
    row = table.iloc[one["index"]]
    assert one["name"] == row["name"]
    assert one["cells"]["city"] == row["city"]
    assert "segment" not in one["cells"]  # empty
    printed = succeeds("suggest", named, "--count", "1")
    assert f"{row['name']} ({one['node']})" in printed
    assert f"city: {row['city']}" in printed
    succeeds("suggest", named, "--count", "1", "--out", tmp_path / "ask.csv")
    asked = pd.read_csv(tmp_path / "ask.csv", dtype=str)
    assert list(asked)[:6] == ["id", "label", "predicted", "score", "reason", "name"]
    asked.assign(label="saver").to_csv(tmp_path / "ask.csv", index=False)
    assert "added       1: saver 1" in succeeds("label", named, tmp_path / "ask.csv", "--folds", "0")


def test_page_shows_names_and_cells(named, tmp_path):
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    data = json.loads(page.partition('id="node-data">')[2].partition("</script>")[0])
    assert data["ids"][5] == "Ada 5 (6)"
    assert data["cells"]["name"][5] == "Ada 5"
    assert " · city: " in page


@pytest.fixture
def texts(tmp_path):
    """Headlines of two topics; the topic is empty except in eight rows."""
    words = {"sky": ("sun", "moon", "star", "cloud"), "sea": ("wave", "tide", "fish", "harbour")}
    rows = []
    for row in range(80):
        topic = ("sky", "sea")[row % 2]
        one, other = words[topic][row // 2 % 4], words[topic][row // 8 % 4]
        rows.append(["code", f"the {one} and the {other}, report {row}", topic if row < 8 else ""])
    pd.DataFrame(rows, columns=["source", "headline", "topic"]).to_csv(tmp_path / "news.csv", index=False)
    return tmp_path / "news.csv"


def test_text_is_used_and_stored(succeeds, mtgcn_command, fails, texts, tmp_path):
    model, new = tmp_path / "model", tmp_path / "new.csv"
    out = succeeds("fit", texts, "--out", model, *GCN)
    assert "column      headline: text, 80 different, 20 dimensions of word and character n-grams" in out
    succeeds("predict", model, "--out", tmp_path / "p.csv")
    assert (written(tmp_path / "p.csv")["predicted"] == np.tile(["sky", "sea"], 40)).all()
    new.write_text("source,headline\ncode,the tide and the fish\ncode,a star and a moon\n", encoding="utf-8")
    succeeds("predict", model, new, "--out", tmp_path / "q.csv")
    assert written(tmp_path / "q.csv")["predicted"].tolist() == ["sea", "sky"]
    fails("has no feature columns for nearest neighbours", "fit", texts, "--column", "ignore=headline", "--out", model)


def test_score_prior_and_ranking(succeeds, fails, table, tmp_path):
    """Uneven classes: another score, known class shares, and rows sorted by the probability of one class."""
    table.loc[8:30, "segment"] = TRUTH[8:31]
    table.to_csv(tmp_path / "more.csv", index=False)
    model, measured = tmp_path / "model", ("--folds", "2", "--score", "average-precision")
    options = ("fit", tmp_path / "more.csv", "--method", "logistic", "--out", model, *measured, "--json")
    found = json.loads(succeeds(*options, "--class-prior", "saver=0.8,spender=0.2"))
    score = found["expected_score"]
    assert (score["score"], score["labels"]) == ("average-precision", 31)
    assert 0 <= score["ci95"][0] <= score["value"] <= score["ci95"][1] <= 1
    assert "probabilities are corrected to the class shares saver 80.0 %, spender 20.0 %" in found["notes"][-1]
    succeeds("predict", model, "--sort", "spender", "--keep-columns", "all", "--out", tmp_path / "p.csv")
    ranked = written(tmp_path / "p.csv")
    assert ranked["probability_spender"].is_monotonic_decreasing
    assert ranked["probability_spender"].mean() == pytest.approx(0.2, abs=0.001)
    assert (ranked["age"] == table["age"][ranked["id"] - 1].to_numpy()).all()
    (tmp_path / "label.csv").write_text("id,label\n40,spender\n")
    assert "score       average precision " in succeeds("label", model, tmp_path / "label.csv", "--folds", "2")
    succeeds("report", model)
    assert "expected average precision" in (model / "report.html").read_text()
    fails("unknown class 'rich'", "predict", model, "--sort", "rich", "--out", tmp_path / "p.csv")
    fails("unknown score 'auc'", "fit", tmp_path / "more.csv", "--check", "--score", "auc")
