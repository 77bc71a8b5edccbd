"""PyTorch, eager: ``conv2d`` on contiguous and on channels_last tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.engines.base import Array32, Engine, Prepared
from benchmarks.problems import Problem


def _to_numpy(y: Any) -> NDArray[np.generic]:
    # NumPy has no bfloat16; float32 holds each of its numbers.
    array: NDArray[np.generic] = y.contiguous().float().numpy()
    return array


class Torch(Engine):
    """Eager ``torch.conv2d``, NCHW."""

    name = "torch"
    modules = ("torch",)
    distribution = "torch"
    note = "eager conv2d, NCHW, inference mode"
    channels_last = False
    dtype = "float32"

    def prepare(self, problem: Problem, x: Array32, w: Array32, threads: int) -> Prepared:
        """Copy the tensors into the memory format of this engine."""
        import torch

        torch.set_num_threads(threads)
        memory = torch.channels_last if self.channels_last else torch.contiguous_format
        # Cloned: PyTorch's own memory, which is aligned as that of all engines.
        dtype = getattr(torch, self.dtype)
        x_torch, w_torch = (
            torch.from_numpy(array).clone().to(dtype).contiguous(memory_format=memory)
            for array in (x, w)
        )
        stride, padding = (problem.sh, problem.sw), (problem.ph, problem.pw)
        dilation, groups = (problem.dh, problem.dw), problem.groups
        conv2d = torch.conv2d
        inference = torch.inference_mode

        def call() -> Any:
            with inference():
                return conv2d(x_torch, w_torch, None, stride, padding, dilation, groups)

        return Prepared(call, _to_numpy)


class TorchNhwc(Torch):
    """Eager ``torch.conv2d``, channels_last."""

    name = "torch_nhwc"
    note = "eager conv2d, channels_last, inference mode"
    layout = "NHWC"
    channels_last = True
