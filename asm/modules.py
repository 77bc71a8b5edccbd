"""Cython modules to C, in several processes: Cython holds the GIL while it translates."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import Cython
from Cython.Build import cythonize
from setuptools import Extension

from asm.kept import Kept, dependencies

FOLDER = Path("build/cython")


def _source(extension: Extension) -> Path:
    (source,) = extension.sources
    return Path(source)


def _kept(extension: Extension, directives: Mapping[str, object]) -> Kept:
    target = FOLDER / _source(extension).with_suffix(".c")
    # A new declaration file may hide one that was found elsewhere, so their names count.
    declarations = sorted(str(path) for path in _source(extension).parents[-2].rglob("*.pxd"))
    command = [Cython.__version__, *(f"{key}={directives[key]}" for key in sorted(directives))]
    return Kept(target, target.with_suffix(".made-from"), [*command, *declarations])


def _translate(extensions: Sequence[Extension], directives: Mapping[str, object]) -> None:
    for extension in extensions:
        kept = _kept(extension, directives)

        def cython(extension: Extension = extension) -> None:
            cythonize(
                [extension],
                build_dir=str(FOLDER),
                compiler_directives=dict(directives),
                force=True,
                depfile=True,
            )

        def made_from(target: Path = kept.target) -> list[Path]:
            # Cython's own declarations lie elsewhere in every build, and its version names them.
            found = dependencies(target.with_suffix(".c.dep"))
            return [path for path in found if not path.is_absolute() and ".." not in path.parts]

        kept.make(cython, made_from)


def translate(
    extensions: Sequence[Extension],
    directives: Mapping[str, object],
    workers: int,
    *,
    force: bool = False,
) -> list[Path]:
    """Translate each module unless its C file exists and its sources are unchanged.

    Parameters
    ----------
    extensions : sequence of Extension
        Modules of one ``.pyx`` each; paths are relative to the working directory.
    directives : mapping
        Compiler directives of all of them.
    workers : int
        Number of processes.
    force : bool
        Translate all of them in any case.

    Returns
    -------
    list of Path
        The C files, in the order of the modules.
    """
    kept = {extension.name: _kept(extension, directives) for extension in extensions}
    stale = [each for each in extensions if force or not kept[each.name].is_current()]
    # Dealt out by size, so that all end at about the same time.
    stale.sort(key=lambda extension: _source(extension).stat().st_size, reverse=True)
    # Forked: a fresh interpreter would have to import setup.py, and all of Cython once more.
    fork = multiprocessing.get_context("fork")
    processes = [
        fork.Process(target=_translate, args=(stale[i::workers], directives), daemon=True)
        for i in range(min(workers, len(stale)))
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    for code in (process.exitcode for process in processes):
        if code:
            reason = f"killed by {signal.Signals(-code).name}" if code < 0 else "see above"
            raise RuntimeError(f"Cython translated not every module: {reason}")
    # Cython leaves copies of headers beside the C files; they would hide the real headers.
    for copied in FOLDER.rglob("*.h"):
        copied.unlink()
    return [kept[extension.name].target for extension in extensions]
