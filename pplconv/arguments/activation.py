"""``activation=``: its forms, checked and described for the loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._checks import meant
from .._records import record
from ..activations import CLIPS, CURVES, KINDS, WORDS, forms
from ..memory.array_like import array_of

_FORMS = forms()
# Of Keras, PyTorch and ONNX.
_OTHERS = {
    "swish": "'silu'",
    "hard_swish": "'hardswish'",
    "linear": "None",
    "identity": "None",
    "none": "None",
    "leaky_relu": "('leaky_relu', slope)",
    "leakyrelu": "('leaky_relu', slope)",
    "prelu": "('prelu', slope)",
    "clip": "('clip', low, high)",
}


@record(frozen=True)
class Activation:
    """A checked value of ``activation=``.

    Parameters
    ----------
    kind : str
        One of `pplconv.activations.KINDS`.
    bounds : (float, float), optional
        Of a clip.
    slope : ndarray or float, optional
        ``"prelu"`` has an array with an element for each output channel. ``"leaky_relu"``, which
        also stands for a PReLU with one shared slope, has a number.
    """

    kind: str
    bounds: tuple[float, float] | None = None
    slope: Any = None

    @property
    def epilogue(self) -> str:
        """Cost class of the epilogue, one of `COST_CLASSES`."""
        return KINDS[self.kind].cost


def activation_text(activation: object) -> str:
    """Give an activation as messages and ``repr`` show it: on one line, arrays by their shape."""
    if isinstance(activation, (tuple, list)):
        items = [
            f"<array of shape {item.shape}>" if isinstance(item, np.ndarray) else repr(item)
            for item in activation
        ]
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    return repr(activation)


def _number(what: str, value: object, activation: object) -> float:
    """Return a number inside an activation as a float."""
    if isinstance(value, (bool, str)):
        raise TypeError(f"activation: {what} must be numbers, got {activation_text(activation)}")
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TypeError(
            f"activation: {what} must be numbers, got {activation_text(activation)}"
        ) from None


def _prelu(slope: object, oc: int) -> Activation:
    """A slope for each channel, or one for all of them."""
    expected = f'activation: ("prelu", slope) needs slopes of shape ({oc},) or one slope'
    try:
        array = array_of(slope, "slope")
    except (TypeError, ValueError) as error:
        raise TypeError(f"{expected}: {error}") from error
    if array.dtype.name == "bfloat16":
        array = array.astype(np.float32)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{expected}, got dtype {array.dtype}")
    if array.shape not in ((), (1,), (oc,)):
        raise ValueError(f"{expected}, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError("activation: prelu needs finite slopes, got NaN or an infinity")
    if array.shape in ((), (1,)):
        return Activation("leaky_relu", slope=float(array.reshape(())))
    return Activation("prelu", slope=array)


def activation_of(activation: object, oc: int) -> Activation:
    """Resolve ``activation=`` of a convolution with `oc` output channels.

    Raises
    ------
    TypeError, ValueError
        If `activation` is of no known form, its bounds are NaN or out of order, its slope is
        not finite, or the number of slopes is not that of the channels.
    """
    if activation is None:
        return Activation("none")
    if isinstance(activation, str):
        if activation in CLIPS:
            return Activation("clip", CLIPS[activation])
        if activation in CURVES:
            return Activation(activation)
    elif not isinstance(activation, (tuple, list)):
        raise TypeError(f"activation must be {_FORMS}, got {activation!r}")
    elif activation and isinstance(activation[0], str):
        name, *rest = activation
        if name == "clip" and len(rest) == 2:
            low, high = (_number("clip bounds", bound, activation) for bound in rest)
            if not low <= high:
                raise ValueError(
                    f"activation: clip needs low <= high, got {activation_text(activation)}"
                )
            return Activation("clip", (low, high))
        if name == "leaky_relu" and len(rest) == 1:
            slope = _number("slopes", rest[0], activation)
            if not math.isfinite(slope):
                text = activation_text(activation)
                raise ValueError(f"activation: leaky_relu needs a finite slope, got {text}")
            return Activation("leaky_relu", slope=slope)
        if name == "prelu" and len(rest) == 1:
            return _prelu(rest[0], oc)
    raise ValueError(
        f"activation must be {_FORMS}, got {activation_text(activation)}"
        f"{meant(activation, WORDS, _OTHERS)}"
    )


def settled(activation: object) -> object:
    """Replace objects inside an activation by plain numbers, which run no code when read.

    Raises
    ------
    TypeError
        If a part of an activation is no number, or no array of slopes.
    """
    if not isinstance(activation, (tuple, list)) or len(activation) < 2:
        return activation
    name, *rest = activation
    if not isinstance(name, str):
        return activation  # `activation_of` refuses it
    if name == "prelu":
        return name, *(array_of(slope, "activation: slope") for slope in rest)
    return name, *(_number("bounds and slopes", value, activation) for value in rest)


def kept_activation(activation: object, oc: int) -> object:
    """Copy the argument so that an object can keep it: the caller may change an array later."""
    found = activation_of(activation, oc)
    if found.kind == "prelu":
        slope = np.array(found.slope)
        slope.flags.writeable = False  # users can read it as an attribute
        return ("prelu", slope)
    if isinstance(activation, (tuple, list)):
        return (activation[0], found.slope) if found.kind == "leaky_relu" else tuple(activation)
    return activation
