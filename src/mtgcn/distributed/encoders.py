"""The two encoders of `mt-plus`, trained one after the other over all ranks, and kept in checkpoints meanwhile."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch import Tensor

from mtgcn.distributed.checkpoints import Checkpoint, Checkpoints
from mtgcn.distributed.infomax import LocalInfomax
from mtgcn.distributed.local_graph import LocalGraph
from mtgcn.distributed.training import Progress, begin, train
from mtgcn.linalg.operators import Operator
from mtgcn.nn.infomax import InfomaxSettings
from mtgcn.shapes import UInt64
from mtgcn.task import run_seed
from mtgcn.training.adam import Adam
from mtgcn.training.embeddings import embeddings_by
from mtgcn.training.loop import Phase, Step
from mtgcn.training.peer_inputs import ENCODED, InputSettings

Encoder = Mapping[str, np.ndarray]


def trained_encoders(
    local: LocalGraph,
    features: Operator,
    keys: UInt64[np.ndarray, "here"],
    settings: InputSettings,
    seed: int,
    checkpoints: Checkpoints | None,
) -> dict[str, tuple[Tensor, Encoder]]:
    """By peer the embeddings of this rank's nodes and the encoder that made them."""
    found = checkpoints.found() if checkpoints else None
    result: dict[str, tuple[Tensor, Encoder]] = {}
    finished: dict[str, np.ndarray] = {}
    before = 0
    for number, (name, how) in enumerate(settings.encoders(local.whole).items()):
        network = LocalInfomax(local, features, keys, ENCODED, how, run_seed(seed, number))
        trained = {} if found is None else _of_encoder(name, found)
        if trained:
            network.load_trained(trained)
        else:
            _train(network, how, before, found, checkpoints, finished)
        encoder = network.trained()
        finished |= {f"{name}/{part}": values for part, values in encoder.items()}
        in_32_bits = {part: values.astype(np.float32) for part, values in encoder.items()}
        result[name] = embeddings_by(network, how.dimensions).float(), in_32_bits
        before += how.epochs
    return result


def _of_encoder(name: str, checkpoint: Checkpoint) -> Encoder:
    """What a checkpoint has of an encoder that was trained to the end."""
    start = f"{name}/"
    return {key.removeprefix(start): one for key, one in checkpoint.shared.items() if key.startswith(start)}


def _train(
    network: LocalInfomax,
    how: InfomaxSettings,
    before: int,
    found: Checkpoint | None,
    checkpoints: Checkpoints | None,
    finished: Encoder,
) -> None:
    """Epochs of checkpoints count through all encoders: `before` of them were the earlier ones'."""
    progress = begin(network, Adam(how.learning_rate, how.weight_decay))
    if found is not None and found.epoch > before:
        progress.go_on(found.epoch - before, found.shared, network)
        network.go_to(progress.done)

    def after_epoch(progress: Progress) -> None:
        epoch = before + progress.done
        if checkpoints and checkpoints.due(epoch):
            checkpoints.save(epoch, {**finished, **progress.shared(network)}, {})

    phase = Phase(how.epochs, lambda: Step({"infomax": network.loss()}))
    train(network, [phase], progress, network.local.ranks, after_epoch)
