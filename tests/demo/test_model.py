"""Old models are converted to the demo's opset; the published models come from one wheel."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from examples.demo.measure import OPSET, load_model
from examples.models.ppocr import CLASSIFIER, DETECTOR, RECOGNISER


def test_the_models_come_from_one_wheel():
    models = (DETECTOR, RECOGNISER, CLASSIFIER)
    assert len({model.requirement for model in models}) == 1
    assert len({model.sha256 for model in models}) == 3
    assert all(model.member.endswith(f"/{model.name}") for model in models)


def test_old_models_are_converted(tmp_path):
    statistics = [
        onnx.numpy_helper.from_array(np.array([value], dtype=np.float32), name)
        for name, value in (("scale", 2.0), ("shift", 0.5), ("mean", 3.0), ("variance", 4.0))
    ]
    node = helper.make_node(
        "BatchNormalization", ["x", "scale", "shift", "mean", "variance"], ["y"], epsilon=0.0
    )
    graph = helper.make_graph(
        [node],
        "old",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 1, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 1, 2])],
        statistics,
    )
    old = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=8)
    onnx.save(old, str(tmp_path / "old.onnx"))
    model = load_model(tmp_path / "old.onnx")
    assert [entry.version for entry in model.opset_import if entry.domain == ""] == [OPSET]
    x = np.array([5.0, -1.0], dtype=np.float32).reshape(1, 1, 1, 2)
    (y,) = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})
    # The learned statistics, not those of x: (x - 3) / 2 * 2 + 0.5.
    np.testing.assert_allclose(y.ravel(), [2.5, -3.5], rtol=1e-6)
