"""
A filter on an image
====================

Emboss, sharpen and blur a photograph of eight-bit numbers, and see what each border does.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

from pplconv import imaging

image = data.chelsea()  # (300, 451, 3), uint8
print(image.shape, image.dtype)

# %%
# A filter is a small array of weights. `imaging.filter2d` slides it over the picture: each new
# pixel is the sum of its neighbours times their weights. Arrays of integers stay integers of that
# type; sums are exact, rounded once, and kept within 0 and 255.

emboss = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])

x = np.arange(-6, 7)
bell = np.exp(-(x**2) / (2 * 2.0**2))
gaussian = np.outer(bell, bell) / bell.sum() ** 2

# Twice the picture less its blur: edges stand out.
unsharp = -gaussian
unsharp[6, 6] += 2

filtered = {
    "photograph": image,
    "emboss": imaging.filter2d(image, emboss),
    "Gaussian blur": imaging.filter2d(image, gaussian),
    "unsharp mask": imaging.filter2d(image, unsharp),
}

figure, axes = plt.subplots(2, 2, figsize=(8, 5.6), layout="constrained")
for axis, (name, picture) in zip(axes.flat, filtered.items(), strict=True):
    axis.imshow(picture)
    axis.set_title(name)
    axis.axis("off")

# %%
# Pixels at the rim have neighbours outside of the picture. ``border`` says what stands there; the
# default, ``"reflect101"``, is OpenCV's. A wide blur of a corner shows the difference.

corner = image[:90, :120]
wide = np.ones((31, 31)) / 31**2
borders = ("reflect101", "reflect", "replicate", "wrap", "constant")

figure, axes = plt.subplots(1, len(borders), figsize=(11, 2.2), layout="constrained")
for axis, border in zip(axes, borders, strict=True):
    axis.imshow(imaging.filter2d(corner, wide, border=border))
    axis.set_title(border)
    axis.axis("off")

# %%
# The result is what SciPy gives, channel by channel, to the last bit.

from scipy import ndimage  # noqa: E402

exact = np.stack(
    [
        ndimage.correlate(image[:, :, channel].astype(np.int64), emboss, mode="mirror")
        for channel in range(3)
    ],
    axis=-1,
)
assert np.array_equal(filtered["emboss"], np.clip(exact, 0, 255))

# %%
# Run as a script, this writes its pictures to files, and opens windows where there is a display.

if __name__ == "__main__":
    for number in plt.get_fignums():
        plt.figure(number).savefig(f"image_filter_{number}.png")
        print(f"image_filter_{number}.png")
    if plt.get_backend() != "agg":
        plt.show()
