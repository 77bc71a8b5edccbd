"""``python -m pplconv demo``: the picture that it writes, read by Pillow."""

from __future__ import annotations

import zlib

import numpy as np
from PIL import Image
from scipy import ndimage

from pplconv.__main__ import main
from pplconv.commands.demo import png
from tests.programs import ran


def test_a_png_is_read_by_pillow(tmp_path, rng):
    image = rng.integers(0, 256, (5, 7, 3), np.uint8)
    path = tmp_path / "image.png"
    path.write_bytes(png(image))
    content = path.read_bytes()
    assert content[:8] == bytes([137, 80, 78, 71, 13, 10, 26, 10])  # ISO/IEC 15948, 5.2
    assert content[-4:] == zlib.crc32(b"IEND").to_bytes(4, "big")
    with Image.open(path) as read:
        assert read.mode == "RGB"
        assert np.array_equal(np.asarray(read), image)


def test_the_picture_shows_filters_and_a_network(tmp_path):
    """Nothing but NumPy is imported."""
    script = (
        "import sys; from pplconv.__main__ import main; status = main(['demo']); "
        "print(sorted({'PIL', 'scipy', 'onnx', 'onnx_ir', 'matplotlib'} & set(sys.modules))); "
        "sys.exit(status)"
    )
    done = ran("-c", script, cwd=tmp_path)
    assert done.returncode == 0, done
    assert "pplconv-demo.png" in done.stdout and "examples/demo" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
    with Image.open(tmp_path / "pplconv-demo.png") as read:
        rings, blur, emboss, network = np.split(np.asarray(read), 4, axis=1)
    y, x = np.mgrid[:384, :384] / 32 - 6
    assert np.abs(rings[:, :, 0] - 127.5 - 127.5 * np.sin(x * x + y * y)).max() <= 1
    expected = ndimage.gaussian_filter(rings[:, :, 0].astype(float), 4, mode="mirror")
    assert np.abs(blur[:, :, 0] - expected).max() <= 0.6
    kernel = [[-2, -1, 0], [-1, 1, 1], [0, 1, 2]]
    expected = ndimage.correlate(rings[:, :, 0].astype(int), kernel, mode="mirror")
    assert np.array_equal(emboss[:, :, 0], np.clip(expected, 0, 255))
    for gray in (rings, blur, emboss):
        assert (gray == gray[:, :, :1]).all()
    assert len(np.unique(network.reshape(-1, 3), axis=0)) > 1000  # colours


def test_a_picture_that_cannot_be_written(tmp_path, capsys):
    assert main(["demo", "-o", str(tmp_path / "nowhere" / "a.png")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "nowhere" in line
