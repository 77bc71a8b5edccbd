"""
A network behind HTTP
=====================

A small network that finds edges is served by the Open Inference Protocol, asked by four clients at
once, and stopped. ``python -m pplconv serve model.onnx`` does the same from a shell.
"""

import io
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import matplotlib.pyplot as plt
import numpy as np
import uvicorn
from onnx import TensorProto, helper, numpy_helper
from skimage import data

import pplconv
from pplconv.integrations import asgi

# %%
# The network: differences in four directions, and the largest of them at each pixel.

sobel = np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]], np.float32)
directions = np.stack([sobel, -sobel, sobel.T, -sobel.T])[:, np.newaxis] / 4
shape = ["n", 1, "h", "w"]
graph = helper.make_graph(
    [
        helper.make_node("Conv", ["image", "directions"], ["slopes"], pads=[1, 1, 1, 1]),
        helper.make_node("ReduceMax", ["slopes", "axis"], ["edges"]),
    ],
    "edges",
    [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
    [helper.make_tensor_value_info("edges", TensorProto.FLOAT, shape)],
    [
        numpy_helper.from_array(directions, "directions"),
        numpy_helper.from_array(np.array([1]), "axis"),
    ],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)

# %%
# The application runs under any ASGI server; here it is uvicorn in a thread, at a free port. Two
# instances share the weights, each with a team of one.

app = asgi.app(lambda: pplconv.InferenceSession(model), instances=2, threads=1)
server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", ws="none"))
thread = threading.Thread(target=server.run)
thread.start()
while not server.started and thread.is_alive():
    time.sleep(0.01)
port = server.servers[0].sockets[0].getsockname()[1]
address = f"http://127.0.0.1:{port}/v2/models/model/infer"

# %%
# A request is an array as ``numpy.save`` writes it, and so is the answer.

image = data.coins().astype(np.float32)[np.newaxis, np.newaxis] / 255


def ask(array):
    """Give the answer, and the milliseconds that it took."""
    body = io.BytesIO()
    np.save(body, array)
    headers = {"Content-Type": "application/x-npy"}
    begin = time.perf_counter()
    with urllib.request.urlopen(urllib.request.Request(address, body.getvalue(), headers)) as one:
        answer = one.read()
    return np.load(io.BytesIO(answer)), 1e3 * (time.perf_counter() - begin)


try:
    with ThreadPoolExecutor(4) as clients:
        answers, times = zip(*clients.map(ask, [image] * 60), strict=True)
finally:
    server.should_exit = True
    thread.join()
assert all(np.array_equal(answer, answers[0]) for answer in answers)

figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
axes[0].imshow(answers[0][0, 0], cmap="magma")
axes[0].axis("off")
axes[1].hist(times, bins=20, color="#0072b2")
axes[1].set_xlabel("ms from request to answer, four clients")
axes[1].set_ylabel("requests")

# %%
# Run as a script, this writes its pictures to files, and opens windows where there is a display.

if __name__ == "__main__":
    for number in plt.get_fignums():
        plt.figure(number).savefig(f"server_{number}.png")
        print(f"server_{number}.png")
    if plt.get_backend() != "agg":
        plt.show()
