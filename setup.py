"""Build of the extension modules; everything declarative is in ``pyproject.toml``.

The kernels of ``asm/`` are generated, compiled one by one, each with the flags of its own
instruction set, and linked into ``pplconv._kernels``. No other file gets such a flag, and none
is taken from ``CFLAGS``: where a wheel runs must not depend on where it was built.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from asm.build import PORTABLE, Source, generate  # noqa: E402  (the build runs from anywhere)

C_FLAGS = ["-O2", "-fvisibility=hidden", "-ffp-contract=off"]
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


class BuildExt(build_ext):
    """Generate and compile the kernels before the modules that call them."""

    def build_extensions(self) -> None:
        """Build everything; objects that are up to date are kept."""
        self.leave_out_unwanted_flags()
        directory = Path(self.build_temp).resolve() / "asm"
        machine = self.plat_name.rpartition("-")[2]
        # The name is the system's, on which a Python of 32 bits may run.
        if sys.maxsize < 1 << 32:
            machine = {"aarch64": "armv7l", "x86_64": "i686"}.get(machine, machine)
        sources = generate(directory, machine)
        for extension in self.extensions:
            extension.include_dirs.append(str(directory))
            extension.depends.append(str(directory / "pplconv_kernels.h"))
            if extension.name == "pplconv._kernels":
                objects = self.compile_kernels(sources, directory)
                extension.extra_objects += objects
                extension.depends += objects
        super().build_extensions()

    def leave_out_unwanted_flags(self) -> None:
        """Take them out of the commands that compile and link, and say so."""
        for name in ("compiler_so", "linker_so"):
            command = getattr(self.compiler, name)
            unwanted = [flag for flag in command if UNWANTED_FLAG.match(flag)]
            if unwanted:
                self.warn(f"{name}: {' '.join(unwanted)} left out; kernels are chosen at run time")
                setattr(self.compiler, name, [flag for flag in command if flag not in unwanted])

    def compile_kernels(self, sources: list[Source], directory: Path) -> list[str]:
        """Compile each kernel with its own flags, unless its object is there already."""
        objects = directory / "objects"
        objects.mkdir(exist_ok=True)
        shared = [*sorted(directory.glob("*.h")), *sorted(PORTABLE.iterdir())]
        shared_text = b"".join(path.read_bytes() for path in shared if path.is_file())

        def compile_one(source: Source) -> str:
            # Objects lie beside each other: the names of sources are distinct by design.
            target = objects / f"{source.path.stem}.o"
            flags = [*KERNEL_FLAGS, *source.flags, *SANITIZER_FLAGS]
            command = [*self.compiler.compiler_so, *flags, "-c", str(source.path)]
            made_from = source.path.read_bytes() + shared_text + "\0".join(command).encode()
            key = hashlib.sha256(made_from).hexdigest()
            stamp = target.with_suffix(".sha256")
            if not (target.exists() and stamp.exists() and stamp.read_text() == key):
                stamp.unlink(missing_ok=True)
                self.spawn([*command, "-o", str(target)])
                stamp.write_text(key)
            return str(target)

        self.announce(f"compiling {len(sources)} kernel files", level=2)
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            return list(pool.map(compile_one, sources))


def extension(name: str, *, openmp: bool = False) -> Extension:
    """Describe one Cython module of the package."""
    return Extension(
        f"pplconv.{name}",
        [f"pplconv/{name.replace('.', '/')}.pyx"],
        include_dirs=["pplconv", "pplconv/schedules"],
        extra_compile_args=[*C_FLAGS, *SANITIZER_FLAGS, *(["-fopenmp"] if openmp else [])],
        extra_link_args=["-fopenmp"] if openmp else [],
    )


setup(
    ext_modules=cythonize(
        [
            extension("_kernels"),
            extension("schedules.base", openmp=True),
            extension("schedules.team", openmp=True),
            extension("schedules.gemm"),
            extension("schedules.direct"),
            extension("schedules.winograd"),
            extension("schedules.depthwise"),
            extension("schedules.relayout", openmp=True),
            extension("_binding"),
            extension("_workspace"),
            extension("_arrays"),
            extension("instances._flat"),
            extension("instances._mailbox"),
            extension("_trial"),
            extension("_prepared"),
            extension("_conv"),
            extension("_blocked"),
        ],
        build_dir="build/cython",
        compiler_directives={
            "language_level": "3",
            "binding": True,
            # Every module takes care of what its threads share: docs/architecture.md, "Threads".
            "freethreading_compatible": True,
        },
    ),
    cmdclass={"build_ext": BuildExt},
)
