import numpy as np
import pytest

from mtgcn.linalg import layout_2d as layout
from mtgcn.linalg.layout_2d import layout_2d, nearest_rows

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def groups():
    """Six groups of fifty rows in twelve dimensions, the group of each row, and its place."""
    random = np.random.default_rng(0)
    centres = 6 * random.normal(size=(6, 12))
    rows = np.repeat(centres, 50, axis=0) + random.normal(size=(300, 12))
    return rows, np.repeat(np.arange(6), 50), layout_2d(rows)


def test_neighbours_stay_neighbours(groups):
    rows, group, places = groups
    near, placed = nearest_rows(rows.astype(np.float32), 15), nearest_rows(places.astype(np.float32), 5)
    assert np.mean(group[placed] == group[:, None]) > 0.99
    kept = np.mean([np.isin(found, true).mean() for found, true in zip(placed, near, strict=True)])
    assert kept > 0.6  # by chance it would be 15 of 299


def test_rows_beyond_the_sample_are_placed_in_their_group(groups, monkeypatch):
    rows, group, _ = groups
    monkeypatch.setattr(layout, "MAX_ROWS", 120)
    places = layout_2d(rows)
    assert places.shape == (300, 2)
    assert len(np.unique(places, axis=0)) == 300
    assert np.mean(group[nearest_rows(places.astype(np.float32), 5)] == group[:, None]) > 0.99


def test_coordinates_fill_the_unit_square(groups):
    places = groups[2]
    np.testing.assert_allclose(places.min(axis=0), [0, 0], atol=1e-9)
    assert places[:, 0].max() == pytest.approx(1)
    assert 0.2 < places[:, 1].max() <= 1


def test_layout_depends_on_the_seed_and_not_on_the_scale(groups):
    rows, _, places = groups
    for unit in (1, 2.0**-20, 2.0**20):  # exact factors
        np.testing.assert_array_equal(layout_2d(rows * unit), places)
    assert not np.array_equal(layout_2d(rows, seed=1), places)


def test_repulsion_converges_to_the_formula(monkeypatch):
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
    assert fine < 1.5 * coarse / 16  # linear interpolation: the error is quadratic in the cell size


def test_attraction_by_hand():
    points = np.array([[0, 1, 3], [0, 0, 4]], dtype=np.float32)
    pull = layout._attraction(points, np.array([0, 1]), np.array([1, 2]), np.array([0.5, 0.25], dtype=np.float32))
    # Squared distances 1 and 20, so the factors 1/2 and 1/21.
    expected = [[-0.25, 0.25 - 0.5 / 21, 0.5 / 21], [0, -1 / 21, 1 / 21]]
    np.testing.assert_allclose(pull, expected, rtol=1e-6)


def test_nearest_rows_exclude_the_row_itself():
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
        np.repeat(np.eye(3), 60, axis=0),
        np.zeros((10, 0)),
        np.full((40, 3), 1e30) + np.arange(40)[:, None],
        np.vstack([np.zeros((30, 2)), [[1e12, 0]]]),
    ],
    ids=["constant", "three", "nan", "infinite", "one", "many equals", "no columns", "huge", "one far away"],
)
def test_degenerate_tables(rows):
    places = layout_2d(rows)
    assert places.shape == (len(rows), 2)
    assert np.isfinite(places).all()
    assert places.min() >= 0
    assert places.max() <= 1 + 1e-9


def test_equal_rows_form_a_cloud():
    places = layout_2d(np.ones((200, 4)))
    assert places.std(axis=0).min() > 0.1
    assert len(np.unique(places.round(3), axis=0)) > 150


def test_progress_is_reported():
    reports = []
    layout_2d(np.random.default_rng(0).normal(size=(30, 3)), progress=lambda done, total: reports.append((done, total)))
    assert reports == [(done, 300) for done in range(10, 301, 10)]
