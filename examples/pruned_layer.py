"""
A pruned layer
==============

Weights that are zero are left out where that is faster. How many have to be zero, and how they lie,
can be asked before a network is trained for it.
"""

import matplotlib.pyplot as plt
import numpy as np

import pplconv

rng = np.random.default_rng(0)
weight = rng.standard_normal((128, 128, 1, 1), dtype=np.float32)
x = rng.standard_normal((1, 128, 28, 28), dtype=np.float32)

# %%
# `prune.magnitude` keeps the largest weights, one by one or in blocks of neighbouring output
# channels, and sets all others to zero.

pruned = {width: pplconv.prune.magnitude(weight, 0.25, block=(1, width)) for width in (1, 4)}

figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
for axis, (width, values) in zip(axes, pruned.items(), strict=True):
    axis.imshow(values[:48, :48, 0, 0] != 0, cmap="gray_r", interpolation="nearest")
    axis.set_title(f"a quarter is stored, in blocks of {width}")
    axis.set_xlabel("input channel")
    axis.set_ylabel("output channel")

# %%
# The plan says what was done with the zeros, and what that is expected to gain over dense weights.

for width, values in pruned.items():
    plan = pplconv.Conv2d(values, threads=1).plan_for(x.shape)
    print(
        f"blocks of {width}: {plan.algorithm}, {plan.predicted_gain:.1f} times as fast by estimate"
    )

# %%
# Left out or multiplied, the sums are the same but for the order of rounding.

sparse = pplconv.Conv2d(pruned[4], sparse=True)(x)
dense = pplconv.Conv2d(pruned[4], sparse=False)(x)
assert np.abs(sparse - dense).max() < 1e-5 * np.abs(dense).max()

# %%
# Run as a script, this writes its pictures to files, and opens windows where there is a display.

if __name__ == "__main__":
    for number in plt.get_fignums():
        plt.figure(number).savefig(f"pruned_layer_{number}.png")
        print(f"pruned_layer_{number}.png")
    if plt.get_backend() != "agg":
        plt.show()
