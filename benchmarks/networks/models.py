"""The networks by name: where their files come from, and the shapes of their inputs."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchmarks.names import pick
from benchmarks.networks import built, convnext, regnet, sound, swin, video, weights
from examples.models.ppocr import CLASSIFIER, DETECTOR, RECOGNISER
from examples.models.progress import Progress
from examples.models.published import Published, ensure
from examples.models.whole_files import write_whole

if TYPE_CHECKING:
    import onnx

Array32 = NDArray[np.float32]

# A letter of the pictures that are drawn: pixels of a dot's side, rows and columns of dots.
_DOT = 3
_GLYPH_ROWS = 7
_GLYPH_COLUMNS = 4

_DDDDOCR = "ddddocr==1.6.1"

OCR = Published(
    "ddddocr_common.onnx",
    _DDDDOCR,
    "ddddocr/common.onnx",
    "33b5cd351ee94e73a6bf8fa18c415ed8b819b3ffd342e267c30d8ad8334e34e8",
)
BOXES = Published(
    "ddddocr_common_det.onnx",
    _DDDDOCR,
    "ddddocr/common_det.onnx",
    "6faa8ea85a8c1a634e5050c4a138fca10f30194e0d7abbe9ade1fcd423af6ed6",
)


@dataclass(frozen=True)
class Generated:
    """A model with random weights that is made here.

    Attributes
    ----------
    name : str
        File that it is kept as.
    make : callable
        Gives the ``onnx.ModelProto``.
    """

    name: str
    make: Callable[[], onnx.ModelProto]


@dataclass(frozen=True)
class Network:
    """A network as it is measured.

    Attributes
    ----------
    source : Published or Generated
    inputs : mapping of str to tuple of int
        Shape of each input of the model, for a batch of 1; the batch is the first axis.
    low, high : float
        The range of the input's numbers.
    batched : bool
        False if its graph is written for a batch of 1.
    tuned : bool
        False if pplconv's rules and plans were made without looking at it.
    """

    source: Published | Generated
    inputs: Mapping[str, tuple[int, ...]]
    low: float = -1.0
    high: float = 1.0
    batched: bool = True
    tuned: bool = True

    def shapes(self, batch: int) -> dict[str, tuple[int, ...]]:
        """Give the shape of each input for a batch size."""
        return {name: (batch, *shape[1:]) for name, shape in self.inputs.items()}

    def feed(self, batch: int) -> dict[str, Array32]:
        """Make the inputs, the same in every run; an image is the same in every batch."""
        return {
            name: np.stack([self._image(name, index) for index in range(batch)])
            for name in self.inputs
        }

    def _image(self, name: str, index: int) -> Array32:
        rng = np.random.default_rng([weights.SEED, zlib.crc32(name.encode()), index])
        channels, *size = self.inputs[name][1:]
        if len(size) == 1:
            drawn = rng.random((channels, *size), np.float32)
            return np.float32(self.low) + np.float32(self.high - self.low) * drawn
        light = np.stack([page(size[-2], size[-1], rng) for _ in range(math.prod(size[:-2]))])
        light = light.reshape(size)
        # A little noise, of its own in each channel, as a camera adds.
        noise = rng.random((channels, *size), np.float32)
        mixed = np.float32(0.95) * light + np.float32(0.05) * noise
        return np.float32(self.low) + np.float32(self.high - self.low) * mixed


def page(height: int, width: int, rng: np.random.Generator) -> Array32:
    """Draw a picture that looks like lines of text: dark marks (0) on a light ground (1).

    On noise, a detector of text gives zeros everywhere, which would hide errors.
    """
    dots = np.zeros((-(-height // _DOT), -(-width // _DOT)), bool)
    for top in range(_GLYPH_ROWS // 2, dots.shape[0] - _GLYPH_ROWS, 2 * _GLYPH_ROWS):
        for left in range(_GLYPH_COLUMNS, dots.shape[1] - _GLYPH_COLUMNS, _GLYPH_COLUMNS + 1):
            # Now and then a gap, as between words.
            if rng.random() < 0.85:
                glyph = rng.random((_GLYPH_ROWS, _GLYPH_COLUMNS)) < 0.55
                dots[top : top + _GLYPH_ROWS, left : left + _GLYPH_COLUMNS] = glyph
    drawn = dots.repeat(_DOT, axis=0).repeat(_DOT, axis=1)[:height, :width]
    return np.where(drawn, np.float32(0.1), np.float32(0.9))


def _of_onnx(name: str) -> Callable[[], onnx.ModelProto]:
    def make() -> onnx.ModelProto:
        import onnx
        from onnx.backend import test

        folder = Path(test.__file__).parent / "data" / "light"
        return weights.with_weights(onnx.load(str(folder / f"light_{name}.onnx")))

    return make


_IMAGE = (1, 3, 224, 224)
# Range of pixels of 0 .. 1 after subtraction of the mean and division by the deviation.
_NORMALISED = (-2.1, 2.6)

NETWORKS: Mapping[str, Network] = {
    "ppocr_det_640": Network(DETECTOR, {"x": (1, 3, 640, 640)}, *_NORMALISED),
    "ppocr_det_960x480": Network(DETECTOR, {"x": (1, 3, 960, 480)}, *_NORMALISED),
    "ppocr_rec": Network(RECOGNISER, {"x": (1, 3, 48, 320)}),
    "ppocr_cls": Network(CLASSIFIER, {"x": (1, 3, 48, 192)}),
    "resnet_50": Network(
        Generated("resnet_50.onnx", _of_onnx("resnet50")), {"gpu_0/data_0": _IMAGE}
    ),
    "vgg_19": Network(Generated("vgg_19.onnx", built.vgg_19), {"x": _IMAGE}),
    "mobilenet_v2": Network(Generated("mobilenet_v2.onnx", built.mobilenet_v2), {"x": _IMAGE}),
    "regnet_x_0_4": Network(
        Generated("regnet_x_0_4.onnx", regnet.x_0_4), {"x": _IMAGE}, tuned=False
    ),
    "regnet_y_1_6": Network(
        Generated("regnet_y_1_6.onnx", regnet.y_1_6), {"x": _IMAGE}, tuned=False
    ),
    "regnet_x_3_2": Network(
        Generated("regnet_x_3_2.onnx", regnet.x_3_2), {"x": _IMAGE}, tuned=False
    ),
    "convnext_t": Network(Generated("convnext_t.onnx", convnext.tiny), {"x": _IMAGE}),
    "replknet_31b": Network(
        Generated("replknet_31b.onnx", convnext.replknet), {"x": _IMAGE}, tuned=False
    ),
    "slak_t": Network(Generated("slak_t.onnx", convnext.slak), {"x": _IMAGE}, tuned=False),
    "swin_t": Network(Generated("swin_t.onnx", swin.tiny), {"x": _IMAGE}),
    "hifi_gan": Network(
        Generated("hifi_gan.onnx", sound.hifi_gan),
        {"x": (1, sound.MEL_CHANNELS, 64)},
    ),
    "conv_tasnet": Network(
        Generated("conv_tasnet.onnx", sound.conv_tasnet),
        {"x": (1, 1, 16_000)},
        batched=False,
    ),
    "r3d_18": Network(
        Generated("r3d_18.onnx", video.r3d_18), {"x": (1, 3, video.FRAMES, video.SIDE, video.SIDE)}
    ),
    "unet_3d": Network(Generated("unet_3d.onnx", video.unet_3d), {"x": (1, *video.VOLUME)}),
    "ddddocr": Network(OCR, {"input1": (1, 1, 64, 160)}),
    "ddddocr_det": Network(BOXES, {"images": (1, 3, 416, 416)}, 0.0, 255.0, False, tuned=False),
    "squeezenet": Network(
        Generated("squeezenet.onnx", _of_onnx("squeezenet")), {"data_0": _IMAGE}, tuned=False
    ),
    "densenet_121": Network(
        Generated("densenet_121.onnx", _of_onnx("densenet121")), {"data_0": _IMAGE}, tuned=False
    ),
}


def select(names: Sequence[str]) -> dict[str, Network]:
    """Give the named networks in the order of the tables; none means all.

    Raises
    ------
    ValueError
        If a name is unknown.
    """
    return pick("model", names, NETWORKS)


def obtain(networks: Sequence[Network], cache: Path, progress: Progress) -> list[Path]:
    """Give the file of each network, downloading or making those that are not there.

    Parameters
    ----------
    networks : sequence of Network
    cache : Path
        Folder that keeps them; made if it does not exist.
    progress : Progress
        Told what is being done.

    Raises
    ------
    examples.models.published.ModelError
        If a model cannot be downloaded or is not the expected one.
    OSError
        If the folder cannot be written.
    """
    published = [one.source for one in networks if isinstance(one.source, Published)]
    ensure(list(dict.fromkeys(published)), cache, progress)
    for network in networks:
        path = cache / network.source.name
        if isinstance(network.source, Generated) and not path.is_file():
            progress.step(f"model: making {path}")
            cache.mkdir(parents=True, exist_ok=True)
            write_whole(path, network.source.make().SerializeToString())
    return [cache / network.source.name for network in networks]


def fixed(path: Path, shapes: Mapping[str, Sequence[int]], folder: Path) -> Path:
    """Give a file of the model whose inputs have these shapes and no others.

    Parameters
    ----------
    path : Path
    shapes : mapping of str to sequence of int
    folder : Path
        Where a copy goes, if the model as it is has other shapes or leaves them open.

    Raises
    ------
    ValueError
        If the model's inputs have other names.
    """
    import onnx

    model = weights.at_shapes(onnx.load(str(path)), shapes)
    if model is None:
        return path
    target = folder / path.name
    target.write_bytes(model.SerializeToString())
    return target
