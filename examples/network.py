"""
A network from an ONNX file
===========================

A small network that finds edges is written to a file, read back, run on a photograph, and profiled
step by step. Any other file is used in the same way.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from skimage import data

import pplconv

# %%
# Two convolutions: differences in four directions, whose sizes are then averaged over 5 x 5 pixels.

sobel = np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]], np.float32)
directions = np.stack([sobel, -sobel, sobel.T, -sobel.T])[:, np.newaxis] / 4
average = np.full((1, 4, 5, 5), 1 / 25, np.float32)

nodes = [
    helper.make_node("Conv", ["image", "directions"], ["slopes"], pads=[1, 1, 1, 1]),
    helper.make_node("Relu", ["slopes"], ["sizes"]),
    helper.make_node("Conv", ["sizes", "average"], ["edges"], pads=[2, 2, 2, 2]),
]
shape = ["n", 1, "h", "w"]
graph = helper.make_graph(
    nodes,
    "edges",
    [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
    [helper.make_tensor_value_info("edges", TensorProto.FLOAT, shape)],
    [
        numpy_helper.from_array(directions, "directions"),
        numpy_helper.from_array(average, "average"),
    ],
)
path = Path(tempfile.mkdtemp()) / "edges.onnx"
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
onnx.save(model, path)

# %%
# A session has the names and the calls of onnxruntime's. Sizes were left open in the file; a
# program is made for each set of shapes when it is first seen.

session = pplconv.InferenceSession(path, threads=1)
print([(one.name, one.shape, one.type) for one in session.get_inputs()])

image = data.coins().astype(np.float32)[np.newaxis, np.newaxis] / 255
(edges,) = session.run(None, {"image": image})

figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
axes[0].imshow(image[0, 0], cmap="gray")
axes[1].imshow(edges[0, 0], cmap="magma")
for axis in axes:
    axis.axis("off")

# %%
# How the network runs: the activation went into the store of the first convolution.

print(session.plan_for({"image": image.shape}))

# %%
# And how long each step takes.

print(session.profile({"image": image}))

# %%
# Run as a script, this writes its pictures to files, and opens windows where there is a display.

if __name__ == "__main__":
    for number in plt.get_fignums():
        plt.figure(number).savefig(f"network_{number}.png")
        print(f"network_{number}.png")
    if plt.get_backend() != "agg":
        plt.show()
