"""LSTM, GRU and RNN with all of their attributes, in float64 by NumPy, from ONNX's formulas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray
USUAL = {"GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh"), "RNN": ("Tanh",)}
DEFAULTS = {
    "Elu": (1.0,), "HardSigmoid": (0.2, 0.5), "LeakyRelu": (0.01,), "ThresholdedRelu": (1.0,),
}  # fmt: skip
FUNCTIONS: dict[str, Any] = {
    "Affine": lambda x, a, b: a * x + b,
    "Elu": lambda x, a: np.where(x < 0, a * np.expm1(np.minimum(x, 0)), x),
    "HardSigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "LeakyRelu": lambda x, a: np.where(x < 0, a * x, x),
    "Relu": lambda x: np.maximum(x, 0),
    "ScaledTanh": lambda x, a, b: a * np.tanh(b * x),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Softplus": lambda x: np.logaddexp(0, x),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Tanh": np.tanh,
    "ThresholdedRelu": lambda x, a: np.where(x < a, 0, x),
}
NUMBERS = {"Affine": 2, "Elu": 1, "HardSigmoid": 2, "LeakyRelu": 1, "ScaledTanh": 2,
           "ThresholdedRelu": 1}  # fmt: skip


def recurrent(op: str, operands: Sequence[Array | None], attributes: Mapping[str, Any]) -> list:
    """Compute y and the last states, in the layout of the operands."""
    operands = [*operands, *[None] * 8][:8]
    x, w, r, b, lengths, h, c, p = (
        None if a is None else np.asarray(a, np.float64) for a in operands
    )
    assert x is not None and w is not None and r is not None
    layout = attributes.get("layout", 0)
    if layout:
        x, h, c = (None if a is None else a.swapaxes(0, 1) for a in (x, h, c))
    times, batch, _ = x.shape
    directions, width = r.shape[0], r.shape[2]
    named = list(attributes.get("activations") or USUAL[op] * directions)
    alphas = list(attributes.get("activation_alpha") or ())
    betas = list(attributes.get("activation_beta") or ())
    functions = []
    for name in named:
        count = NUMBERS.get(name, 0)
        numbers = list(DEFAULTS.get(name, (0.0, 0.0)))[:count]
        if count and alphas:
            numbers[0] = alphas.pop(0)
        if count > 1 and betas:
            numbers[1] = betas.pop(0)
        functions.append((FUNCTIONS[name], numbers))
    bound = attributes.get("clip", np.inf)
    y = np.zeros((times, directions, batch, width))
    last = [np.zeros((directions, batch, width)) for _ in range(2)]
    for d in range(directions):
        own = functions[d * len(USUAL[op]) : (d + 1) * len(USUAL[op])]

        def act(number, z, own=own):
            function, numbers = own[number]
            return function(z if number == 2 else np.clip(z, -bound, bound), *numbers)

        gates = w.shape[1]
        wb, rb = (np.zeros(gates),) * 2 if b is None else (b[d, :gates], b[d, gates:])
        state = np.zeros((batch, width)) if h is None else h[d].copy()
        cell = np.zeros((batch, width)) if c is None else c[d].copy()
        back = d == 1 or attributes.get("direction") == "reverse"
        for t in reversed(range(times)) if back else range(times):
            mine = x[t] @ w[d].T + wb
            own_state = state @ r[d].T + rb
            new_cell = cell
            if op == "RNN":
                new = act(0, mine + own_state)
            elif op == "GRU":
                a, s = np.split(mine, 3, 1), np.split(own_state, 3, 1)
                z, gate = act(0, a[0] + s[0]), act(0, a[1] + s[1])
                if attributes.get("linear_before_reset", 0):
                    n = act(1, a[2] + gate * s[2])
                else:
                    rest = (gate * state) @ r[d, 2 * width :].T + rb[2 * width :]
                    n = act(1, a[2] + rest)
                new = (1 - z) * n + z * state
            else:
                i, o, f, g = np.split(mine + own_state, 4, 1)
                pi, po, pf = np.zeros((3, width)) if p is None else p[d].reshape(3, width)
                i = act(0, i + pi * cell)
                f = 1 - i if attributes.get("input_forget", 0) else act(0, f + pf * cell)
                new_cell = f * cell + i * act(1, g)
                new = act(0, o + po * new_cell) * act(2, new_cell)
            here = np.ones((batch, 1), bool) if lengths is None else (t < lengths)[:, None]
            y[t, d] = np.where(here, new, 0)
            state, cell = np.where(here, new, state), np.where(here, new_cell, cell)
        last[0][d], last[1][d] = state, cell
    if layout:
        return [y.transpose(2, 0, 1, 3), *(a.swapaxes(0, 1) for a in last)]
    return [y, *last]
