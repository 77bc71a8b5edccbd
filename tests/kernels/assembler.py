"""Machine code of assembly text, made by GNU binutils."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def has_assembler(prefix: str = "") -> bool:
    """Whether the tools of a machine are installed; `prefix` is that of cross tools."""
    return all(shutil.which(f"{prefix}{tool}") for tool in ("as", "objcopy"))


def assemble(text: str, directory: Path, prefix: str = "") -> bytes:
    """Give the code of an assembly file; skip the test if the assembler is too old for it.

    The object file is ``code.o`` in `directory`.

    Raises
    ------
    subprocess.CalledProcessError
        If the assembler refuses the text.
    """
    source, made, code = (directory / f"code.{suffix}" for suffix in ("s", "o", "bin"))
    source.write_text(text)
    command = [f"{prefix}as", "-o", str(made), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    if "no such instruction" in done.stderr:
        pytest.skip("this assembler is too old")
    print(done.stderr[:2000])
    done.check_returncode()
    extract = [f"{prefix}objcopy", "-O", "binary", "-j", ".text", str(made), str(code)]
    subprocess.run(extract, check=True)
    return code.read_bytes()
