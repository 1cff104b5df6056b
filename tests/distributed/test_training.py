"""Steps are taken by the gradient of all ranks' losses together, and a training can go on where it was stopped."""

import numpy as np
import pytest
import torch

from mtgcn.distributed.ranks import Ranks
from mtgcn.distributed.training import begin, train
from mtgcn.errors import InputError
from mtgcn.nn.base import StackedParameters
from mtgcn.training import loop
from mtgcn.training.loop import Adam, Phase, Step
from thread_ranks import on_ranks

TARGETS = torch.tensor([1.0, 2.0, 6.0])
ADAM = Adam(0.1, weight_decay=0.01)


class Point(StackedParameters):
    """One number of one model, which should be where its targets are on average."""

    def __init__(self):
        super().__init__(runs=1, peers=1, device=torch.device("cpu"))
        self.add_parameter("place", torch.zeros(1, 1), run_axis=0)

    def step(self, targets):
        return Step({"distance": ((self.place - targets[:, None, None]) ** 2).sum(0) / len(TARGETS)})


def trained(ranks, epochs, progress=None, point=None):
    point = point or Point()
    progress = progress or begin(point, ADAM)
    mine = TARGETS[ranks.rank :: ranks.count]
    phases = [Phase(epochs // 2, lambda: point.step(mine)), Phase(epochs - epochs // 2, lambda: point.step(mine))]
    train(point, phases, progress, ranks)
    return point, progress


@pytest.mark.parametrize("count", [1, 3])
def test_the_steps_are_those_of_one_process(count):
    whole = Point()
    history = loop.train(whole, [Phase(9, lambda: whole.step(TARGETS))], ADAM)
    for point, progress in on_ranks(count, lambda ranks: trained(ranks, 9)):
        torch.testing.assert_close(point.place, whole.place)
        np.testing.assert_allclose(np.stack(progress.history["distance"]), history["distance"], rtol=1e-5)


def test_going_on_is_the_same_as_never_having_stopped():
    whole, history = trained(Ranks(), 9)
    first, progress = trained(Ranks(), 4)
    kept = {name: values.copy() for name, values in progress.shared(first).items()}
    later = Point()
    again = begin(later, ADAM)
    again.go_on(4, kept, later)
    trained(Ranks(), 9, again, later)
    torch.testing.assert_close(later.place, whole.place, rtol=0, atol=0)
    np.testing.assert_array_equal(again.full_history()["distance"], history.full_history()["distance"])


def test_a_phase_without_a_loss_has_no_number_for_it():
    point = Point()
    other = Phase(2, lambda: Step({"other": point.place**2}))
    progress = begin(point, ADAM)
    train(point, [Phase(1, lambda: point.step(TARGETS)), other], progress, Ranks())
    found = {name: np.isnan(np.ravel(values)).tolist() for name, values in progress.full_history().items()}
    assert found == {"distance": [False, True, True], "other": [True, False, False]}


def test_a_loss_that_is_not_finite_on_one_rank_ends_the_training_on_all():
    def work(ranks):
        point = Point()
        factor = float("inf") if ranks.rank == 1 else 1.0
        phase = Phase(3, lambda: Step({"distance": (point.place + 1) * factor}))
        with pytest.raises(InputError, match="the loss 'distance' was not finite from epoch 1 on; lower learning_rate"):
            train(point, [phase], begin(point, ADAM), ranks)

    on_ranks(2, work)
