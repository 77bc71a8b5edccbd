"""The networks that are measured: sizes, weights, pictures, and files of one shape."""

from __future__ import annotations

import io
from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.networks import builder, models, weights
from examples.models.progress import Progress

# Of torchvision's models, which follow the same papers: weights, and convolutions.
PARAMETERS = {
    "vgg_19": (143_667_240, 16),
    "mobilenet_v2": (3_504_872, 52),
    "regnet_x_0_4": (5_495_976, 71),
    "regnet_y_1_6": (11_202_430, 140),
    "regnet_x_3_2": (15_296_552, 80),
    "convnext_t": (28_589_128, 22),
    # By the formula of its layers; the paper says 13.92 million.
    "hifi_gan": (13_926_017, 74),
    "r3d_18": (33_371_472, 20),
    "unet_3d": (19_069_955, 15),
    # Without positions, as exporters write more of them: 169 a head and block are learned.
    "swin_t": (28_288_354 - 169 * (2 * 3 + 2 * 6 + 6 * 12 + 2 * 24), 1),
}


@pytest.fixture
def log():
    return Progress(io.StringIO())


@pytest.mark.parametrize("name", PARAMETERS)
def test_networks_have_as_many_weights_as_those_of_the_papers(name, monkeypatch):
    drawn = {}

    def count(build, name, array):
        drawn[name] = array.size
        # Its place is taken, as the next one is named after the number of those before.
        build.weights.append(numpy_helper.from_array(np.zeros(1, np.float32), name))
        return name

    def without_values(name, shape, kind, gain=1.0):
        return np.broadcast_to(np.float32(0), shape)

    monkeypatch.setattr(builder, "values", without_values)
    monkeypatch.setattr(builder.Builder, "constant", count)
    model = models.NETWORKS[name].source.make()
    # Constants that are not learned do not count: statistics, and the limits of ReLU6.
    learned = {key: size for key, size in drawn.items() if key.split("_")[0] in LEARNED}
    kinds = Counter(node.op_type for node in model.graph.node)
    assert (sum(learned.values()), kinds["Conv"]) == PARAMETERS[name]


LEARNED = ("weight", "bias", "scale", "shift")


def with_conv_outputs(model):
    """Make the output of every convolution an output of the graph, too."""
    names = [node.output[0] for node in model.graph.node if node.op_type == "Conv"]
    for name in names:
        model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["squeezenet", "mobilenet_v2", "densenet_121", "resnet_50"])
def test_activations_neither_vanish_nor_explode(name):
    ort = pytest.importorskip("onnxruntime")
    network = models.NETWORKS[name]
    model = network.source.make()
    onnx.checker.check_model(model)
    with_conv_outputs(model)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options)
    last, *inner = session.run(None, network.feed(1))
    assert len(inner) > 20
    for values in inner:
        assert 0.05 < values.std() < 50
    # No class takes all, and they differ.
    assert last.size == 1000
    assert np.ptp(last) > 1e-3 and (last.max() < 0.2 or name == "densenet_121")


def test_the_same_weights_in_every_run():
    first = weights.values("a", (8, 3, 3, 3), "weight", 2.0)
    assert first.dtype == np.float32
    np.testing.assert_array_equal(first, weights.values("a", (8, 3, 3, 3), "weight", 2.0))
    assert not np.array_equal(first, weights.values("b", (8, 3, 3, 3), "weight", 2.0))
    large = weights.values("c", (500, 100, 3, 3), "weight", 2.0)
    assert large.std() == pytest.approx((2 / 900) ** 0.5, rel=0.01)
    assert weights.values("v", (1000,), "variance").min() >= 0.8


def light(constant="w", reads="Conv"):
    """A graph as those of onnx's own test data."""
    nodes = [
        helper.make_node("ConstantOfShape", ["w_shape"], [constant]),
        helper.make_node(reads, ["x", "w"], ["c"]),
        helper.make_node("Reshape", ["c", "sizes"], ["r"]),
        helper.make_node("Softmax", ["r"], ["y"]),
    ]
    sizes = {"w_shape": [4, 2, 3, 3], "sizes": [1, 4]}
    constants = [numpy_helper.from_array(np.array(v, np.int64), k) for k, v in sizes.items()]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 3, 3])]
    inputs += [
        helper.make_tensor_value_info(k, TensorProto.INT64, [len(v)]) for k, v in sizes.items()
    ]
    graph = helper.make_graph(
        nodes,
        "light",
        inputs,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=3)


