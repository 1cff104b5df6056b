import base64
import io

import numpy as np
from PIL import Image

from mtgcn.studio.details import Picture
from mtgcn.studio.picture import picture_address


def test_a_picture_is_ink_on_paper():
    values = [0.0, 0.5, 1.0, 2.0, -1.0, float("nan")]
    kind, _, content = picture_address(Picture(2, 3, values)).partition(",")
    assert kind == "data:image/png;base64"
    image = Image.open(io.BytesIO(base64.b64decode(content)))
    assert image.mode == "L"
    np.testing.assert_array_equal(np.asarray(image), [[255, 128, 0], [0, 255, 255]])
