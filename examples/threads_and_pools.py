"""
Teams and pools
===============

One picture is computed sooner by a team of threads; many pictures are computed soonest by several
instances of one thread each. Both give the same bits.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import pplconv

rng = np.random.default_rng(0)
weight = rng.standard_normal((64, 32, 3, 3), dtype=np.float32)
pictures = rng.standard_normal((24, 1, 32, 48, 48), dtype=np.float32)

# %%
# A team, by argument or for a block of code. The plan may take fewer threads than it is given,
# where the work is too little for them.

conv = pplconv.Conv2d(weight, padding=1, threads=1)
alone = conv(pictures[0])

with pplconv.runtime.team(2):
    together = pplconv.conv2d(pictures[0], weight, padding=1)

assert np.array_equal(alone, together)

# %%
# A pool: one queue, several instances of a model behind it. ``make_model`` returns a callable;
# what the instances have in common, here the packed weights, lies in memory once.


def make_model():
    """Give what each instance calls."""
    return pplconv.Conv2d(weight, padding=1, activation="relu", threads=1)


spans = [[] for _ in pictures]
with pplconv.InstancePool(make_model, instances=2) as pool:
    futures = []
    for span, picture in zip(spans, pictures, strict=True):
        span.append(time.perf_counter())
        futures.append(pool.submit(picture))
        futures[-1].add_done_callback(lambda _, span=span: span.append(time.perf_counter()))
    answers = [future.result() for future in futures]
    for one in pool.statistics():
        print(
            f"instance {one.index}: {one.served} requests, half of them in {1e3 * one.p50:.2f} ms"
        )

assert len(answers) == len(pictures)
assert np.array_equal(answers[0], np.maximum(alone, 0))

# %%
# Each request from when it was handed in to its answer. Once the queue is full, handing in waits.

begin = spans[0][0]
figure, axis = plt.subplots(figsize=(8, 3), layout="constrained")
for row, span in enumerate(spans):
    axis.barh(row, 1e3 * (span[-1] - span[0]), left=1e3 * (span[0] - begin), color="#0072b2")
axis.set_xlabel("ms")
axis.set_ylabel("request")
axis.invert_yaxis()

# %%
# Run as a script, this writes its pictures to files, and opens windows where there is a display.

if __name__ == "__main__":
    for number in plt.get_fignums():
        plt.figure(number).savefig(f"threads_and_pools_{number}.png")
        print(f"threads_and_pools_{number}.png")
    if plt.get_backend() != "agg":
        plt.show()
