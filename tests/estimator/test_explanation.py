"""Explanations: exact sums over random graphs and all kinds of views, and what they say."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from fitted_models import with_labels
from mtgcn.cli.app import main
from mtgcn.errors import InputError
from mtgcn.estimator.graph_model import GraphModel
from mtgcn.graph import Graph
from mtgcn.linalg.neighbours import neighbour_graph
from mtgcn.methods.mt_plus.explanation import LINEAR
from mtgcn.methods.mt_plus.views import COLUMNS, FEATURES, HOPS

pytestmark = pytest.mark.filterwarnings("ignore::mtgcn.uncertainty.warnings.FitWarning")
OF_GRAPHS = set(LINEAR) - {COLUMNS}
FEW = {"infomax_epochs": 3, "dimensions": 8, "size_waves": 16}
SHARES = {"by-evidence": {}, "half": {"full_skill": 1.2, "fade_power": 1.0}, "none": {"full_skill": 1e3}}


def fitted(graph, **options):
    return GraphModel(random_state=0, settings=FEW | options).fit_graph(graph)


def assert_exact(model, node):
    found = model.explain(node)
    place = np.flatnonzero(model.graph_.node_ids == node)[0]
    averages = sum(peer.weight * np.array([peer.probability, peer.versus_probability]) for peer in found.peers)
    odds = (averages[0] / averages[1]) ** (1 / model.parameters_["calibration"][0])
    assert odds == pytest.approx(found.probability / found.versus_probability, rel=1e-3)
    assert found.margin == pytest.approx(np.ptp(np.sort(model.label_distributions_[place])[-2:]), abs=1e-6)
    for parts in found.tables.values():
        assert parts[-1].name == "calibration"
        assert sum(part.value for part in parts[:-1]) == pytest.approx(averages[0] - averages[1], abs=1e-4)
        assert sum(part.value for part in parts) == pytest.approx(found.margin, abs=1e-4)
    by_name = {peer.name: peer for peer in found.peers}
    for name, tables in found.peer_tables.items():
        odds = np.log(by_name[name].probability / by_name[name].versus_probability)
        for parts in tables.values():
            assert sum(part.value for part in parts) == pytest.approx(odds, abs=1e-4)
    return found


@pytest.mark.parametrize("teaching", sorted(SHARES))
def test_parts_of_a_row_of_a_table_sum_to_the_answer(teaching):
    wine = load_wine()
    rows = StandardScaler().fit_transform(wine.data).astype(np.float32)
    graph = Graph(neighbour_graph(rows, 10), rows, wine.target)
    found = assert_exact(fitted(with_labels(graph, range(0, 178, 6)), **SHARES[teaching]), 100)
    assert {peer.name for peer in found.peers if peer.split} == {FEATURES, HOPS, COLUMNS}


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 99),
    sparse=st.booleans(),
    weighted=st.booleans(),
    unreached=st.booleans(),
    teaching=st.sampled_from(sorted(SHARES)),
)
def test_parts_sum_to_the_answer(make_graph, seed, sparse, weighted, unreached, teaching):
    graph = make_graph(seed=seed, sparse=sparse, weighted=weighted, unreached=unreached)
    model = fitted(with_labels(graph, range(12)), **SHARES[teaching])
    for node in (0, 20, 36, 39):  # labelled, unlabelled, and where `unreached` lone and without features
        found = assert_exact(model, node)
        assert {peer.name for peer in found.peers if peer.split} == OF_GRAPHS
        assert not any("as a whole" in part.name for name in OF_GRAPHS for part in found.peer_tables[name]["labels"])


def test_labels_alone_account_for_an_untaught_peer(make_graph):
    model = fitted(with_labels(make_graph(), range(12)), **SHARES["none"])
    for tables in model.explain(30).peer_tables.values():
        rest = {part.name: part.value for part in tables["labels"] if part.node is None}
        assert rest["pseudo labels"] == pytest.approx(0, abs=1e-6)
        assert rest["what the solver left"] == pytest.approx(0, abs=3e-2)


def test_only_reached_nodes_and_present_columns_count(make_graph):
    graph = with_labels(make_graph(unreached=True, features=9), range(12))
    found = fitted(graph).explain(35)  # a lone node
    assert [part.node for part in found.tables["nodes"] if part.node is not None] == [35]
    present = {f"feature {column + 1}" for column in np.flatnonzero(graph.features[[35]].toarray()[0])}
    assert {part.name for part in found.tables["columns"]} & {f"feature {n}" for n in range(1, 10)} <= present
    assert found.sentence.startswith(f"35 is {found.predicted}")
    assert "it has no neighbours" in found.sentence


def test_graphs_without_features_and_stored_models(make_graph, tmp_path):
    model = fitted(replace(with_labels(make_graph(nodes=60), range(15)), features=None))
    model.save(tmp_path / "model")
    for one in (model, GraphModel.load(tmp_path / "model")):
        found = assert_exact(one, 40)
        assert "columns" not in found.tables
        assert any(peer.split for peer in found.peers)


def test_a_view_that_cannot_be_reproduced_counts_as_a_whole(make_graph):
    model = fitted(with_labels(make_graph(), range(12)))
    model.parameters_ = model.parameters_ | {"hops/after": 2 * model.parameters_["hops/after"]}
    found = assert_exact(model, 30)
    assert {peer.name for peer in found.peers if peer.split} == OF_GRAPHS - {"hops"}
    assert "hops as a whole" in [part.name for part in found.tables["columns"]]


WORDS = {"pol": ["minister", "parliament", "vote"], "art": ["painter", "gallery", "canvas"]}


def test_texts_are_split_into_words(tmp_path, capsys):
    random = np.random.default_rng(0)
    lines = ["name,about,age,kind"]
    for row in range(80):
        kind = "pol" if row % 2 else "art"
        words = [*WORDS[kind], *random.choice(["house", "tree", "blue", "river", "long", "stone"], 3)]
        label = kind if row < 20 else ""
        text = " ".join(random.permutation(words))
        lines.append(f"P{random.integers(9999)},the {text} and more,{random.integers(20, 80)},{label}")
    (tmp_path / "people.csv").write_text("\n".join(lines))
    model = str(tmp_path / "model")
    roles = ["--target", "kind", "--column", "name=name", "--column", "text=about", "--column", "id=none"]
    few = [part for name, value in FEW.items() for part in ("--set", f"{name}={value}")]
    assert not main(["fit", str(tmp_path / "people.csv"), *roles, *few, "--folds", "0", "--out", model, "--quiet"])
    assert_exact(GraphModel.load(model), 50)
    capsys.readouterr()
    assert not main(["explain", model, "52", "--json"])
    found = json.loads(capsys.readouterr().out)
    strongest = [part["name"] for part in found["tables"]["columns"] if part["value"] > 0]
    assert found["predicted"] == "pol"
    assert found["title"].endswith(" (52)")
    assert {f"'{word}'" for word in WORDS["pol"]} & set(strongest)
    assert "words '" in found["sentence"]
    assert "labels that support it: P" in found["sentence"]
    assert not main(["explain", model, found["title"].removesuffix(" (52)"), "--versus", "art"])  # the name will do
    assert found["sentence"] in capsys.readouterr().out


def test_other_methods_list_neighbours_and_near_labels(make_graph):
    graph = with_labels(make_graph(), range(12))
    found = GraphModel("lp").fit_graph(graph).explain(30)
    around = graph.adjacency[[30]].indices
    assert {part.node for part in found.tables["neighbours"]} == set(around.tolist())
    assert {part.node for part in found.tables["nearest labelled"]} <= set(range(12))
    assert "not reasons" in found.note
    assert not found.peers
    assert json.dumps(found.to_dict())
    assert found.neighbours == len(around)
    assert f"of its {len(around)} neighbours" in found.sentence


def test_versus_and_notebooks(make_graph):
    model = fitted(with_labels(make_graph(), range(12)))
    usual = model.explain(30)
    third = ({"0", "1", "2"} - {usual.predicted, usual.versus}).pop()
    other = model.explain(30, versus=third)
    assert other.versus == third
    assert other.margin > usual.margin
    assert sum(part.value for part in other.tables["nodes"]) == pytest.approx(other.margin, abs=1e-4)
    page = usual._repr_html_()
    assert page.count("<div") == len(usual.records()) == len(usual.table())
    assert usual.sentence in page
    with pytest.raises(InputError, match="no node"):
        model.explain(99)
    with pytest.raises(InputError, match=r"predicted as '.' itself; compare with"):
        model.explain(30, versus=usual.predicted)
    with pytest.raises(InputError, match="unknown class 'bird'; choose from"):
        model.explain(30, versus="bird")
