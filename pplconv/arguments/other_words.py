"""Names of arguments in other libraries, and which they are here."""

from __future__ import annotations

import re
from typing import Any

from .._checks import meant
from .signatures import SIGNATURES

__all__ = ["explained"]

# Of ONNX, Keras, TensorFlow, JAX, SciPy and PyTorch's layers.
_OTHERS = {
    "strides": "stride",
    "window_strides": "stride",
    "subsample": "stride",
    "dilations": "dilation",
    "dilation_rate": "dilation",
    "rhs_dilation": "dilation",
    "pad": "padding",
    "pads": "padding",
    "auto_pad": "padding",
    "mode": "padding_mode",
    "group": "groups",
    "feature_group_count": "groups",
    "x": "input",
    "image": "input",
    "images": "input",
    "w": "weight",
    "weights": "weight",
    "kernel": "weight",
    "filter": "weight",
    "filters": "weight",
    "b": "bias",
    "biases": "bias",
    "data_format": "layout",
    "num_threads": "threads",
}
_SIZES = ("kernel_size", "kernel_shape", "in_channels", "out_channels")
_UNKNOWN = re.compile(r".* got an unexpected keyword argument '(\w+)'")


def explained(called: Any, error: TypeError) -> TypeError:
    """Add what an unknown argument is here, if that can be told.

    Parameters
    ----------
    called : function or type
        The function or the layer's class, or a class that derives from it.
    error : TypeError
        What the call raised.

    Returns
    -------
    TypeError
        The same error if it is not about an unknown argument, else another one.
    """
    found = _UNKNOWN.fullmatch(str(error))
    if found is None:
        return error
    names = (base.__name__ for base in getattr(called, "__mro__", (called,)))
    name = next(name for name in names if name in SIGNATURES)
    words = SIGNATURES[name].arguments
    others = {other: f"`{here}`" for other, here in _OTHERS.items() if here in words}
    others |= dict.fromkeys(_SIZES, "the shape of `weight`")
    hint = meant(found[1], words, others)
    better = TypeError(f"{name}() got an unexpected keyword argument {found[1]!r}{hint}")
    better.__suppress_context__ = True  # the error that it takes the place of
    return better
