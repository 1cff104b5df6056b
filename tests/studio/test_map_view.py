import numpy as np

from mtgcn.studio.fitting import MapPoints
from mtgcn.studio.map_view import place_bytes


def test_coordinates_are_centred_in_a_square():
    x, y = np.frombuffer(place_bytes(np.array([[2.0, 5], [6, 5], [4, 7]])), "<f4").reshape(2, 3)
    np.testing.assert_allclose(x, [0, 1, 0.5])
    np.testing.assert_allclose(y, [0.25, 0.25, 0.75])
    np.testing.assert_allclose(np.frombuffer(place_bytes(np.array([[3.0, 3.0]])), "<f4"), 0.5)


def test_numbers_of_nodes_outside_a_sample():
    points = MapPoints(np.array([2, 5, 9]), np.zeros((3, 2)))
    assert points.numbers(np.array([9, 2, 3, 0, 12, -1])) == [2, 0, -1, -1, -1, -1]
