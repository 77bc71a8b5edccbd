"""oneDNN without the cost of layouts: weights reordered once, blocked tensors in and out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.engines.base import Array32, Engine, Prepared
from benchmarks.problems import Problem
from benchmarks.timing import Clock, calls_per_sample, time_calls


class OneDnn(Engine):
    """oneDNN through PyTorch's mkldnn tensors."""

    name = "onednn"
    layout = "blocked"
    modules = ("torch",)
    distribution = "torch"
    note = "through torch: reordered weights, blocked tensors in and out"
    dtype = "float32"

    def prepare(self, problem: Problem, x: Array32, w: Array32, threads: int) -> Prepared:
        """Reorder the weights, and choose the layout of the input that is faster."""
        import torch

        torch.set_num_threads(threads)
        stride, padding = [problem.sh, problem.sw], [problem.ph, problem.pw]
        dilation, groups = [problem.dh, problem.dw], problem.groups
        conv2d = torch.conv2d
        inference = torch.inference_mode
        dtype = getattr(torch, self.dtype)
        with inference():
            weight = torch._C._nn.mkldnn_reorder_conv2d_weight(
                torch.from_numpy(w).clone().to(dtype).to_mkldnn(),
                padding,
                stride,
                dilation,
                groups,
                list(x.shape),
            )
            plain = torch.from_numpy(x).clone().to(dtype).to_mkldnn()
            # A tensor gets oneDNN's blocked layout by coming out of a convolution: here of a
            # depthwise one by 1, which changes no value.
            ones = torch.ones(problem.ic, 1, 1, 1, dtype=dtype).to_mkldnn()
            blocked = conv2d(plain, ones, None, 1, 0, 1, problem.ic)

        def with_input(tensor: Any) -> Any:
            def call() -> Any:
                with inference():
                    return conv2d(tensor, weight, None, stride, padding, dilation, groups)

            return call

        # Stems are faster from the plain layout, all else from the blocked one.
        return Prepared(_faster(with_input(blocked), with_input(plain)), _to_numpy)


def _faster(*calls: Any) -> Any:
    clock = Clock()

    def seconds(call: Any) -> float:
        call()
        number = calls_per_sample(call, clock)
        return min(time_calls(call, number, clock) / number for _ in range(5))

    return min(calls, key=seconds)


def _to_numpy(y: Any) -> NDArray[np.generic]:
    array: NDArray[np.generic] = y.to_dense().float().numpy()
    return array
