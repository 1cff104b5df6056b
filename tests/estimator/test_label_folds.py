import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from mtgcn import LabelFolds
from mtgcn.errors import InputError
from small_models import quick


def labels_of(truth, kind):
    """Twelve labels, four of each class; the first row has one."""
    chosen = np.concatenate([np.flatnonzero(truth == number)[:4] for number in range(3)])
    y = np.full(len(truth), {"names": None, "numbers": -1, "floats": np.nan}[kind], dtype=object)
    y[chosen] = np.array(["ant", "bee", "cat"])[truth[chosen]] if kind == "names" else truth[chosen]
    assert 0 in chosen
    return y if kind == "names" else y.astype(float if kind == "floats" else int)


@pytest.mark.parametrize("kind", ["names", "numbers", "floats"])
def test_cross_val_score(blobs, kind):
    rows, _, truth = blobs
    scores = cross_val_score(quick(), rows, labels_of(truth, kind), cv=LabelFolds(4))
    assert scores.shape == (4,)
    assert scores.min() > 0.9


def test_folds(blobs):
    _, _, truth = blobs
    y = labels_of(truth, "names")
    known = np.flatnonzero([name is not None for name in y])
    folds = list(LabelFolds(4).split(None, y))
    assert LabelFolds(4).get_n_splits() == len(folds) == 4
    assert sorted(np.concatenate([held_out for _, held_out in folds])) == known.tolist()
    for train, held_out in folds:
        assert sorted([*train, *held_out]) == list(range(60))
        assert sorted(y[held_out]) == ["ant", "bee", "cat"]


@pytest.mark.parametrize(
    ("splits", "y", "message"),
    [
        (3, ["a", "a", "a", "b", "b", None], "n_splits is 3, and the labels of the rarest class are 2 of class b"),
        (1, ["a", "a", "b", "b"], "n_splits is 1"),
        (2, [None, None], "none at all"),
    ],
)
def test_invalid_folds(splits, y, message):
    with pytest.raises(InputError, match=message):
        next(LabelFolds(splits).split(None, y))
