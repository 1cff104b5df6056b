from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional

from mtgcn.nn import infomax
from mtgcn.nn.infomax import Infomax, InfomaxSettings, Views
from mtgcn.training.loop import Adam, Phase, Step, train

CPU = torch.device("cpu")
SMALL = InfomaxSettings(dimensions=4, epochs=5)
NODES, WIDTH = 30, 6


@pytest.fixture
def views():
    """Rows near one of two points, and corrupted rows between them."""
    random = torch.Generator().manual_seed(0)
    place = torch.eye(WIDTH)[torch.arange(NODES) % 2] + 0.1 * torch.randn(NODES, WIDTH, generator=random)
    moved = torch.stack([0.5 * (place + place.roll(shift, 0)) for shift in (1, 3, 5)])
    batches = torch.stack([torch.randperm(NODES, generator=random)[:20] for _ in range(5)])
    return Views(place, moved, batches)


def test_loss_by_hand(views):
    network = Infomax(views, replace(SMALL, held_decay=0.3), seed=3, device=CPU)
    with torch.no_grad():
        network.bias.normal_(generator=torch.Generator().manual_seed(0))
    for epoch in range(5):
        network.new_epoch()
        loss, batch = network.loss(), views.batches[epoch]
        for encoder, decay in enumerate((0.0, 0.3)):
            parameters = network.weight[:, 0, encoder], network.bias[0, encoder], network.discriminator[0, encoder]
            weight, bias, discriminator = parameters
            positive, corrupted = (
                functional.leaky_relu(rows[batch] @ weight + bias, 0.25)
                for rows in (views.rows, views.corrupted[epoch % 3])
            )
            compared = discriminator @ positive.mean(0).sigmoid()
            likelihood = (
                functional.logsigmoid(positive @ compared).mean() + functional.logsigmoid(-corrupted @ compared).mean()
            )
            held = decay / 2 * sum(values.square().sum() for values in parameters)
            torch.testing.assert_close(loss[0, encoder], held - likelihood, rtol=1e-4, atol=1e-5)


def test_training_lowers_the_loss_and_weight_decay_shrinks_the_second_encoder(views):
    network = Infomax(views, replace(SMALL, dimensions=16, held_decay=0.05), seed=0, device=CPU)
    phase = Phase(150, lambda: Step({"infomax": network.loss()}))
    history = train(network, [phase], Adam(learning_rate=0.01))["infomax"][:, 0, 0]
    assert history[-10:].mean() < 0.8 * history[:10].mean()
    free, held = network.weight.detach()[:, 0].square().sum((0, 2))
    assert held < 0.5 * free


def test_encoders_differ_and_can_be_stored(views):
    network = Infomax(views, SMALL, seed=0, device=CPU)
    assert (network.runs, network.peers) == (1, 2)
    assert set(network.trained()) == {"weight", "bias", "discriminator"}
    assert not hasattr(network, "logits")
    assert not torch.equal(network.weight[:, 0, 0], network.weight[:, 0, 1])


def test_large_graphs_use_less_memory():
    settings = InfomaxSettings()
    assert settings.for_graph(SimpleNamespace(num_nodes=1)) == settings
    assert settings.for_graph(SimpleNamespace(num_nodes=20_000)) == settings
    assert settings.for_graph(SimpleNamespace(num_nodes=10**6)).dimensions == infomax.MIN_DIMENSIONS
    assert settings.corruptions(20_000, 256) == settings.max_corruptions
    assert settings.corruptions(10**6, 20) == 3
    assert settings.corruptions(10**9, 20) == infomax.MIN_CORRUPTIONS
