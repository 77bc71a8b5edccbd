"""
A bank of Gabor filters
=======================

Many filters on one picture are a convolution with as many output channels: the picture is read once
for all of them. Here 16 Gabor filters tell which way the strokes of a texture run.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import pplconv

image = data.brick().astype(np.float32)[:256, :256] / 255  # (256, 256)


def gabor(angle, wavelength, size=15):
    """Give a wave of one direction under a bell, whose weights add up to zero."""
    half = size // 2
    y, x = np.mgrid[-half : half + 1, -half : half + 1]
    across = x * np.cos(angle) + y * np.sin(angle)
    weights = np.exp(-(x**2 + y**2) / (2 * (size / 5) ** 2)) * np.cos(
        2 * np.pi * across / wavelength
    )
    return weights - weights.mean()


angles = np.arange(8) * np.pi / 8
bank = np.array([gabor(angle, wavelength) for wavelength in (5, 9) for angle in angles])
weight = bank[:, np.newaxis].astype(np.float32)  # (16, 1, 15, 15): filters, channels, rows, columns

# %%
# Pack the filters once, then use them on as many pictures as there are.

conv = pplconv.Conv2d(weight, padding=7)
responses = conv(image[np.newaxis, np.newaxis])[0]  # (16, 256, 256)
print(conv.plan_for((1, 1, 256, 256)))

# %%
# The strongest answer of each pixel says how the strokes around it lie.

strength = np.abs(responses).reshape(2, 8, 256, 256).max(axis=0)
direction = strength.argmax(axis=0)

figure, axes = plt.subplots(2, 4, figsize=(9, 4.8), layout="constrained")
for index in range(4):
    axes[0, index].imshow(bank[2 * index], cmap="gray")
    axes[0, index].set_title(f"{np.degrees(angles[2 * index]):.0f}°")
pictures = {
    "texture": (image, "gray"),
    "0°": (strength[0], "magma"),
    "90°": (strength[4], "magma"),
    "direction": (direction, "twilight"),
}
for axis, (name, (picture, colors)) in zip(axes[1], pictures.items(), strict=True):
    axis.imshow(picture, cmap=colors)
    axis.set_title(name)
for axis in axes.flat:
    axis.axis("off")

# %%
# Run as a script, this writes its pictures to files, and opens windows where there is a display.

if __name__ == "__main__":
    for number in plt.get_fignums():
        plt.figure(number).savefig(f"filter_bank_{number}.png")
        print(f"filter_bank_{number}.png")
    if plt.get_backend() != "agg":
        plt.show()
