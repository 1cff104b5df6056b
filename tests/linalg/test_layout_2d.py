"""Places in the plane: near rows stay near, pushes are what the formula says, and no table is too odd."""

import numpy as np
import pytest

from mtgcn.linalg import layout_2d as layout
from mtgcn.linalg.layout_2d import layout_2d, nearest_rows


@pytest.fixture(scope="module")
def groups():
    """Six groups of fifty rows in twelve dimensions."""
    random = np.random.default_rng(0)
    centres = 6 * random.normal(size=(6, 12))
    return np.repeat(centres, 50, axis=0) + random.normal(size=(300, 12)), np.repeat(np.arange(6), 50)


def test_groups_stay_together(groups):
    rows, group = groups
    places = layout_2d(rows)
    near = nearest_rows(places.astype(np.float32), 5)
    assert np.mean(group[near] == group[:, None]) > 0.99


def test_near_rows_are_near_on_the_plane(groups):
    rows = groups[0]
    near, placed = nearest_rows(rows.astype(np.float32), 15), nearest_rows(layout_2d(rows).astype(np.float32), 5)
    kept = np.mean([np.isin(found, true).mean() for found, true in zip(placed, near, strict=True)])
    assert kept > 0.6  # by chance it would be 15 of 299


def test_the_plane_is_used(groups):
    places = layout_2d(groups[0])
    np.testing.assert_allclose(places.min(axis=0), [0, 0], atol=1e-9)
    assert places[:, 0].max() == pytest.approx(1)
    assert 0.2 < places[:, 1].max() <= 1


def test_the_same_rows_and_seed_give_the_same_places(groups):
    rows = groups[0]
    np.testing.assert_array_equal(layout_2d(rows), layout_2d(rows))
    assert not np.array_equal(layout_2d(rows), layout_2d(rows, seed=1))


def test_the_unit_of_the_rows_changes_nothing():
    rows = np.random.default_rng(0).normal(size=(60, 3))
    places = layout_2d(rows)
    for unit in (2.0**-20, 2.0**20):  # by which numbers are multiplied without rounding
        np.testing.assert_array_equal(layout_2d(rows * unit), places)


def test_the_grid_pushes_as_the_formula_does_the_better_the_finer_it_is(monkeypatch):
    monkeypatch.setattr(layout, "MAX_CELLS", 1000)
    points = np.random.default_rng(0).normal(scale=8, size=(2, 400)).astype(np.float32)
    difference = (points[:, :, None] - points[:, None]).astype(np.float64)
    closeness = 1 / (1 + (difference**2).sum(axis=0))
    everything = closeness.sum() - points.shape[1]
    exact = (difference * closeness**2).sum(axis=2) / everything

    def error(cell):
        monkeypatch.setattr(layout, "CELL", cell)
        wrong = np.linalg.norm(layout._repulsion(points) - exact, axis=0)
        return wrong.mean() / np.linalg.norm(exact, axis=0).mean()

    coarse, fine = error(0.4), error(0.1)
    assert fine < 0.01
    assert fine < 1.5 * coarse / 16  # a straight line between grid points errs with the square of their distance


def test_bonds_pull_as_the_formula_does():
    points = np.array([[0, 1, 3], [0, 0, 4]], dtype=np.float32)
    pull = layout._attraction(points, np.array([0, 1]), np.array([1, 2]), np.array([0.5, 0.25], dtype=np.float32))
    # Between the first two the distance is 1, so half of the bond; between the others 20 squared, so a 21st.
    expected = [[-0.25, 0.25 - 0.5 / 21, 0.5 / 21], [0, -1 / 21, 1 / 21]]
    np.testing.assert_allclose(pull, expected, rtol=1e-6)


def test_nobody_is_its_own_neighbour():
    rows = np.array([[0], [0], [1], [5]], dtype=np.float32)
    assert nearest_rows(rows, 1)[[0, 1, 3], 0].tolist() == [1, 0, 2]
    assert all(number not in near for number, near in enumerate(nearest_rows(rows, 3)))


@pytest.mark.parametrize(
    "rows",
    [
        np.ones((100, 5)),
        np.zeros((3, 1)),
        np.full((50, 2), np.nan),
        np.array([[np.inf, -np.inf, 1.0]] * 8),
        np.ones((1, 1)),
        np.repeat(np.eye(3), 200, axis=0),
        np.zeros((10, 0)),
        np.full((40, 3), 1e30) + np.arange(40)[:, None],
        np.vstack([np.zeros((30, 2)), [[1e12, 0]]]),
    ],
    ids=["constant", "three", "nan", "infinite", "one", "many equals", "no columns", "huge", "one far away"],
)
def test_any_table_has_places(rows):
    places = layout_2d(rows)
    assert places.shape == (len(rows), 2)
    assert np.isfinite(places).all()
    assert places.min() >= 0
    assert places.max() <= 1 + 1e-9


def test_equal_rows_make_a_cloud_and_not_a_dot():
    places = layout_2d(np.ones((200, 4)))
    assert places.std(axis=0).min() > 0.1
    assert len(np.unique(places.round(3), axis=0)) > 150


def test_progress_is_told_to_the_end():
    told = []
    layout_2d(np.random.default_rng(0).normal(size=(30, 3)), progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (layout.STEPS, layout.STEPS)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
