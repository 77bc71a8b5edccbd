"""Networks of sound, with seeded random weights: one spatial axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.networks.builder import Builder
from benchmarks.networks.weights import BRANCH

if TYPE_CHECKING:
    import onnx

MEL_CHANNELS = 80
# Kong, Kim and Bae, "HiFi-GAN", appendix A.1, V1: channels, rates and kernels of the transposed
# convolutions, kernels and dilations of the residual blocks.
_CHANNELS = 512
_RATES = ((8, 16), (8, 16), (2, 4), (2, 4))
_KERNELS, _DILATIONS = (3, 7, 11), (1, 3, 5)

# Luo and Mesgarani, "Conv-TasNet", table II, the best system: filters and their length, channels of
# the bottleneck and of the blocks, blocks of a repeat, repeats; and two speakers.
_FILTERS, _LENGTH, _BOTTLENECK, _HIDDEN = 512, 16, 128, 512
_BLOCKS, _REPEATS, _SPEAKERS = 8, 3, 2


def hifi_gan() -> onnx.ModelProto:
    """Build the generator V1 of HiFi-GAN: 256 samples of sound for each frame of a spectrogram."""
    build = Builder("hifi_gan")

    def active(x: str, slope: float = 0.1) -> str:
        return build.node("LeakyRelu", [x], alpha=slope)

    x, channels = build.conv_1d("x", (_CHANNELS, MEL_CHANNELS, 7), gain=1.0), _CHANNELS
    for rate, kernel in _RATES:
        x = build.upsample(active(x), channels, channels // 2, kernel, rate)
        channels //= 2
        branches = []
        for size in _KERNELS:
            y = x
            for dilation in _DILATIONS:
                z = build.conv_1d(active(y), (channels, channels, size), dilation=dilation)
                z = build.conv_1d(active(z), (channels, channels, size), gain=BRANCH)
                y = build.node("Add", [z, y])
            branches.append(y)
        total = build.node("Add", [build.node("Add", branches[:2]), branches[2]])
        x = build.node("Div", [total, build.number(len(_KERNELS))])
    x = build.conv_1d(active(x, 0.01), (1, channels, 7), gain=1.0)
    build.node("Tanh", [x])
    return build.model((1, MEL_CHANNELS, 64), (1, 1, 64 * 256))


def conv_tasnet() -> onnx.ModelProto:
    """Build Conv-TasNet: it separates two speakers in a second of sound (16,000 samples)."""
    build = Builder("conv_tasnet")

    def slope(x: str) -> str:
        return build.node("PRelu", [x, build.number(0.25)])

    x = build.conv_1d("x", (_FILTERS, 1, _LENGTH), stride=_LENGTH // 2, pad=0, bias=False)
    encoded = build.node("Relu", [x])
    x = build.conv_1d(build.normalised(encoded, _FILTERS), (_BOTTLENECK, _FILTERS, 1), gain=1.0)
    skipped = ""
    for _ in range(_REPEATS):
        for block in range(_BLOCKS):
            y = build.conv_1d(x, (_HIDDEN, _BOTTLENECK, 1))
            y = build.normalised(slope(y), _HIDDEN)
            y = build.conv_1d(y, (_HIDDEN, 1, 3), group=_HIDDEN, dilation=2**block)
            y = build.normalised(slope(y), _HIDDEN)
            skip = build.conv_1d(y, (_BOTTLENECK, _HIDDEN, 1), gain=BRANCH)
            skipped = build.node("Add", [skipped, skip]) if skipped else skip
            y = build.conv_1d(y, (_BOTTLENECK, _HIDDEN, 1), gain=BRANCH)
            x = build.node("Add", [x, y])
    masks = build.conv_1d(slope(skipped), (_SPEAKERS * _FILTERS, _BOTTLENECK, 1), gain=1.0)
    masks = build.reshape(build.node("Sigmoid", [masks]), (_SPEAKERS, _FILTERS, -1))
    masked = build.node("Mul", [masks, encoded])
    weight = build.drawn("weight", (_FILTERS, 1, _LENGTH), "weight", 1 / _FILTERS)
    build.node("ConvTranspose", [masked, weight], strides=[_LENGTH // 2])
    return build.model((1, 1, 16_000), (_SPEAKERS, 1, 16_000))
