"""README's picture: a photograph before and after a filter, and bars beside the peers.

``python -m tools.site.front`` draws it anew, from the recorded table that `RUN` names.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.looks import LIGHT, dress, new_figure
from tools.markdown import section, tables

ROOT = Path(__file__).resolve().parent.parent.parent
PICTURE = ROOT / "docs" / "_static" / "first-minute.png"
# Whole networks on one thread, and the networks that fit into the picture.
RUN = ROOT / "benchmarks" / "results" / "2026-11-24-amd-26-2.md"
SECTION = "networks-1-thread-median-of-the-rounds-ms"
NETWORKS = {
    "resnet_50": "ResNet-50",
    "densenet_121": "DenseNet-121",
    "ppocr_det_640": "text detector",
    "mobilenet_v2": "MobileNetV2",
    "ppocr_rec": "text recogniser",
}
# Key of the text in the picture's file that holds the result of `times`.
FIGURES = "figures"
ENGINES = {"pplconv": "pplconv", "openvino": "OpenVINO", "onnxruntime": "onnxruntime", "mnn": "MNN"}


def times() -> dict[str, dict[str, float]]:
    """Give the recorded milliseconds of each engine, network by network."""
    head, *rows = tables(section(RUN, SECTION))[0]
    found = {}
    for row in rows:
        cells = dict(zip(head, row, strict=True))
        network = cells["network"].partition(" ")[0]  # "(not tuned on)" may follow
        if network in NETWORKS:
            found[network] = {name: float(cells[name].strip("*")) for name in ENGINES}
    return found


def draw() -> Any:
    """Draw the picture.

    Returns
    -------
    matplotlib.figure.Figure
    """
    import numpy as np
    from skimage import data

    from pplconv import imaging

    image = data.chelsea()[:, 60:380]
    emboss = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])
    figure = new_figure(10.5, 3.1, LIGHT)
    before, after, bars = figure.subplots(1, 3, width_ratios=(1, 1, 1.5))
    for axes, picture, name in (
        (before, image, "before"),
        (after, imaging.filter2d(image, emboss), "imaging.filter2d(image, emboss)"),
    ):
        axes.imshow(picture)
        axes.set_title(name, loc="left", fontsize=10, color=LIGHT.ink)
        axes.axis("off")
    _bars(bars, times())
    return figure


def _bars(axes: Any, found: dict[str, dict[str, float]]) -> None:
    dress(axes, LIGHT, "time of a network, pplconv = 1")
    axes.grid(visible=False, axis="y")
    colors = (LIGHT.ours, "#9a9aa0", "#b9b9be", "#d6d6da")
    height = 0.8 / len(ENGINES)
    for place, (engine, color) in enumerate(zip(ENGINES, colors, strict=True)):
        ratios = [found[network][engine] / found[network]["pplconv"] for network in NETWORKS]
        rows = [row - 0.4 + (place + 0.5) * height for row in range(len(NETWORKS))]
        axes.barh(rows, ratios, height=0.9 * height, color=color, label=ENGINES[engine])
    axes.set_yticks(range(len(NETWORKS)), list(NETWORKS.values()))
    axes.set_ylim(len(NETWORKS) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)
    axes.legend(
        fontsize=8.5,
        frameon=False,
        loc="upper center",
        bbox_to_anchor=(0.45, -0.1),
        ncols=len(ENGINES),
        labelcolor=LIGHT.ink,
    )


def main(argv: Sequence[str]) -> int:
    """Write the picture, to its own file or to a given one."""
    from io import BytesIO

    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    path = Path(argv[0]) if argv else PICTURE
    drawn = BytesIO()
    draw().savefig(drawn, dpi=110)
    # 128 colours are enough for it, and a third of the bytes.
    picture = Image.open(drawn).convert("RGB").quantize(128)
    # Records the figures behind the picture, for a test.
    told = PngInfo()
    told.add_text(FIGURES, json.dumps(times(), sort_keys=True))
    picture.save(path, optimize=True, pnginfo=told)
    print(f"{path}: {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
