"""Export architectures that packages define: ``python -m benchmarks.networks.exported --help``.

``zoo_exported.toml`` lists them by family: an architecture, the shape of its input, an exporter of
PyTorch, an opset, and whether the batch is open. Weights are random, and each BatchNorm takes the
statistics of one batch, so that values keep their scale from layer to layer. Each export is a
process of its own: exporters keep memory, and PyTorch's threads stay out of the process that
measures.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.files import read_toml
from benchmarks.names import pick
from benchmarks.tool import new_parser
from examples.models.progress import Progress as Steps
from examples.models.published import ModelError

if TYPE_CHECKING:
    import torch

LIST = Path(__file__).with_name("zoo_exported.toml")
EXPORTERS = ("torchscript", "dynamo")
SEED = 1
# Drawn words are below it; all vocabularies are larger.
_WORDS = 1000


@dataclass(frozen=True)
class Architecture:
    """An architecture of a package, and the way to its file.

    Attributes
    ----------
    name : str
        Family and architecture, as in ``"timm.ghostnet_100"``.
    requirement : str
        Package and version.
    licence : str
        Of the package.
    maker : str
        The function here that makes the module.
    model : str
        The package's name of the architecture.
    input : str
        Name of the module's input.
    shape : tuple of int
        Of that input.
    exporter : str
        ``"torchscript"`` or ``"dynamo"``.
    opset : int
    open_batch : bool
        Whether the first dimension of the input is open in the file.
    """

    name: str
    requirement: str
    licence: str
    maker: str
    model: str
    input: str
    shape: tuple[int, ...]
    exporter: str
    opset: int
    open_batch: bool

    @property
    def distribution(self) -> str:
        """The package, without its version."""
        return self.requirement.partition("==")[0]

    @property
    def file(self) -> str:
        """The file in the cache; another version of the package is another file."""
        version = self.requirement.partition("==")[2]
        batch = "open" if self.open_batch else "fixed"
        return f"exported_{self.name}_{version}_{self.exporter}_{self.opset}_{batch}.onnx"

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """The shape of each input of the file."""
        return {self.input: self.shape}


def listed(path: Path = LIST) -> dict[str, Architecture]:
    """Read the list of architectures.

    Raises
    ------
    ValueError
        If two architectures have one name, or an exporter is not known.
    """
    found: dict[str, Architecture] = {}
    for family in read_toml(path)["family"]:
        for model, shape, exporter, opset, open_batch in family["models"]:
            name = f"{family['name']}.{model}"
            if name in found or exporter not in EXPORTERS:
                raise ValueError(f"{path.name}: {name} stands twice, or {exporter!r} is not known")
            found[name] = Architecture(
                name, family["requirement"], family["licence"], family["maker"], model,
                family["input"], tuple(shape), exporter, opset, open_batch,
            )  # fmt: skip
    return found


def ensure(
    architectures: Sequence[Architecture], cache: Path, progress: Steps
) -> dict[str, Path | str]:
    """Give the path of each architecture's file, or why there is none.

    Parameters
    ----------
    architectures : sequence of Architecture
        Those whose files are not there are exported.
    cache : Path
        Folder that keeps the files; made if it does not exist.
    progress : Progress
        Shows the steps.

    Returns
    -------
    dict of str to Path or str
        A string is the last line of the exporter's complaint.

    Raises
    ------
    ModelError
        If a package is not installed in its version.
    """
    found: dict[str, Path | str] = {}
    for one in architectures:
        path = cache / one.file
        found[one.name] = path
        if path.is_file():
            continue
        _want(one)
        progress.step(f"exporting {one.name}")
        cache.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", __spec__.name, one.name, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            found[one.name] = (done.stderr.strip() or "no message").splitlines()[-1]
    return found


def _want(one: Architecture) -> None:
    try:
        version = metadata.version(one.distribution)
    except metadata.PackageNotFoundError:
        version = "no version"
    if one.requirement != f"{one.distribution}=={version}":
        raise ModelError(f"{one.name} needs {one.requirement}, and {version} is installed")


def export(one: Architecture, path: Path) -> None:
    """Write an architecture's file, whole or not at all."""
    import torch

    torch.manual_seed(SEED)
    # Its fast path is one operator, which has no counterpart in ONNX.
    torch.backends.mha.set_fastpath_enabled(False)
    module = MAKERS[one.maker](one.model).eval()
    _settle(module, _input(one, batch=2))
    x = _input(one, batch=one.shape[0])
    dynamic: dict[str, Any] = {}
    if one.open_batch and one.exporter == "dynamo":
        dynamic = {"dynamic_shapes": ({0: torch.export.Dim.DYNAMIC},)}
        # An export for a batch of one would be specialised on it.
        x = _input(one, batch=2)
    elif one.open_batch:
        dynamic = {"dynamic_axes": {one.input: {0: "batch"}}}
    wrapped = _tensors(module, one.input)
    with (
        tempfile.TemporaryDirectory(prefix=".export-", dir=path.parent) as folder,
        torch.no_grad(),
        warnings.catch_warnings(),
    ):
        # Exporters warn of their own code.
        warnings.simplefilter("ignore")
        new = Path(folder) / "model.onnx"
        torch.onnx.export(
            wrapped, (x,), str(new), input_names=[one.input], opset_version=one.opset,
            dynamo=one.exporter == "dynamo", external_data=False, verbose=False, **dynamic,
        )  # fmt: skip
        new.replace(path)


