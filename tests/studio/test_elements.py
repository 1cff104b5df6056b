import base64

import numpy as np

from mtgcn.studio.elements import centred, packed


def test_packed_arrays_are_little_endian():
    assert base64.b64decode(packed(np.array([1, 258, 65535]), "u2")) == b"\x01\x00\x02\x01\xff\xff"
    assert base64.b64decode(packed(np.array([0.5]), "f4")) == np.float32(0.5).tobytes()


def test_coordinates_are_centred_in_a_square():
    x, y = (np.frombuffer(base64.b64decode(one), "<f4") for one in centred(np.array([[2.0, 5], [6, 5], [4, 7]])))
    np.testing.assert_allclose(x, [0, 1, 0.5])
    np.testing.assert_allclose(y, [0.25, 0.25, 0.75])
    x, y = (np.frombuffer(base64.b64decode(one), "<f4") for one in centred(np.array([[3.0, 3.0]])))
    np.testing.assert_allclose([x, y], 0.5)
