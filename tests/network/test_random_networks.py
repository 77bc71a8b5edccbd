"""Random networks against onnxruntime and ONNX's reference, and the same bits for each team."""

from __future__ import annotations

import zlib
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pplconv.network import compiling
from pplconv.network.loading import load
from pplconv.network.preparing import prepare, specialize
from pplconv.network.rules.driver import Rules
from pplconv.network.session import InferenceSession
from tests.emulation import is_emulated
from tests.network.random_networks import Network
from tests.network.running import agree, alike, by_onnxruntime, needs_onnxruntime, referred

# Relative to the largest element: each of a dozen convolutions may spend 1e-5.
ALLOWED = 1e-4
# A network takes much longer than the problems of most tests.
EXAMPLES = 2 if is_emulated() else max(settings.default.max_examples // 8, 10)
# As many networks of the newest as of all others; elements of 7 are not broadcast by Max and Min.
OPSETS = (*[24] * 9, *range(8, 17))
JUDGES = {"onnxruntime": by_onnxruntime, "reference": referred}
every_judge = pytest.mark.parametrize(
    "judge", [pytest.param("onnxruntime", marks=needs_onnxruntime), "reference"]
)


@pytest.mark.sampled(1)
@every_judge
@pytest.mark.parametrize("free", [False, True])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_random_networks(free, judge, data):
    """Of free sizes, the same sessions have two sets of shapes, one after the other.

    ONNX's reference does not know all that old opsets say.
    """
    opset = data.draw(st.sampled_from(OPSETS)) if judge == "onnxruntime" else OPSETS[0]
    check(Network(data.draw, free=free, opset=opset), judge)


def thrown(node, builder, graph):
    """Prices of layouts that have nothing to do with the work, and are higher than changes."""
    return (0.0, 1e12) if zlib.crc32(node.outputs[0].encode()) % 2 else (1e12, 0.0)


# Whatever lies in which layout; and images one after the other, as far as the network computes each
# by itself.
OTHERWISE = {"layouts": ("prices", thrown), "batches": ("images_at_once", lambda *_: 1)}


@pytest.mark.sampled(2)
@every_judge
@pytest.mark.parametrize("what", OTHERWISE)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_networks_that_are_planned_otherwise(judge, what, data):
    """The results are the same."""
    with mock.patch.object(compiling, *OTHERWISE[what]):
        check(Network(data.draw, free=data.draw(st.booleans())), judge)


def every_rule(self, node):
    """The rules of a node, also those that refuse it before their patterns are compared."""
    for rule in self._by_root.get((node.domain, node.op_type), ()):
        if rule.outputs <= len(node.outputs):
            yield rule


@pytest.mark.sampled(1)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_rules_refuse_at_once_what_they_would_refuse(data):
    """Without `Rule.may_fire` and ``above=`` the same rules fire, and write the same nodes."""
    network = Network(data.draw, free=False, opset=data.draw(st.sampled_from(OPSETS)))
    model = network.g.model(*network.outputs)
    feed = network.feeds[0]

    def rewritten():
        prepared = prepare(load(model))
        shapes = {name: array.shape for name, array in feed.items()}
        special = specialize(prepared.model, shapes)
        assert special.model is not None
        nodes = [
            (node.op_type, [v and v.name for v in node.inputs], [v.name for v in node.outputs])
            for node in special.model.graph
        ]
        return prepared.fired, special.fired, nodes

    found = rewritten()
    with mock.patch.object(Rules, "of", every_rule):
        assert rewritten() == found


def check(network: Network, judge: str) -> None:
    """Compare its outputs with those of a judge, and those of teams with one another."""
    model = network.g.model(*network.outputs)
    sessions = [InferenceSession(model, threads=threads) for threads in (1, 2, 3)]
    for feed in (*network.feeds, network.feeds[0]):
        # What is left of a difference has the errors of what was subtracted, which is about 1.
        agree(alike(sessions, feed), JUDGES[judge](model, feed), ALLOWED, least=1.0)
