"""The machines that are emulated, and where all that is made for each of them lies."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Target:
    """One of them.

    Parameters
    ----------
    machine : str
        As ``platform.machine()`` names it.
    folder : str
        Name below ``build`` of all that is made for it.
    debian : str
        Debian's name of the architecture.
    triple : str
        GNU's name, with which tools and folders of libraries begin.
    qemu : str
        The emulator.
    cpus : tuple of str
        CPUs that the suite runs on, as QEMU names them; the first is the one that is emulated
        where nothing else is asked for.
    from_debian : tuple of str
        Debian's packages of Python modules for which the package index has no wheels.
    not_from_index : tuple of str
        Requirements that need compiling and for which it has none, those of Debian among them.
    release : str
        Debian's release whose Python it has; that of the host if empty.
    version : str
        Of that Python; the release's own if empty.
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
        """The same machine with a Python of another of Debian's releases."""
        folder = "-".join(filter(None, (self.folder, release, version)))
        return replace(self, folder=folder, release=release, version=version)

    @property
    def elsewhere(self) -> Target:
        """The same in another folder, of which the bytes of a wheel must not tell."""
        return replace(self, folder=f"{self.folder}-again")

    @property
    def is_host(self) -> bool:
        """Whether the host is such a machine: its own tools are those of the target."""
        return self.machine == platform.machine()

    @property
    def default_cpu(self) -> str:
        """The CPU that is emulated where nothing else is asked for."""
        return self.cpus[0]

    @property
    def prefix(self) -> str:
        """What the names of the cross tools begin with."""
        return f"{self.triple}-"

    @property
    def build(self) -> Path:
        """The folder of everything."""
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
        """What the emulated Python has compiled."""
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
        """The cross tools under the names that native ones have."""
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
    # No more than the package itself needs: rooms of tests that need others are left out.
    ("python3-numpy", "python3-psutil"),
    ("dask", "matplotlib", "mypy", "numpy", "onnx", "pillow", "psutil", "scikit-image", "scipy"),
)
# Here another release's Python is emulated, because it needs a newer C library than the host has.
X86_64 = Target("x86_64", "x86", "amd64", "x86_64-linux-gnu", "qemu-x86_64-static", ("max",))
TARGETS = {target.machine: target for target in (AARCH64, ARMV7L)}