def _input(one: Architecture, batch: int) -> torch.Tensor:
    import torch

    shape = (batch, *one.shape[1:])
    generator = torch.Generator().manual_seed(SEED)
    if one.input == "input_ids":
        return torch.randint(0, _WORDS, shape, generator=generator)
    return torch.rand(shape, generator=generator)


def _settle(module: torch.nn.Module, x: torch.Tensor) -> None:
    """Let normalizations of a batch take the statistics of one."""
    import torch

    norms = [m for m in module.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.momentum = 1.0
        norm.train()
    if norms:
        with torch.no_grad():
            module(x)
    for norm in norms:
        norm.eval()


def _tensors(module: torch.nn.Module, name: str) -> torch.nn.Module:
    """Wrap a module: one argument goes to the input of a name, and results are tensors alone."""
    import torch

    def flat(found: Any) -> list[torch.Tensor]:
        if isinstance(found, torch.Tensor):
            return [found]
        inside = found.values() if isinstance(found, Mapping) else found
        if not isinstance(inside, Iterable) or isinstance(inside, str):
            return []
        return [tensor for each in inside for tensor in flat(each)]

    class Wrapped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return tuple(flat(self.inner(x) if name == "x" else self.inner(**{name: x})))

    return Wrapped().eval()


def _torchvision(name: str) -> torch.nn.Module:
    import torchvision

    make = torchvision.models.get_model
    try:
        module: torch.nn.Module = make(name, weights=None, weights_backbone=None)
    except TypeError:
        # Classifiers have no backbone.
        module = make(name, weights=None)
    return module


def _timm(name: str) -> torch.nn.Module:
    import timm

    module: torch.nn.Module = timm.create_model(name, pretrained=False, exportable=True)
    return module


def _segmentation(name: str) -> torch.nn.Module:
    """A decoder and an encoder, as in ``unet-resnet18``."""
    import segmentation_models_pytorch as smp

    decoder, _, encoder = name.partition("-")
    module: torch.nn.Module = smp.create_model(decoder, encoder, encoder_weights=None)
    return module


def _transformers(name: str) -> torch.nn.Module:
    """A model as its configuration stands without arguments; of Whisper, the encoder."""
    import transformers

    config = getattr(transformers, f"{name}Config")()
    config.return_dict = False
    config._attn_implementation = "eager"
    module: torch.nn.Module = getattr(transformers, f"{name}Model")(config)
    return module.get_encoder() if name == "Whisper" else module


MAKERS = {
    "torchvision": _torchvision,
    "timm": _timm,
    "segmentation": _segmentation,
    "transformers": _transformers,
}


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.networks.exported", __doc__)
    parser.add_argument("name", help="an architecture of zoo_exported.toml")
    parser.add_argument("path", type=Path, help="the file to write")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Export one architecture."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    try:
        (one,) = pick("architecture", [chosen.name], listed()).values()
        _want(one)
    except (ValueError, ModelError) as error:
        parser.error(str(error))
    export(one, chosen.path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
