"""Files of text, perhaps compressed, that are written in full or not at all, and read back."""

from __future__ import annotations

import json
import lzma
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

Built = TypeVar("Built")


def write_whole(path: Path, text: str) -> None:
    """Write `text` to `path`, all of it or, if interrupted, nothing; ``.xz`` is compressed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        content = text.encode("utf-8")
        temporary.write_bytes(lzma.compress(content) if path.suffix == ".xz" else content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a file of TOML."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(path.read_text(encoding="utf-8"))


def read_whole(
    path: Path, build: Callable[[Any], Built], error: type[ValueError], otherwise: str
) -> Built:
    """Read a file of JSON, compressed if it ends in ``.xz``, and build what it describes.

    Parameters
    ----------
    path : Path
    build : callable
        Takes the plain values.
    error : type
        Raised where the file cannot be read, or holds something else.
    otherwise : str
        The message about a file that `build` cannot take.
    """
    try:
        content = path.read_bytes()
        plain = json.loads(lzma.decompress(content) if path.suffix == ".xz" else content)
    except (lzma.LZMAError, EOFError) as reason:
        raise error(f"{path} cannot be decompressed: {reason}") from None
    except OSError as reason:
        raise error(f"{path}: {reason.strerror or reason}") from None
    except ValueError as reason:
        raise error(f"{path} is no JSON: {reason}") from None
    try:
        return build(plain)
    except (AttributeError, KeyError, TypeError, ValueError) as reason:
        raise error(f"{path} {otherwise} ({type(reason).__name__}: {reason})") from None
