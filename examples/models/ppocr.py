"""The PP-OCRv4 models: detector, classifier and recogniser of lines of text.

The weights are those of PaddleOCR's mobile models (the detector: DB head, 62 convolutions, 4.7 MB),
as exported to ONNX by the RapidOCR project in its wheel on PyPI.  Both are under the Apache
License 2.0.
"""

from __future__ import annotations

from pathlib import Path

from examples.models.progress import Progress
from examples.models.published import Published, ensure

__all__ = ["CLASSIFIER", "DETECTOR", "RECOGNISER", "ensure_models"]

_REQUIREMENT = "rapidocr-onnxruntime==1.4.4"
_FOLDER = "rapidocr_onnxruntime/models/"


def _published(name: str, sha256: str) -> Published:
    return Published(name, _REQUIREMENT, _FOLDER + name, sha256)


DETECTOR = _published(
    "ch_PP-OCRv4_det_infer.onnx",
    "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
)
"""Finds text in a picture."""

RECOGNISER = _published(
    "ch_PP-OCRv4_rec_infer.onnx",
    "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
)
"""Reads a line of text."""

CLASSIFIER = _published(
    "ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
)
"""Tells whether a line of text is upside down."""


def ensure_models(cache: Path, progress: Progress) -> tuple[Path, Path, Path]:
    """Give the paths of the checked models, downloading those that are not there.

    Parameters
    ----------
    cache : Path
        Folder that keeps the models; made if it does not exist.
    progress : Progress
        Shows the steps.

    Returns
    -------
    tuple of Path
        Files of detector, classifier and recogniser, whose SHA-256 are those of the published ones.

    Raises
    ------
    ModelError
        If a model cannot be downloaded or is not the expected one.
    OSError
        If the folder cannot be written.
    """
    detector, classifier, recogniser = ensure([DETECTOR, CLASSIFIER, RECOGNISER], cache, progress)
    return detector, classifier, recogniser
