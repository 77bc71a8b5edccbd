"""
From float32 to eight bits
==========================

A layer's weights and arrays as integers of eight bits: a quarter of the memory, and a known loss.
"""

import matplotlib.pyplot as plt
import numpy as np

import pplconv

rng = np.random.default_rng(0)
weight = rng.standard_normal((32, 16, 3, 3), dtype=np.float32)
samples = np.maximum(rng.standard_normal((16, 16, 28, 28), dtype=np.float32), 0)

conv = pplconv.Conv2d(weight, padding=1, activation="relu")

# %%
# `Conv2d.quantize` looks at samples of the input, finds scales for input, weights and output, and
# says how near the result comes. The three methods differ in what they do with rare large numbers.

layers = {}
for method in ("minmax", "percentile", "mse"):
    layers[method] = conv.quantize(samples, method=method)
    print(f"{method}: {layers[method].signal_to_noise:.1f} dB")

# %%
# The layer takes and gives integers; a number q of them stands for scale * (q - zero_point).

qconv = layers["mse"]
x = pplconv.quant.quantize(samples[0], qconv.x_scale, qconv.x_zero_point)
y = qconv(x)
print(x.dtype, "to", y.dtype, y.shape)

exact = conv(samples[0])
near = pplconv.quant.dequantize(y, qconv.y_scale, qconv.y_zero_point)
assert pplconv.quant.signal_to_noise(exact, near) > 30

figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
axes[0].plot(exact.ravel()[::7], near.ravel()[::7], ".", markersize=2)
axes[0].set_xlabel("float32")
axes[0].set_ylabel("eight bits")
axes[1].hist((near - exact).ravel() / qconv.y_scale, bins=60)
axes[1].set_xlabel("error, in steps of the output's scale")

# %%
# Run as a script, this writes its pictures to files, and opens windows where there is a display.

if __name__ == "__main__":
    for number in plt.get_fignums():
        plt.figure(number).savefig(f"quantized_layer_{number}.png")
        print(f"quantized_layer_{number}.png")
    if plt.get_backend() != "agg":
        plt.show()
