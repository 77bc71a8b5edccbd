"""Calls in a process that may have no more memory; prints what each of them raised.

Not a test module: ``test_allocation.py`` runs it as a script.
"""

from __future__ import annotations

import json
import resource

import numpy as np

import pplconv

# More than is left, and less than the machine would refuse by itself.
SIZE = 256 << 20
LEFT = 64 << 20


def main() -> None:
    """Make calls that need `SIZE` bytes where only `LEFT` are available."""
    weight = np.ones((1, 1, 1, 1), np.float32)
    side = int((SIZE / 4) ** 0.5)
    conv = pplconv.Conv2d(weight)
    small = np.full((1, 1, 8, 8), 3, np.float32)
    assert np.all(conv(small) == 3)
    image = np.zeros((1, 1, side, side), np.float32)
    strided = np.zeros((1, 1, side, 2 * side), np.float32)[..., ::2]
    few = np.empty((1, 1, side, side), np.float32)
    acts = {
        "Conv2d": lambda: conv(image),
        "conv2d": lambda: pplconv.conv2d(image, weight),
        "a copy of the input": lambda: conv(strided, out=few),
        "to_blocked": lambda: pplconv.to_blocked(image, 1),
        "empty_aligned": lambda: pplconv.empty_aligned((side, side)),
    }
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + LEFT, resource.RLIM_INFINITY))
    found = {}
    for name, act in acts.items():
        for _ in range(3):  # were something kept, the next would need more
            try:
                act()
                found[name] = "nothing"
            except Exception as error:
                short = isinstance(error, MemoryError)  # NumPy's is a kind of it
                found[name] = "MemoryError" if short else repr(error)
            assert np.all(conv(small) == 3), f"the call after {name}"
    print(json.dumps(found))


if __name__ == "__main__":
    main()
