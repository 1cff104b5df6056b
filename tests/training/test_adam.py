"""Adam as torch has it, for parameters that decay and others that do not."""

import pytest
import torch

from mtgcn.training.adam import Adam


class Two:
    """One parameter that decays and one that does not."""

    def __init__(self):
        self.decays, self.stays = (torch.linspace(-1, 1, 6).view(2, 3).requires_grad_() for _ in range(2))

    def parameters(self):
        return [self.decays, self.stays]

    def decayed_parameters(self):
        return [self.decays]


# The last are as small as Adam's epsilon, which then halves a step.
@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-8])
@pytest.mark.parametrize("weight_decay", [None, 0.3])
def test_steps_are_those_of_torch(size, weight_decay):
    ours, theirs = Two(), Two()
    adam = Adam(0.1) if weight_decay is None else Adam(0.1, weight_decay)
    reference = torch.optim.Adam(
        [{"params": [theirs.decays], "weight_decay": weight_decay or 0}, {"params": [theirs.stays]}], lr=0.1
    )
    optimisation = adam.begin(ours)
    for step in range(5):
        gradient = size * torch.randn(2, 3, generator=torch.Generator().manual_seed(step))
        for parameter in (*ours.parameters(), *theirs.parameters()):
            parameter.grad = gradient.clone()
        optimisation.step()
        reference.step()
    for found, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    optimisation.forget_gradients()
    assert all(parameter.grad is None for parameter in ours.parameters())
