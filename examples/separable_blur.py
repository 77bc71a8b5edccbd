"""
A wide blur, row by row and column by column
============================================

A Gaussian is the product of one filter along the rows and one along the columns.
`imaging.sepfilter2d` takes the two: for 31 x 31 weights, 62 products a pixel instead of 961.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

from pplconv import imaging

image = data.camera().astype(np.float32)  # (512, 512)

x = np.arange(-15, 16)
bell = np.exp(-(x**2) / (2 * 5.0**2)).astype(np.float32)
bell /= bell.sum()

blurred = imaging.sepfilter2d(image, bell, bell)

# %%
# It is the same picture that all 961 weights give, but for rounding.

whole = imaging.filter2d(image, np.outer(bell, bell))
error = np.abs(blurred - whole).max() / whole.max()
assert error < 1e-5
print(f"largest difference: {error:.1e} of the brightest pixel")

figure, axes = plt.subplots(1, 3, figsize=(9, 3.3), layout="constrained")
for axis, (name, picture) in zip(
    axes,
    {"photograph": image, "blurred": blurred, "what the blur took": image - blurred}.items(),
    strict=True,
):
    axis.imshow(picture, cmap="gray")
    axis.set_title(name)
    axis.axis("off")

# %%
# Run as a script, this writes its pictures to files, and opens windows where there is a display.

if __name__ == "__main__":
    for number in plt.get_fignums():
        plt.figure(number).savefig(f"separable_blur_{number}.png")
        print(f"separable_blur_{number}.png")
    if plt.get_backend() != "agg":
        plt.show()
