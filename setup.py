"""Build of the extension modules; everything declarative is in ``pyproject.toml``.

The kernels of ``asm/`` are generated, compiled one by one, each with the flags of its own
instruction set, and linked into ``pplconv._kernels``. No other file gets such a flag.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(Path(__file__).resolve().parent))

from asm.build import generate  # noqa: E402  (the build runs from anywhere)

C_FLAGS = ["-O2", "-fvisibility=hidden", "-ffp-contract=off"]


class BuildExt(build_ext):
    """Generate and compile the kernels before the modules that call them."""

    def build_extensions(self) -> None:
        directory = Path(self.build_temp).resolve() / "asm"
        sources = generate(directory)
        for extension in self.extensions:
            extension.include_dirs.append(str(directory))
            if extension.name == "pplconv._kernels":
                extension.extra_objects += self.compile_kernels(sources, directory)
        super().build_extensions()

    def compile_kernels(self, sources, directory: Path) -> list[str]:
        if ".s" not in self.compiler.src_extensions:
            self.compiler.src_extensions.append(".s")

        def compile_one(source) -> list[str]:
            # Objects lie beside each other: the names of sources are distinct by design.
            return self.compiler.compile(
                [os.path.relpath(source.path)],
                output_dir=os.path.relpath(directory / "objects"),
                extra_postargs=list(source.flags),
            )

        self.announce(f"compiling {len(sources)} kernel files", level=2)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return [name for names in pool.map(compile_one, sources) for name in names]


def extension(name: str, *, openmp: bool = False) -> Extension:
    """Describe one Cython module of the package."""
    return Extension(
        f"pplconv.{name}",
        [f"pplconv/{name}.pyx"],
        extra_compile_args=[*C_FLAGS, *(["-fopenmp"] if openmp else [])],
        extra_link_args=["-fopenmp"] if openmp else [],
    )


setup(
    ext_modules=cythonize(
        [
            extension("_kernels"),
            extension("_schedule", openmp=True),
            extension("_workspace"),
            extension("_conv"),
        ],
        build_dir="build/cython",
        compiler_directives={"language_level": "3", "binding": True, "embedsignature": True},
    ),
    cmdclass={"build_ext": BuildExt},
)
