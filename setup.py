"""Build of the extension modules; everything declarative is in ``pyproject.toml``.

The kernels of ``asm/`` are generated, compiled one by one, each with the flags of its own
instruction set, and linked into ``pplconv._kernels``. No other file gets such a flag, and none
is taken from ``CFLAGS``: where a wheel runs must not depend on where it was built.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from asm.build import generate, probes  # noqa: E402  (the build runs from anywhere)
from asm.contract import declarations_text  # noqa: E402
from asm.kept import Kept, dependencies, in_parallel, write  # noqa: E402
from asm.precompiled import Precompiled  # noqa: E402

# Python's headers assert, with the paths of their files, unless its own flags say otherwise.
C_FLAGS = ["-O2", "-fvisibility=hidden", "-ffp-contract=off", "-DNDEBUG"]
# Python's own flags ask for debugging symbols, three quarters of a module; the user's may.
if "-g" not in os.environ.get("CFLAGS", "").split():
    C_FLAGS.append("-g0")
# A kernel is called through the table alone, so there is nothing for the linker to optimise.
KERNEL_FLAGS = [*C_FLAGS[1:], "-fno-lto"]
# Under a sanitizer gcc takes minutes for a file unless it optimises nothing. The last -O counts.
SANITIZER_FLAGS = ["-O0"] if "-fsanitize=" in os.environ.get("CFLAGS", "") else []

# What a user's CFLAGS may not decide: instruction sets, and rules of arithmetic. (A linker told
# -ffast-math makes the process flush denormals, whoever computes them.)
UNWANTED_FLAG = re.compile(
    r"-m(arch=|cpu=|sse|ssse|avx|fma|f16c|bmi|lzcnt|popcnt|movbe|adx|amx|gfni|vaes|vpclmul|3dnow)"
    r"|-Ofast|-f(fast-math|unsafe-math|finite-math|associative-math|reciprocal-math)"
)

# Compilations that take longest: they begin first, so that none is left when all others are done.
LONGEST = re.compile("depthwise_pixels|depthwise_channels")

# Operation, type, tile if it has one, instruction set.
KERNEL_NAME = re.compile(r"pplconv_(.+?)_([a-z]+\d+[a-z]*\d*)(?:_(\d+)x(\d+))?_([a-z]\w*)")

CYTHON_DIRECTIVES = {
    "language_level": "3",
    # Modules whose functions users call say otherwise: what makes functions look like Python's is
    # 5 KB in each. What Cython writes to pickle a class is 1 KB to 8; layers have their own way.
    "binding": False,
    "auto_pickle": False,
    # Every module takes care of what its threads share: docs/architecture.md, "Threads".
    "freethreading_compatible": True,
}


def likeness(path: Path) -> tuple[str, str, int, int, str]:
    """Order objects of kernels so that those which resemble each other are neighbours.

    What compresses a wheel sees 32 KiB at a time. One operation, instruction set and tile in
    several types is nearly the same code.
    """
    found = KERNEL_NAME.fullmatch(path.stem)
    if found is None:
        return "", "", 0, 0, path.stem
    operation, dtype, mr, nr, level = found.groups(default="0")
    return operation, level, int(mr), int(nr), dtype


class BuildExt(build_ext):
    """Compile kernels and modules in one pool, keep what is up to date, and link."""

    def build_extensions(self) -> None:
        """Build everything; what is up to date stays."""
        # Imported here: most calls of this file are for metadata, which need no Cython; and
        # distutils is setuptools' own by now.
        from distutils.ccompiler import gen_preprocess_options

        from asm.modules import translate

        if self.parallel is None:
            self.parallel = len(os.sched_getaffinity(0))
        workers = (os.cpu_count() or 1) if self.parallel is True else self.parallel
        self.leave_out_unwanted_flags()
        directory = Path(self.build_temp).resolve() / "asm"
        machine = self.plat_name.rpartition("-")[2]
        # The name is the system's, on which a Python of 32 bits may run.
        if sys.maxsize < 1 << 32:
            machine = {"aarch64": "armv7l", "x86_64": "i686"}.get(machine, machine)
        kernels = generate(directory, machine, encoded=self.encoded_levels(directory, machine))
        write(ROOT / "pplconv/_contracts.pxd", declarations_text())
        c_files = translate(self.extensions, CYTHON_DIRECTIVES, workers, force=self.force)

        compilations = []
        # Objects lie beside each other: the names of sources are distinct by design.
        objects = directory / "objects"
        kernel_objects = [objects / f"{kernel.path.stem}.o" for kernel in kernels]
        for kernel, target in zip(kernels, kernel_objects, strict=True):
            flags = [*KERNEL_FLAGS, *kernel.flags, *SANITIZER_FLAGS]
            compilations.append((kernel.path, target, flags))
        for extension, c_file in zip(self.extensions, c_files, strict=True):
            extension.sources = []  # for setuptools: nothing but linking is left to do
            target = Path(self.build_temp).resolve() / "modules" / f"{extension.name}.o"
            extension.extra_objects = [str(target)]
            if extension.name == "pplconv._kernels":
                # The loader does not care; a wheel is a twentieth smaller.
                extension.extra_objects += map(str, sorted(kernel_objects, key=likeness))
            include = [str(directory), *extension.include_dirs, *self.compiler.include_dirs]
            flags = gen_preprocess_options(self.compiler.macros, include)
            compilations.append((c_file, target, [*flags, *extension.extra_compile_args]))
        self.precompiled = Precompiled(directory / "precompiled", machine)
        self.compile_all(compilations, workers)
        super().build_extensions()

    def encoded_levels(self, directory: Path, machine: str) -> list[str]:
        """Levels whose instructions are written as numbers: the assembler does not know them.

        ``PPLCONV_ENCODE=1`` takes every assembler for such a one.
        """
        texts = probes(machine)
        if os.environ.get("PPLCONV_ENCODE", "0") != "0":
            return list(texts)
        # One file for levels that share it.
        names = {text: level for level, text in texts.items()}
        known = {text: self.assembles(directory, level, text) for text, level in names.items()}
        found = [level for level, text in texts.items() if not known[text]]
        if found:
            self.announce(f"instructions as numbers: {', '.join(found)}", level=2)
        return found

    def assembles(self, directory: Path, name: str, text: str) -> bool:
        """Whether the assembler knows all of a file; it is asked again if it did not."""
        directory.mkdir(parents=True, exist_ok=True)
        source = directory / f"probe_{name}.s"
        write(source, text)
        command = [*self.compiler.compiler_so, "-c", str(source)]
        kept = Kept(source.with_suffix(".o"), source.with_suffix(".made-from"), command)
        if kept.is_current():
            return True
        line = [*command, "-o", str(kept.target)]
        try:
            kept.make(
                lambda: subprocess.run(line, capture_output=True, check=True), lambda: [source]
            )
        except subprocess.CalledProcessError:
            return False
        return True

    def compile_all(self, compilations: list[tuple[Path, Path, list[str]]], workers: int) -> None:
        """Make each object, source, target and flags, unless it is up to date."""
        stale: list[tuple[bool, int, Callable[[], None]]] = []
        kernels = []
        for source, target, flags in compilations:
            command = [*self.compiler.compiler_so, *flags]
            kept = Kept(target, target.with_suffix(".made-from"), [*command, "-c", str(source)])
            if self.force or not kept.is_current():
                make = partial(self.compile_one, kept, source, command)
                stale.append((bool(LONGEST.search(source.name)), source.stat().st_size, make))
                if source.suffix == ".c" and source.name.startswith("pplconv_"):
                    kernels.append(command)
        stale.sort(key=lambda item: item[:2], reverse=True)
        self.announce(f"compiling {len(stale)} of {len(compilations)} files", level=2)
        try:
            self.precompiled.make(kernels, workers)
            in_parallel([make for *_, make in stale], workers)
        finally:
            self.precompiled.remove()

    def compile_one(self, kept: Kept, source: Path, command: list[str]) -> None:
        """Compile, and take down what the compiler read."""
        headers = kept.target.with_suffix(".d")
        options = ["-MMD", "-MF", str(headers)] if source.suffix == ".c" else []
        more = self.precompiled.options(command) if options else []
        kept.make(
            lambda: self.spawn(
                [*command, *more, "-c", str(source), *options, "-o", str(kept.target)]
            ),
            lambda: self.precompiled.without(dependencies(headers)) if options else [source],
        )

    def build_extension(self, ext: Extension) -> None:
        """Link a module unless it is up to date."""
        target = Path(self.get_ext_fullpath(ext.name))
        record = Path(self.build_temp) / "modules" / f"{ext.name}.linked"
        command = [*self.compiler.linker_so, *ext.extra_link_args, *ext.extra_objects]
        kept = Kept(target, record, command)
        if self.force or not kept.is_current():
            # Whatever the times of the files are.
            target.unlink(missing_ok=True)
            link = partial(super().build_extension, ext)
            kept.make(link, lambda: [Path(name) for name in ext.extra_objects])

    def leave_out_unwanted_flags(self) -> None:
        """Take them out of the commands that compile and link, and say so."""
        for name in ("compiler_so", "linker_so"):
            command = getattr(self.compiler, name)
            unwanted = [flag for flag in command if UNWANTED_FLAG.match(flag)]
            if unwanted:
                self.warn(f"{name}: {' '.join(unwanted)} left out; kernels are chosen at run time")
                setattr(self.compiler, name, [flag for flag in command if flag not in unwanted])


# Names inside modules are a twentieth of a wheel. Those of kernels stay, as tests disassemble them;
# all do where somebody wants to debug, and where linkers have no such flag.
WITHOUT_NAMES = ["-Wl,-s"] if sys.platform == "linux" and "-g0" in C_FLAGS else []
if SANITIZER_FLAGS:
    WITHOUT_NAMES = []


def extension(name: str, *, openmp: bool = False, small: bool = False) -> Extension:
    """Describe one Cython module of the package.

    Those whose calls take no longer if they are compiled for size are a third smaller then.
    """
    return Extension(
        f"pplconv.{name}",
        [f"pplconv/{name.replace('.', '/')}.pyx"],
        include_dirs=["pplconv", "pplconv/schedules"],
        extra_compile_args=[
            *C_FLAGS,
            *(["-Os"] if small else []),
            *SANITIZER_FLAGS,
            *(["-fopenmp"] if openmp else []),
        ],
        extra_link_args=[
            *(["-fopenmp"] if openmp else []),
            *(WITHOUT_NAMES if name != "_kernels" else []),
        ],
    )


setup(
    ext_modules=[
        extension("_kernels"),
        extension("schedules.base"),
        extension("schedules.team", openmp=True),
        extension("schedules.team_loop"),
        extension("schedules.execute"),
        extension("schedules.gemm_loops"),
        extension("schedules.gemm_checks", small=True),
        extension("schedules.direct_loops"),
        extension("schedules.plane_loops"),
        extension("schedules.sparse_loops"),
        extension("schedules.sparse_checks", small=True),
        extension("schedules.work"),
        extension("schedules.elementwise_loops", small=True),
        extension("schedules.copy_loops", small=True),
        extension("schedules.finish", small=True),
        extension("schedules.packing", small=True),
        extension("schedules.row_loops", small=True),
        extension("schedules.window_loops", small=True),
        extension("ops.quantized.rescaling", small=True),
        extension("schedules.band_loops", small=True),
        extension("imaging.banded", small=True),
        extension("ops.program", small=True),
        extension("schedules.winograd_loops"),
        extension("schedules.depthwise_loops"),
        extension("schedules.relayout", small=True),
        extension("_binding", small=True),
        extension("memory.workspace"),
        extension("memory.arrays"),
        extension("memory.dlpack", small=True),
        extension("instances._flat", small=True),
        extension("instances._mailbox", small=True),
        extension("_trial", small=True),
        extension("ops.prepared"),
        extension("ops.border", small=True),
        extension("ops.ready"),
        extension("api.layer", small=True),
        extension("api.conv"),
        extension("api.transposed_function", small=True),
        extension("api.transposed_layer", small=True),
        extension("api.linear"),
        extension("api.matmul"),
        extension("api.function"),
        extension("ops.quantized.quantized_run", small=True),
        extension("ops.blocked", small=True),
    ],
    cmdclass={"build_ext": BuildExt},
)
