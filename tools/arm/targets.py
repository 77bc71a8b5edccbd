"""The emulated machines, and the folders of each."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Target:
    """One emulated machine.

    Parameters
    ----------
    machine : str
        As ``platform.machine()`` names it.
    folder : str
        Its folder below ``build``.
    debian : str
        Debian's name of the architecture.
    triple : str
        GNU's name, the prefix of tools and library folders.
    qemu : str
        The emulator.
    cpus : tuple of str
        CPUs for the suite, by QEMU's names; the first is the default.
    from_debian : tuple of str
        Debian packages of Python modules without wheels in the package index.
    not_from_index : tuple of str
        Requirements without wheels in the package index, those of Debian included.
    release : str
        Debian release of its Python; the host's if empty.
    version : str
        Version of its Python; the release's default if empty.
    """

    machine: str
    folder: str
    debian: str
    triple: str
    qemu: str
    cpus: tuple[str, ...]
    from_debian: tuple[str, ...] = ()
    not_from_index: tuple[str, ...] = ()
    release: str = ""
    version: str = ""

    def of(self, release: str, version: str = "") -> Target:
        """The same machine with the Python of another Debian release."""
        folder = "-".join(filter(None, (self.folder, release, version)))
        return replace(self, folder=folder, release=release, version=version)

    @property
    def elsewhere(self) -> Target:
        """The same machine in another folder: the bytes of a wheel must not depend on it."""
        return replace(self, folder=f"{self.folder}-again")

    @property
    def is_host(self) -> bool:
        """Whether the host is such a machine, so that its own tools serve."""
        return self.machine == platform.machine()

    @property
    def default_cpu(self) -> str:
        """The CPU that is emulated by default."""
        return self.cpus[0]

    @property
    def prefix(self) -> str:
        """Prefix of the cross tools' names."""
        return f"{self.triple}-"

    @property
    def build(self) -> Path:
        """The folder of all its files."""
        return ROOT / "build" / self.folder

    @property
    def sysroot(self) -> Path:
        """Debian's Python and its libraries."""
        return self.build / "sysroot"

    @property
    def build_packages(self) -> Path:
        """Third-party packages of the build."""
        return self.build / "build-packages"

    @property
    def test_packages(self) -> Path:
        """Third-party packages of the tests and the demo."""
        return self.build / "test-packages"

    @property
    def package(self) -> Path:
        """The package itself, unpacked."""
        return self.build / "package"

    @property
    def bytecode(self) -> Path:
        """Bytecode of the emulated Python."""
        return self.build / "bytecode"

    @property
    def dist(self) -> Path:
        """The wheel."""
        return self.build / "dist"

    @property
    def python(self) -> Path:
        """The emulated Python."""
        return self.build / "python"

    @property
    def toolchain(self) -> Path:
        """The cross tools under native names."""
        return self.build / "toolchain"


AARCH64 = Target(
    "aarch64",
    "arm",
    "arm64",
    "aarch64-linux-gnu",
    "qemu-aarch64-static",
    # SVE with vectors of two lengths and no SVE; arithmetic in half precision and none. Plain
    # `max` has SME, for which OpenBLAS has a kernel that makes NumPy warn.
    ("max,sme=off", "max,sme=off,sve=off", "neoverse-n1", "cortex-a72", "a64fx"),
)
ARMV7L = Target(
    "armv7l",
    "arm32",
    "armhf",
    "arm-linux-gnueabihf",
    "qemu-arm-static",
    # Arithmetic in half precision and none; in-order and not; and NEON without fused products.
    ("max", "cortex-a7", "cortex-a15", "cortex-a9"),
    # Only the package's own requirements: rooms of tests that need others are left out.
    ("python3-numpy", "python3-psutil"),
    ("dask", "matplotlib", "mypy", "numpy", "onnx", "pillow", "psutil", "scikit-image", "scipy"),
)
# Here another release's Python is emulated, because it needs a newer C library than the host has.
X86_64 = Target("x86_64", "x86", "amd64", "x86_64-linux-gnu", "qemu-x86_64-static", ("max",))
TARGETS = {target.machine: target for target in (AARCH64, ARMV7L)}