def test_constants_take_the_place_of_shapes():
    made = weights.with_weights(light())
    onnx.checker.check_model(made)
    arrays = {one.name: numpy_helper.to_array(one) for one in made.graph.initializer}
    assert set(arrays) == {"w", "sizes"}
    assert arrays["w"].shape == (4, 2, 3, 3) and arrays["w"].std() > 0
    assert arrays["sizes"].tolist() == [0, 4]
    assert [one.name for one in made.graph.input] == ["x"]
    (softmax,) = (node for node in made.graph.node if node.op_type == "Softmax")
    assert softmax.attribute[0].i == 1


def test_a_weight_that_nobody_reads_is_an_error():
    with pytest.raises(ValueError, match="nothing reads the weight other"):
        weights.with_weights(light(constant="other"))


def test_a_file_of_one_shape(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(weights.with_weights(light()), str(path))
    folder = tmp_path / "fixed"
    folder.mkdir()
    assert models.fixed(path, {"x": (1, 2, 3, 3)}, folder) == path
    other = models.fixed(path, {"x": (5, 2, 3, 3)}, folder)
    assert other.parent == folder
    model = onnx.load(str(other))
    onnx.checker.check_model(model)
    (y,) = model.graph.output
    assert [dim.dim_value for dim in y.type.tensor_type.shape.dim] == [5, 4]
    # The declared shape of an output stays if onnx infers none.
    unknown = weights.with_weights(light())
    unknown.graph.node[-1].domain = "elsewhere"
    unknown.opset_import.append(helper.make_opsetid("elsewhere", 1))
    assert weights.at_shapes(unknown, {"x": (5, 2, 3, 3)}) is unknown
    (y,) = unknown.graph.output
    assert [dim.dim_value for dim in y.type.tensor_type.shape.dim] == [1, 4]
    with pytest.raises(ValueError, match="the model's inputs are x, the shapes of z"):
        models.fixed(path, {"z": (1, 2, 3, 3)}, folder)


def test_generated_models_are_kept(tmp_path, log):
    made = []

    def make():
        made.append(1)
        return light()

    network = models.Network(models.Generated("light.onnx", make), {"x": (1, 2, 3, 3)})
    cache = tmp_path / "not" / "yet"
    for _ in range(2):
        assert models.obtain([network, network], cache, log) == [cache / "light.onnx"] * 2
    assert made == [1]
    assert onnx.load(str(cache / "light.onnx")).graph.name == "light"


def test_published_models_are_downloaded(tmp_path, log, monkeypatch):
    asked = []
    monkeypatch.setattr(models, "ensure", lambda found, cache, progress: asked.extend(found))
    names = ["ppocr_det_640", "ppocr_det_960x480", "ppocr_rec"]
    paths = models.obtain([models.NETWORKS[name] for name in names], tmp_path, log)
    assert [path.name for path in paths] == [
        "ch_PP-OCRv4_det_infer.onnx", "ch_PP-OCRv4_det_infer.onnx", "ch_PP-OCRv4_rec_infer.onnx"
    ]  # fmt: skip
    assert [one.name for one in asked] == [
        "ch_PP-OCRv4_det_infer.onnx",
        "ch_PP-OCRv4_rec_infer.onnx",
    ]


@pytest.mark.parametrize("name", models.NETWORKS)
def test_inputs_are_pictures(name):
    network = models.NETWORKS[name]
    one, three = network.feed(1), network.feed(3)
    for key, shape in network.inputs.items():
        assert one[key].shape == shape and one[key].dtype == np.float32
        np.testing.assert_array_equal(three[key][:1], one[key])
        assert not np.array_equal(three[key][1], three[key][2])
        assert network.low <= one[key].min() < one[key].max() <= network.high
        assert three[key].shape == network.shapes(3)[key]
        # Dark and light ground, some of each.
        dark = np.mean(one[key] < (network.low + network.high) / 2)
        assert 0.05 < dark < 0.5


def test_names_are_chosen_in_the_order_of_the_tables():
    assert list(models.select([])) == list(models.NETWORKS)
    assert list(models.select(["squeezenet", "ppocr_rec"])) == ["ppocr_rec", "squeezenet"]
    with pytest.raises(ValueError, match="unknown model lenet"):
        models.select(["lenet"])
