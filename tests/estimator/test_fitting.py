import pytest

from mtgcn.errors import InputError
from mtgcn.estimator.graph_model import seed_of
from mtgcn.splits import LARGEST_SEED


def test_a_seed_that_the_model_could_not_be_read_with_is_refused():
    assert seed_of(LARGEST_SEED) == LARGEST_SEED
    with pytest.raises(InputError, match=r"give at most 2\*\*128"):
        seed_of(LARGEST_SEED + 1)
