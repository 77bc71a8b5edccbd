"""README's picture: a photograph before and after a filter, and bars beside the peers.

``python -m tools.site.front`` draws it anew, for light and for dark screens, from the recorded
table that `RUN` names. It is narrow, so that a phone shows its letters large enough to be read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.looks import THEMES, Theme, dress, new_figure
from tools.markdown import section, tables

ROOT = Path(__file__).resolve().parent.parent.parent
PICTURES = {
    theme: ROOT / "docs" / "_static" / f"first-minute{theme.suffix}.png" for theme in THEMES
}
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
GREYS = {"": ("#b9b9be", "#d6d6da"), "-dark": ("#686b73", "#474a52")}
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


def draw(theme: Theme) -> Any:
    """Draw the picture.

    Returns
    -------
    matplotlib.figure.Figure
    """
    import numpy as np
    from skimage import data

    from pplconv import imaging

    image = data.chelsea()[40:260, 60:380]
    emboss = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])
    figure = new_figure(5.4, 4.9, theme)
    places = figure.subplot_mosaic([["before", "after"], ["bars", "bars"]], height_ratios=(1, 1.55))
    for axes, picture, name in (
        (places["before"], image, "before"),
        (places["after"], imaging.filter2d(image, emboss), "filter2d(image, emboss)"),
    ):
        axes.imshow(picture)
        axes.set_title(name, loc="left", fontsize=10, color=theme.ink)
        axes.axis("off")
    _bars(places["bars"], times(), theme)
    return figure


def _bars(axes: Any, found: dict[str, dict[str, float]], theme: Theme) -> None:
    dress(axes, theme, "time of a network: shorter is better")
    axes.grid(visible=False, axis="y")
    names = {name: text for name, text in ENGINES.items() if name != "pplconv"}
    colors = (theme.faint, *GREYS[theme.suffix])
    height = 0.8 / len(ENGINES)
    for place, (engine, color) in enumerate(
        zip(("pplconv", *names), (theme.ours, *colors), strict=True)
    ):
        ratios = [found[network][engine] / found[network]["pplconv"] for network in NETWORKS]
        rows = [row - 0.4 + (place + 0.5) * height for row in range(len(NETWORKS))]
        label = ENGINES[engine]
        axes.barh(rows, ratios, height=0.9 * height, color=color, label=label)
    axes.set_yticks(range(len(NETWORKS)), list(NETWORKS.values()), fontsize=10)
    axes.set_ylim(len(NETWORKS) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("pplconv = 1; one core, float32", color=theme.ink, fontsize=10)
    axes.legend(
        fontsize=9.5,
        frameon=False,
        loc="upper center",
        bbox_to_anchor=(0.36, -0.19),
        ncols=len(ENGINES),
        columnspacing=1.2,
        handlelength=1.4,
        labelcolor=theme.ink,
    )


def main(argv: Sequence[str]) -> int:
    """Write the pictures, beside the pages or into a given folder."""
    from io import BytesIO

    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    # Records the figures behind the picture, for a test.
    told = PngInfo()
    told.add_text(FIGURES, json.dumps(times(), sort_keys=True))
    for theme, own in PICTURES.items():
        path = Path(argv[0]) / own.name if argv else own
        drawn = BytesIO()
        draw(theme).savefig(drawn, dpi=130)
        # 128 colours are enough for it, and a third of the bytes.
        picture = Image.open(drawn).convert("RGB").quantize(128)
        picture.save(path, optimize=True, pnginfo=told)
        print(f"{path}: {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
