"""What the tests of commands share: a small network in a file, and a profile made by hand."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from pplconv.commands.profiling.ceilings import Ceilings
from pplconv.commands.profiling.measured import Profile
from pplconv.network.report import BufferPlan, NetworkPlan, StepPlan

CEILINGS = Ceilings("avx2", 2, 100e9, {"L2": 200e9, "L3": 50e9, "memory": 20e9})


@pytest.fixture
def model_file(tmp_path, rng):
    """Write a network with open sizes: a convolution, and a softmax over its channels."""
    weight = numpy_helper.from_array(rng.standard_normal((8, 3, 3, 3)).astype("f"), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Softmax", ["b"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "small.onnx"
    onnx.save(model, str(path))
    return path


@pytest.fixture
def profile(rng):
    """Make a profile of 30 steps of many kinds, in which nothing was measured."""
    kinds = ["Conv", "epilogue", "MaxPool", "Add+Mul", "Softmax", "Copy", "Resize", "Concat",
             "Transpose", "Erf"]  # fmt: skip
    steps = []
    for number in range(30):
        kind = kinds[number % len(kinds)]
        product = kind == "Conv"
        steps.append(StepPlan(
            kind, (f"node{number}",), (1, 8, number + 1, 5), ("NHWC", "NCHW")[number % 2],
            "how", int(rng.integers(1e5, 1e8)) if product else 0, int(rng.integers(1e3, 1e6)),
            float(rng.uniform(1e-6, 1e-3)), "direct" if product else "", 512 if product else 0,
            number == 29,
        ))  # fmt: skip
    buffers = [BufferPlan(64 * n, 64, n % 20, n % 20 + n % 9) for n in range(40)]
    plan = NetworkPlan(
        (("x", (1, 3, 8, 8)),), tuple(steps), {"rule": ["a", "b"]}, 64 * 40, 128,
        tuple(sorted(buffers, key=lambda buffer: buffer.first)),
    )  # fmt: skip
    return Profile("net.onnx", plan, 0.0123, CEILINGS, "a machine", "1.2.3")


@pytest.fixture
def ceilings(monkeypatch):
    """Let a profile measure no machine."""
    monkeypatch.setattr("pplconv.commands.profiling.ceilings.measure", lambda *a, **k: CEILINGS)
    return CEILINGS
