"""Main ID registers (MIDR): maker and part number of an Arm core.

Each core has its own, and machines may mix kinds of cores, so it is read for each CPU.

Source: Arm Architecture Reference Manual, MIDR_EL1; Linux documentation, arch/arm64/cpu-feature-
registers (reading the register, which the kernel answers for) and the sysfs ABI
(``regs/identification/midr_el1``).
"""

from __future__ import annotations

from collections.abc import Callable

from .kernel_files import read_text, to_int, under

Midr = Callable[[], int]

_CPU_DIR = "/sys/devices/system/cpu"


def implementer(midr: int) -> int:
    """Code of the maker."""
    return midr >> 24 & 0xFF


def part(midr: int) -> int:
    """The maker's number of the core."""
    return midr >> 4 & 0xFFF


def make(implementer: int, part: int, variant: int = 0, revision: int = 0) -> int:
    """Register of a core of architecture 8 or later."""
    low = (variant & 0xF) << 20 | 0xF << 16 | (part & 0xFFF) << 4 | revision & 0xF
    return (implementer & 0xFF) << 24 | low


def read(root: str, cpus: tuple[int, ...], register: Midr) -> dict[int, int]:
    """Registers by CPU.

    Parameters
    ----------
    root : str
        Directory that holds ``sys`` and ``proc``.
    cpus : tuple of int
        CPU ids that are online.
    register : callable
        Returns the register of the calling core, 0 if it cannot be read.

    Returns
    -------
    dict of int to int
        It leaves out CPUs whose register is unknown.
    """
    found = _sysfs(root, cpus) or _cpuinfo(root, cpus)
    own = register()
    # Files that do not list the calling core describe the host of an emulated machine.
    return found if own in (0, *found.values()) else dict.fromkeys(cpus, own)


def _sysfs(root: str, cpus: tuple[int, ...]) -> dict[int, int]:
    name = "regs/identification/midr_el1"
    values = {cpu: _hex(read_text(under(root, f"{_CPU_DIR}/cpu{cpu}/{name}"))) for cpu in cpus}
    return {cpu: value for cpu, value in values.items() if value}


def _cpuinfo(root: str, cpus: tuple[int, ...]) -> dict[int, int]:
    """From the fields of /proc/cpuinfo: kernels before 4.8, and phones that hide the files."""
    fields: dict[int, dict[str, int]] = {}
    entry: dict[str, int] = {}
    for line in read_text(under(root, "/proc/cpuinfo")).splitlines():
        key, _, text = (part.strip() for part in line.partition(":"))
        if key == "processor":
            at = to_int(text)
            entry = {} if at is None else fields.setdefault(at, {})
        elif key.startswith("CPU "):
            entry[key[4:]] = _hex(text) if text.startswith("0x") else to_int(text) or 0
    return {
        cpu: make(
            entry["implementer"], entry["part"], entry.get("variant", 0), entry.get("revision", 0)
        )
        for cpu, entry in fields.items()
        if cpu in cpus and entry.get("implementer") and "part" in entry
    }


def _hex(text: str) -> int:
    try:
        value = int(text, 16)
    except ValueError:
        return 0
    return value if 0 < value < 1 << 32 else 0
