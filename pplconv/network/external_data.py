"""Weights in files beside the model: permitted paths and required lengths."""

from __future__ import annotations

import math
import os
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx
import onnx_ir as ir

__all__ = ["check_external_data"]


def check_external_data(tensor: onnx.TensorProto, folder: str | os.PathLike[str] | None) -> None:
    """Refuse external data that leaves the model's folder or its own file.

    Parameters
    ----------
    tensor : onnx.TensorProto
        Any tensor; tensors with data in the model itself pass.
    folder : str, os.PathLike or None
        Folder of the model; None if the model has no path.

    Raises
    ------
    ValueError
        If the place of the tensor's data is not permitted or does not exist in the file.
    FileNotFoundError
        If there is no such file.
    """
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return
    name = f"the tensor {tensor.name!r}"
    if folder is None:
        raise ValueError(
            f"model keeps {name} in another file, and was not given as a path: there is no folder "
            "to look in"
        )
    entries = {entry.key: entry.value for entry in tensor.external_data}
    path = _inside(Path(folder), entries.get("location", ""), name)
    offset = _integer(entries.get("offset", "0"), "offset", name)
    dtype = ir.DataType(tensor.data_type)
    if dtype in (ir.DataType.STRING, ir.DataType.UNDEFINED):
        raise ValueError(f"model keeps {name} of type {dtype.name} in another file")
    expected = (math.prod(tensor.dims) * dtype.bitwidth + 7) // 8
    length = _integer(entries["length"], "length", name) if "length" in entries else expected
    if length != expected:
        raise ValueError(
            f"model declares the shape {list(tensor.dims)} for {name}, {expected} bytes, but a "
            f"length of {length}"
        )
    size = path.stat().st_size
    if offset + length > size:
        raise ValueError(
            f"model keeps {name} at bytes {offset} to {offset + length} of {path.name!r}, "
            f"which has only {size}"
        )


def _inside(folder: Path, location: str, name: str) -> Path:
    if not location:
        raise ValueError(f"model names no file for {name}")
    # A path written on another system must not name another file here.
    parts = {*PurePosixPath(location).parts, *PureWindowsPath(location).parts}
    absolute = PurePosixPath(location).is_absolute() or PureWindowsPath(location).anchor
    if absolute or ".." in parts or "\0" in location:
        raise ValueError(f"model keeps {name} outside its folder: {location!r}")
    root = folder.resolve()
    path = (root / location).resolve()
    if not path.is_relative_to(root):
        raise ValueError(f"model keeps {name} outside its folder: {location!r}")
    if not path.exists():
        raise FileNotFoundError(f"model keeps {name} in {location!r}, which does not exist")
    if not path.is_file():
        raise ValueError(f"model keeps {name} in {location!r}, which is not a file")
    return path


def _integer(text: str, key: str, name: str) -> int:
    # int() takes signs, spaces and underscores, and texts of any length.
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ValueError(f"model has the {key} {text[:20]!r} for {name}: expected a size in bytes")
    return int(text)
