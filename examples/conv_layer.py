"""
A layer and its plan
====================

A layer of a network, prepared once: what was chosen for it, why, and what the other ways would have
cost by the planner's estimate.
"""

import matplotlib.pyplot as plt
import numpy as np

import pplconv

rng = np.random.default_rng(0)
x = rng.standard_normal((1, 64, 56, 56), dtype=np.float32)
weight = rng.standard_normal((64, 64, 3, 3), dtype=np.float32)
bias = rng.standard_normal(64, dtype=np.float32)

conv = pplconv.Conv2d(weight, bias, padding=1, activation="relu", threads=1)
y = conv(x)
print(y.shape)

# %%
# The plan says what runs. The same shape gets the same plan, and the same bits, on every call.

plan = conv.plan_for(x.shape)
print(plan)

# %%
# Each algorithm can be asked for by name; one that cannot serve says so. The estimate is a sum of
# terms, in cycles of one core.

costs = {}
for algorithm in ("winograd", "direct", "im2col"):
    asked = pplconv.Conv2d(
        weight, bias, padding=1, activation="relu", algorithm=algorithm, threads=1
    )
    costs[algorithm] = asked.plan_for(x.shape).cost

terms = list(dict.fromkeys(term for cost in costs.values() for term in cost))
figure, axis = plt.subplots(figsize=(8, 2.6), layout="constrained")
left = np.zeros(len(costs))
for term in terms:
    cycles = np.array([cost.get(term, 0.0) / 1e6 for cost in costs.values()])
    if cycles.any():
        axis.barh(list(costs), cycles, left=left, label=term)
        left += cycles
axis.set_xlabel("estimate, millions of cycles")
axis.invert_yaxis()
axis.legend(ncols=4, fontsize=8)

# %%
# Winograd's algorithm spends a part of the accuracy that it is allowed. How much that is, at most,
# stands in the plan; ``tolerance=0`` allows direct sums only.

exact = pplconv.Conv2d(weight, bias, padding=1, activation="relu", tolerance=0, threads=1)
difference = np.abs(y - exact(x)).max() / np.abs(y).max()
assert difference <= plan.error_bound + exact.plan_for(x.shape).error_bound
print(f"{plan.algorithm}: bound {plan.error_bound:.1e}, here {difference:.1e}")

# %%
# Run as a script, this writes its pictures to files, and opens windows where there is a display.

if __name__ == "__main__":
    for number in plt.get_fignums():
        plt.figure(number).savefig(f"conv_layer_{number}.png")
        print(f"conv_layer_{number}.png")
    if plt.get_backend() != "agg":
        plt.show()
