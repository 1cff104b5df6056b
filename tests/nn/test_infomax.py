from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from mtgcn.graph import Graph
from mtgcn.linalg.normalisation import normalized_adjacency
from mtgcn.nn import infomax
from mtgcn.nn.infomax import Infomax, InfomaxSettings, Propagation
from mtgcn.training.adam import Adam
from mtgcn.training.embeddings import embedding, encode, trained_encoders
from mtgcn.training.loop import Phase, Step, train

CPU = torch.device("cpu")
PROPAGATION = Propagation(feature_scaling="length", steps=3, restart=0.2)
SMALL = InfomaxSettings(dimensions=8, repeats=2, epochs=30)


@pytest.fixture(autouse=True)
def kept_in(tmp_path, monkeypatch):
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "infomax"


def test_the_loss_by_hand(make_graph):
    graph = make_graph()
    network = Infomax(
        graph, Propagation("none", 1, 0.0), InfomaxSettings(dimensions=4, repeats=2, epochs=5), seed=3, device=CPU
    )
    with torch.no_grad():
        network.bias.normal_(generator=torch.Generator().manual_seed(0))
    network.new_epoch()
    loss = network.loss()
    smooth = torch.from_numpy(normalized_adjacency(graph).toarray())
    features = graph.features.toarray() if hasattr(graph.features, "toarray") else graph.features
    features = torch.from_numpy(np.asarray(features))
    for repeat in range(2):
        weight, bias, discriminator = (
            network.weight[:, 0, repeat],
            network.bias[0, repeat],
            network.discriminator[0, repeat],
        )
        positive, corrupted = (
            functional.leaky_relu(smooth @ given @ weight + bias, 0.25)
            for given in (features, features[network._order()])
        )
        compared = discriminator @ positive.mean(0).sigmoid()
        right = -functional.logsigmoid(positive @ compared).mean() - functional.logsigmoid(-corrupted @ compared).mean()
        torch.testing.assert_close(loss[0, repeat], right, rtol=1e-4, atol=1e-5)


def test_few_dense_features_are_propagated_before_they_are_multiplied(make_graph):
    graph = make_graph()
    dense = replace(graph, features=np.random.default_rng(0).random((graph.num_nodes, 5), dtype=np.float32))
    quick, plain = (Infomax(dense, PROPAGATION, SMALL, seed=3, device=CPU) for _ in range(2))
    assert quick._narrow is not None
    plain._narrow = None
    for network in (quick, plain):
        network.new_epoch()
        network.loss().sum().backward()
    torch.testing.assert_close(quick.encoded(), plain.encoded())
    torch.testing.assert_close(quick.weight.grad, plain.weight.grad)
    many = replace(graph, features=np.ones((graph.num_nodes, 16), dtype=np.float32))
    assert Infomax(many, PROPAGATION, SMALL, seed=3, device=CPU)._narrow is None  # as many as the encoders make of them


def test_every_epoch_gives_nodes_other_features(make_graph):
    graph = make_graph()
    network = Infomax(graph, PROPAGATION, SMALL, seed=0, device=CPU)
    orders = []
    for _ in range(3):
        network.new_epoch()
        orders.append(network._order())
        assert sorted(orders[-1].tolist()) == list(range(graph.num_nodes))
    assert not torch.equal(orders[0], orders[1])
    assert not torch.equal(orders[1], orders[2])


def test_embeddings_have_length_one_and_depend_on_the_seed_alone(make_graph):
    graph, again = make_graph(), make_graph()
    embeddings = embedding(graph, PROPAGATION, SMALL, 0, CPU).embeddings
    assert embeddings.shape == (graph.num_nodes, 16)
    torch.testing.assert_close(embeddings.norm(dim=1), torch.ones(graph.num_nodes))
    assert torch.equal(embeddings, embedding(again, PROPAGATION, SMALL, 0, CPU).embeddings)
    assert not torch.equal(embeddings, embedding(graph, PROPAGATION, SMALL, 1, CPU).embeddings)


def test_learning_tells_positive_surroundings_from_corrupted_ones(make_graph):
    network = Infomax(make_graph(), PROPAGATION, InfomaxSettings(16, 1, epochs=150), seed=0, device=CPU)
    phase = Phase(150, lambda: Step({"infomax": network.loss()}))
    history = train(network, [phase], Adam(learning_rate=0.01))["infomax"][:, 0, 0]
    assert history[-10:].mean() < 0.8 * history[:10].mean()


def test_an_encoder_has_parameters_to_store_but_no_classes(make_graph):
    network = Infomax(make_graph(), PROPAGATION, SMALL, seed=0, device=CPU)
    assert (network.runs, network.peers) == (1, 2)
    assert set(network.trained()) == {"weight", "bias", "discriminator"}
    assert not hasattr(network, "logits")


def test_encoders_are_kept_and_taken_from_the_cache(make_graph, kept_in, monkeypatch):
    first = trained_encoders(make_graph(), PROPAGATION, SMALL, 0, CPU)
    assert len(list(kept_in.iterdir())) == 1
    monkeypatch.setattr("mtgcn.training.embeddings.train", None)
    second = trained_encoders(make_graph(), PROPAGATION, SMALL, 0, CPU)
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name])


def test_damaged_encoders_are_trained_anew_with_a_warning(make_graph, kept_in):
    first = trained_encoders(make_graph(), PROPAGATION, SMALL, 0, CPU)
    (kept,) = kept_in.iterdir()
    kept.write_bytes(kept.read_bytes()[:-100])
    with pytest.warns(RuntimeWarning, match="made anew"):
        second = trained_encoders(make_graph(), PROPAGATION, SMALL, 0, CPU)
    np.testing.assert_array_equal(first["weight"], second["weight"])


def test_encoders_read_a_graph_they_have_not_seen(make_graph):
    graph = make_graph()
    found = embedding(graph, PROPAGATION, SMALL, 0, CPU)
    torch.testing.assert_close(encode(graph, PROPAGATION, found.encoders, CPU), found.embeddings)
    lonely = Graph(adjacency=np.zeros((3, 3)), features=np.asarray(np.eye(3, graph.num_features), dtype=np.float32))
    assert encode(lonely, PROPAGATION, found.encoders, CPU).shape == (3, 16)


def test_large_graphs_get_shorter_embeddings_and_fewer_epochs():
    def settings_at(nodes):
        return InfomaxSettings().for_graph(Graph(adjacency=np.zeros((1, 1))) if nodes == 1 else _Size(nodes))

    assert settings_at(1) == InfomaxSettings()
    assert settings_at(20_000) == InfomaxSettings()
    million = settings_at(1_000_000)
    assert (million.dimensions, million.epochs) == (infomax.FEWEST_DIMENSIONS, infomax.FEWEST_EPOCHS)


class _Size:
    def __init__(self, nodes):
        self.num_nodes = nodes


def test_weight_decay_pulls_the_weights_of_features_that_nobody_has_to_zero(make_graph):
    graph = make_graph()
    features = np.asarray(graph.features.todense() if hasattr(graph.features, "todense") else graph.features).copy()
    features[:, 0] = 0
    graph = replace(graph, features=features)
    left = [
        np.abs(trained_encoders(graph, PROPAGATION, replace(SMALL, epochs=100, weight_decay=decay), 0, CPU)["weight"])[
            :, 0
        ]
        for decay in (0.0, 1e-3)
    ]
    assert left[1].mean() < 0.7 * left[0].mean()
