"""The PP-OCRv4 text detector: where it comes from, and in which form it runs.

The weights are those of PaddleOCR's mobile detector (DB head, 62 convolutions, 4.7 MB), as exported
to ONNX by the RapidOCR project in its wheel on PyPI.  Both are under the Apache License 2.0.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from pplconv.demo.errors import DemoError
from pplconv.demo.files import write_whole
from pplconv.demo.progress import Progress

if TYPE_CHECKING:
    import onnx

__all__ = ["MODEL_NAME", "OPSET", "ensure_model", "extract_model", "load_model", "matches"]

MODEL_NAME = "ch_PP-OCRv4_det_infer.onnx"
MODEL_SHA256 = "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9"
REQUIREMENT = "rapidocr-onnxruntime==1.4.4"
MEMBER = f"rapidocr_onnxruntime/models/{MODEL_NAME}"

OPSET = 17
"""Opset that the model is converted to.

Below 14 `onnx.reference` computes ``BatchNormalization`` in its training form: with the statistics
of the picture instead of those that were learned.
"""

# The wheel declares an upper bound on Python, which matters to its code and not to the weights, so
# pip is told a version that it accepts.
_PIP = ("-m", "pip", "--disable-pip-version-check", "download", "--no-deps", "--no-input")
_PIP_TARGET = ("--only-binary", ":all:", "--python-version", "3.11")


def ensure_model(cache: Path, progress: Progress) -> Path:
    """Give the path of the checked model, downloading it if it is not there.

    Parameters
    ----------
    cache : Path
        Folder that keeps the model; made if it does not exist.
    progress : Progress
        Told what is being done.

    Returns
    -------
    Path
        The model's file, whose SHA-256 is that of the published one.

    Raises
    ------
    DemoError
        If the model cannot be downloaded or is not the expected one.
    OSError
        If the folder cannot be written.
    """
    path = cache / MODEL_NAME
    if path.is_file():
        if matches(path):
            progress.step(f"model: {path}")
            return path
        progress.step(f"model: {path} is not the expected one (its SHA-256 differs): replacing it")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".download-", dir=cache) as folder:
        progress.step(f"model: downloading {REQUIREMENT} with pip")
        progress.close()  # pip writes lines of its own
        extract_model(_download(Path(folder), path), path)
    progress.step(f"model: {path}")
    return path


def matches(path: Path) -> bool:
    """Tell whether a file is the published model.

    Parameters
    ----------
    path : Path
        An existing file.

    Returns
    -------
    bool
    """
    return hashlib.sha256(path.read_bytes()).hexdigest() == MODEL_SHA256


def extract_model(wheel: Path, path: Path) -> None:
    """Copy the model out of a wheel, if it is the expected one.

    Parameters
    ----------
    wheel : Path
        Wheel of the package `REQUIREMENT`.
    path : Path
        File to write; written in full or not at all.

    Raises
    ------
    DemoError
        If the wheel has no such model, or has another one.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            content = archive.read(MEMBER)
    except (KeyError, zipfile.BadZipFile) as error:
        raise DemoError(f"{wheel.name} holds no readable {MEMBER}: {error}") from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != MODEL_SHA256:
        raise DemoError(
            f"the model in {wheel.name} is not the expected one:\n"
            f"    SHA-256  {digest}\n    expected {MODEL_SHA256}\n"
            "It was not kept."
        )
    write_whole(path, content)


def load_model(path: Path) -> onnx.ModelProto:
    """Load a model in the form in which the evaluator computes it right.

    Parameters
    ----------
    path : Path
        An ONNX file.

    Returns
    -------
    onnx.ModelProto
        The model at opset `OPSET`.
    """
    import onnx
    from onnx import version_converter

    return version_converter.convert_version(onnx.load(str(path)), OPSET)


def _download(folder: Path, wanted: Path) -> Path:
    command = [sys.executable, *_PIP, *_PIP_TARGET, "--dest", str(folder), REQUIREMENT]
    # pip reports on its standard output; ours is for the table.
    status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=2, check=False).returncode
    wheels = list(folder.glob("*.whl"))
    if status or len(wheels) != 1:
        raise DemoError(
            f"pip could not download {REQUIREMENT} (exit status {status}, see above).\n"
            f"Without a network, put {MEMBER} of that wheel at\n    {wanted}"
        )
    return wheels[0]
