"""Build of the extension modules; everything declarative is in ``pyproject.toml``.

The kernels of ``asm/`` are generated, compiled one by one, each with the flags of its own
instruction set, and linked into ``pplconv._kernels``. No other file gets such a flag, and none
is taken from ``CFLAGS``: where a wheel runs must not depend on where it was built.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from asm.build import generate, probes  # noqa: E402  (the build runs from anywhere)
from asm.contract import declarations_text  # noqa: E402
from asm.description import description  # noqa: E402
from asm.kept import Kept, dependencies, in_parallel, write  # noqa: E402
from asm.precompiled import Precompiled  # noqa: E402
from asm.progress import Progress  # noqa: E402

# NDEBUG, as in Python's own flags: otherwise its headers compile assertions with paths of files.
C_FLAGS = ["-O2", "-fvisibility=hidden", "-ffp-contract=off", "-DNDEBUG"]
# Python's own flags ask for debugging symbols, which are three quarters of a module. -g0 leaves
# them out, unless the user's CFLAGS ask for them.
if "-g" not in os.environ.get("CFLAGS", "").split():
    C_FLAGS.append("-g0")
# Kernels are only called through the table, so link-time optimisation gains nothing.
KERNEL_FLAGS = [*C_FLAGS[1:], "-fno-lto"]
# With a sanitizer gcc takes minutes for an optimised file. The last -O of a command counts.
SANITIZER_FLAGS = ["-O0"] if "-fsanitize=" in os.environ.get("CFLAGS", "") else []
# Tables that unwind the stack, for debuggers, are a fiftieth of a wheel. No C++ exception passes.
WITHOUT_TABLES = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-ident"]
# Copies call the library's memcpy: for size, GCC would choose an instruction that begins slowly.
SMALL = ["-Os", "-fno-builtin-memcpy"]
if SANITIZER_FLAGS or "-g0" not in C_FLAGS:
    WITHOUT_TABLES = []
# Modules hold no loops over elements: padding before labels is a fortieth of them, for nothing.
UNPADDED = ["-falign-jumps=1", "-falign-loops=1", "-falign-labels=1"]

# Flags that CFLAGS may not set: instruction sets, and rules of arithmetic. (A module linked with
# -ffast-math makes the whole process flush denormals.)
UNWANTED_FLAG = re.compile(
    r"-m(arch=|cpu=|sse|ssse|avx|fma|f16c|bmi|lzcnt|popcnt|movbe|adx|amx|gfni|vaes|vpclmul|3dnow)"
    r"|-Ofast|-f(fast-math|unsafe-math|finite-math|associative-math|reciprocal-math)"
)

# The longest compilations begin first, so that none of them runs alone at the end.
LONGEST = re.compile("depthwise_pixels|depthwise_channels")

CYTHON_DIRECTIVES = {
    "language_level": "3",
    # `binding` costs 5 KB in each module: only modules whose functions users call switch it on.
    # Cython's pickling costs 1 to 8 KB a class: layers pickle themselves.
    "binding": False,
    "auto_pickle": False,
    # Every module protects the state that its threads share: docs/architecture/threads.md.
    "freethreading_compatible": True,
}


class BuildExt(build_ext):
    """Compile kernels and modules in one pool and link; files that are up to date stay."""

    def build_extensions(self) -> None:
        """Build all modules."""
        # Imported here: most calls of this file ask for metadata, which needs no Cython. setuptools
        # provides distutils.
        from distutils.ccompiler import gen_preprocess_options

        from asm.modules import translate

        if self.parallel is None:
            self.parallel = len(os.sched_getaffinity(0))
        workers = (os.cpu_count() or 1) if self.parallel is True else self.parallel
        self.leave_out_unwanted_flags()
        directory = Path(self.build_temp).resolve() / "asm"
        machine = self.plat_name.rpartition("-")[2]
        # plat_name names the system's machine; Python itself may have 32 bits.
        if sys.maxsize < 1 << 32:
            machine = {"aarch64": "armv7l", "x86_64": "i686"}.get(machine, machine)
        kernels = generate(directory, machine, encoded=self.encoded_levels(directory, machine))
        write(ROOT / "pplconv/_contracts.pxd", declarations_text())
        c_files = translate(self.extensions, CYTHON_DIRECTIVES, workers, force=self.force)

        compilations = []
        # All objects lie in one folder: no two sources have one name.
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
                # In this order similar kernels are neighbours: a wheel is a twentieth smaller.
                extension.extra_objects += map(str, kernel_objects)
            include = [str(directory), *extension.include_dirs, *self.compiler.include_dirs]
            flags = gen_preprocess_options(self.compiler.macros, include)
            compilations.append((c_file, target, [*flags, *extension.extra_compile_args]))
        self.precompiled = Precompiled(directory / "precompiled", machine)
        self.compile_all(compilations, workers)
        super().build_extensions()

    def encoded_levels(self, directory: Path, machine: str) -> list[str]:
        """List the levels whose instructions the assembler lacks; they are written as numbers.

        ``PPLCONV_ENCODE=1`` lists all levels.
        """
        texts = probes(machine)
        if os.environ.get("PPLCONV_ENCODE", "0") != "0":
            return list(texts)
        # Levels with the same probe are asked once.
        names = {text: level for level, text in texts.items()}
        known = {text: self.assembles(directory, level, text) for text, level in names.items()}
        found = [level for level, text in texts.items() if not known[text]]
        if found:
            self.announce(f"instructions as numbers: {', '.join(found)}", level=2)
        return found

    def assembles(self, directory: Path, name: str, text: str) -> bool:
        """Whether the assembler accepts a file. After a refusal the next build asks again."""
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
        sources = []
        kernels = []
        for source, target, flags in compilations:
            command = [*self.compiler.compiler_so, *flags]
            kept = Kept(target, target.with_suffix(".made-from"), [*command, "-c", str(source)])
            if self.force or not kept.is_current():
                sources.append(source)
                make = partial(self.compile_one, kept, source, command)
                stale.append((bool(LONGEST.search(source.name)), source.stat().st_size, make))
                if source.suffix == ".c" and source.name.startswith("pplconv_"):
                    kernels.append(command)
        stale.sort(key=lambda item: item[:2], reverse=True)
        self.progress = Progress(sources, workers)
        try:
            self.precompiled.make(kernels, workers)
            in_parallel([make for *_, make in stale], workers)
        finally:
            self.precompiled.remove()

    def compile_one(self, kept: Kept, source: Path, command: list[str]) -> None:
        """Compile a file, and record the headers that it includes."""
        headers = kept.target.with_suffix(".d")
        options = ["-MMD", "-MF", str(headers)] if source.suffix == ".c" else []
        more = self.precompiled.options(command) if options else []
        line = [*command, *more, "-c", str(source), *options, "-o", str(kept.target)]
        kept.make(
            lambda: self.call(line),
            lambda: self.precompiled.without(dependencies(headers)) if options else [source],
        )
        self.progress.finished(source)

    def call(self, command: list[str]) -> None:
        """Run a compiler. Its command is shown if it fails, or by ``setup.py --verbose``."""
        if self.verbose > 1:
            print(shlex.join(command), flush=True)
        if subprocess.run(command, check=False).returncode:
            raise CompileError(f"this command failed: {shlex.join(command)}")

    def build_extension(self, ext: Extension) -> None:
        """Link a module unless it is up to date."""
        target = Path(self.get_ext_fullpath(ext.name))
        record = Path(self.build_temp) / "modules" / f"{ext.name}.linked"
        command = [*self.compiler.linker_so, *ext.extra_link_args, *ext.extra_objects]
        kept = Kept(target, record, command)
        if self.force or not kept.is_current():
            # Linked whatever the times of the files say.
            target.unlink(missing_ok=True)
            link = partial(super().build_extension, ext)
            kept.make(link, lambda: [Path(name) for name in ext.extra_objects])

    def leave_out_unwanted_flags(self) -> None:
        """Remove unwanted flags from the commands that compile and link, and say so."""
        for name in ("compiler_so", "linker_so"):
            command = getattr(self.compiler, name)
            unwanted = [flag for flag in command if UNWANTED_FLAG.match(flag)]
            if unwanted:
                self.warn(f"{name}: {' '.join(unwanted)} left out; kernels are chosen at run time")
                setattr(self.compiler, name, [flag for flag in command if flag not in unwanted])


# Symbol names of modules are a twentieth of a wheel. They stay in _kernels, which tests
# disassemble, in builds for debugging, and where the linker has no such flag.
WITHOUT_NAMES = (
    ["-Wl,-s", "-Wl,--build-id=none"] if sys.platform == "linux" and "-g0" in C_FLAGS else []
)
if SANITIZER_FLAGS:
    WITHOUT_NAMES = []
# Functions that have sections of their own (`asm.build.BY_FUNCTION`) are sorted by their names.
BY_NAME = ["-Wl,--sort-section=name"] if sys.platform == "linux" else []


def extension(name: str, *, openmp: bool = False, small: bool = False) -> Extension:
    """Describe one Cython module of the package.

    `small` compiles it for size, a third smaller: for modules whose calls take no longer then.
    """
    return Extension(
        f"pplconv.{name}",
        [f"pplconv/{name.replace('.', '/')}.pyx"],
        include_dirs=["pplconv", "pplconv/schedules"],
        extra_compile_args=[
            *C_FLAGS,
            *WITHOUT_TABLES,
            *(SMALL if small else UNPADDED),
            *SANITIZER_FLAGS,
            *(["-fopenmp"] if openmp else []),
        ],
        extra_link_args=[
            *(["-fopenmp"] if openmp else []),
            *(WITHOUT_NAMES if name != "_kernels" else BY_NAME),
        ],
    )


setup(
    ext_modules=[
        extension("_kernels"),
        extension("schedules.base", small=True),
        extension("schedules.team", openmp=True),
        extension("schedules.team_loop"),
        extension("schedules.execute"),
        extension("schedules.gemm_loops", small=True),
        extension("schedules.gemm_checks", small=True),
        extension("schedules.direct_loops", small=True),
        extension("schedules.plane_loops", small=True),
        extension("schedules.sparse_loops", small=True),
        extension("schedules.sparse_checks", small=True),
        extension("schedules.work"),
        extension("schedules.elementwise_loops", small=True),
        extension("schedules.copy_loops", small=True),
        extension("schedules.index_loops", small=True),
        extension("schedules.finish", small=True),
        extension("schedules.packing", small=True),
        extension("schedules.attention_loops", small=True),
        extension("schedules.row_loops", small=True),
        extension("schedules.window_loops", small=True),
        extension("schedules.box_loops", small=True),
        extension("schedules.zero_point_loops", small=True),
        extension("ops.quantized.rescaling", small=True),
        extension("schedules.band_loops", small=True),
        extension("imaging.banded", small=True),
        extension("imaging.kept_filters", small=True),
        extension("ops.program", small=True),
        extension("ops.aligned_regions", small=True),
        extension("schedules.winograd_loops", small=True),
        extension("schedules.depthwise_loops", small=True),
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
    long_description=description(),
    long_description_content_type="text/markdown",
)
