"""Random small graphs, rewritten, against the same graphs as they were written.

Branches, shared weights, values with several users and values that are outputs come up by chance,
so rules meet what they must leave alone in every mixture.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.network.graphs import Graph, rewritten

pytestmark = pytest.mark.unemulated("reads and rewrites graphs, which no machine changes")

Step = Callable[[Graph, str, str], str]


def _shared(g: Graph) -> str:
    """Weights that several convolutions have."""
    if g.shared is None:
        g.shared = g.constant(g.rng.standard_normal((4, 4, 1, 1)) / 2)
    return g.shared


def _conv(g: Graph, x: str, size: int = 3, **attributes) -> str:
    group = attributes.get("group", 1)
    scale = np.sqrt(group / (4 * size * size))
    w = g.constant(g.rng.standard_normal((4, 4 // group, size, size)) * scale)
    return str(g.Conv(x, w, g.random(4), **attributes))


def _transposed(g: Graph, x: str) -> str:
    w = g.constant(g.rng.standard_normal((4, 4, 3, 3)) / 6)
    return str(g.ConvTranspose(x, w, pads=[1, 1, 1, 1]))


def _padded(g: Graph, x: str) -> str:
    padded = g.Pad(x, g.constant([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
    return _conv(g, padded)


def _hard_swish(g: Graph, x: str) -> str:
    inner = g.Clip(g.Add(x, g.constant(3)), g.constant(0), g.constant(6))
    return str(g.Div(g.Mul(x, inner), g.constant(6)))


def _gate(g: Graph, x: str) -> str:
    gate = g.HardSigmoid(_conv(g, g.GlobalAveragePool(x), 1))
    return str(g.Add(x, g.Mul(x, gate)))


STEPS: tuple[Step, ...] = (
    lambda g, x, y: _conv(g, x, pads=[1, 1, 1, 1]),
    lambda g, x, y: _conv(g, x, pads=[1, 1, 1, 1], group=2),
    lambda g, x, y: _conv(g, x, 1),
    lambda g, x, y: g.Conv(x, _shared(g)),
    lambda g, x, y: _transposed(g, x),
    lambda g, x, y: _padded(g, x),
    lambda g, x, y: g.batch_norm(x, 4),
    lambda g, x, y: g.Mul(x, g.random(4, 1, 1)),
    lambda g, x, y: g.Mul(g.positive(1), x),
    lambda g, x, y: g.Add(x, g.random(1, 4, 1, 1)),
    lambda g, x, y: g.Sub(g.random(1), x),
    lambda g, x, y: g.Div(x, g.positive(4, 1, 1)),
    lambda g, x, y: g.Mul(x, g.random(6)),
    lambda g, x, y: g.Add(x, y),
    lambda g, x, y: g.Add(y, x),
    lambda g, x, y: g.Mul(g.Tanh(x), g.Tanh(y)),
    lambda g, x, y: g.Sum(x, y, x),
    lambda g, x, y: g.Relu(x),
    lambda g, x, y: g.Clip(x, g.constant(-1), g.constant(2)),
    lambda g, x, y: g.LeakyRelu(x),
    lambda g, x, y: g.PRelu(x, g.random(4, 1, 1)),
    lambda g, x, y: g.Mul(x, g.Sigmoid(x)),
    lambda g, x, y: _hard_swish(g, x),
    lambda g, x, y: _gate(g, x),
    lambda g, x, y: g.Tanh(x),
    lambda g, x, y: g.Min(g.Max(x, g.constant(-2)), g.constant(2)),
    lambda g, x, y: g.Transpose(g.Transpose(x, perm=[0, 1, 3, 2]), perm=[0, 1, 3, 2]),
    lambda g, x, y: g.Identity(x),
    lambda g, x, y: g.AveragePool(x, kernel_shape=[3, 3], auto_pad="SAME_UPPER"),
)


@given(
    seed=st.integers(0, 1 << 30),
    # Which operator, how far back its operands lie, and whether it is an output of the graph.
    steps=st.lists(
        st.tuples(
            st.integers(0, len(STEPS) - 1),
            st.integers(1, 2),
            st.integers(1, 4),
            st.sampled_from([False] * 7 + [True]),
        ),
        min_size=2,
        max_size=12,
    ),
)
def test_random_graphs(seed, steps):
    g = Graph(seed)
    values = [g.input(1, 4, 6, 6)]
    outputs = []
    for step, near, far, output in steps:
        x, y = (values[max(len(values) - back, 0)] for back in (near, far))
        values.append(STEPS[step](g, x, y))
        if output:
            outputs.append(values[-1])
    if values[-1] not in outputs:
        outputs.append(values[-1])
    rewritten(g, *outputs, tolerance=1e-4)
