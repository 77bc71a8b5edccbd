"""An editor shows the signature and the docstring of compiled functions and layers, by Jedi."""

import jedi
import pytest

from tools.stubs import STUBS


@pytest.mark.parametrize(("name", "words"), [
    ("conv2d", ("stride: _IntOrPair=1", "oh = (H + top + bottom", "(1, 8, 16, 16)")),
    ("conv_transpose2d", ("input: _ImagesLike[_Scalar]", "Parameters", "Returns")),
    ("matmul", ("a: _ImagesLike[_Scalar]", "Parameters", "Returns")),
    ("Conv2d", ("weight: _ArrayLike", "A 2-D convolution with its weights packed once.")),
    ("ConvTranspose2d", ("weight: _ArrayLike", "Parameters")),
    ("Linear", ("weight: _ArrayLike", "Parameters")),
])  # fmt: skip
def test_hovering_shows_what_help_does(name, words):
    assert name in {stub.name for stub in STUBS.values()}
    (found,) = jedi.Script(f"import pplconv\npplconv.{name}\n").help(2, len("pplconv.") + 1)
    text = found.docstring()
    for word in words:
        assert word in text, text
