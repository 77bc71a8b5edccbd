"""What a reader must know of the machine: CPU, cores, caches, system, in a few lines."""

from __future__ import annotations

import os
import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def cpu_model(cpuinfo: Path = CPUINFO) -> str:
    """Name the CPU, with family and model numbers where the system tells them."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    fields: dict[str, str] = {}
    for line in lines:
        key, colon, value = line.partition(":")
        if colon:
            fields.setdefault(key.strip(), value.strip())
    name = fields.get("model name") or platform.processor() or platform.machine()
    if "cpu family" in fields and "model" in fields:
        name += f" (family {fields['cpu family']}, model {fields['model']})"
    return name


def caches(directory: Path = CACHES) -> list[str]:
    """List the caches that the first core sees: ``L1d 48 KiB``, ``L2 2 MiB (shared by 2)``, …."""
    found = []
    for index in sorted(directory.glob("index*")):
        try:
            level = (index / "level").read_text().strip()
            kind = (index / "type").read_text().strip()
            size = (index / "size").read_text().strip()
            sharers = _count((index / "shared_cpu_list").read_text().strip())
        except (OSError, ValueError):
            continue
        suffix = {"Data": "d", "Instruction": "i"}.get(kind, "")
        shared = f" (shared by {sharers})" if sharers > 1 else ""
        found.append(f"L{level}{suffix} {_human(size)}{shared}")
    return found


def cache_bytes(directory: Path = CACHES) -> dict[int, int]:
    """Sizes of the caches that hold data, by level (bytes); what the system does not tell lacks."""
    found: dict[int, int] = {}
    for index in directory.glob("index*"):
        try:
            level = int((index / "level").read_text())
            kind = (index / "type").read_text().strip()
            size = (index / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        if kind != "Instruction" and size.endswith("K") and size[:-1].isdigit():
            found[level] = 1024 * int(size[:-1])
    return found


def _count(cpus: str) -> int:
    """Count the CPUs of a list such as ``0-3,8``."""
    total = 0
    for part in cpus.split(","):
        first, dash, last = part.partition("-")
        total += int(last) - int(first) + 1 if dash else 1
    return total


def _human(size: str) -> str:
    """Turn ``2048K`` into ``2 MiB``."""
    if size.endswith("K") and size[:-1].isdigit():
        kib = int(size[:-1])
        return f"{kib // 1024} MiB" if kib % 1024 == 0 else f"{kib} KiB"
    return size


def blas() -> str:
    """Name the BLAS libraries that are loaded, each with the kernels that it has chosen."""
    import threadpoolctl

    pools = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
    named = [
        f"{pool['internal_api']} {pool['version']}, kernels for "
        f"{pool.get('architecture') or 'an unknown CPU'}"
        for pool in pools
    ]
    return "; ".join(named) or "unknown BLAS"


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def describe() -> dict[str, str]:
    """Describe machine and system: printable label to text."""
    return {
        "CPU": cpu_model(),
        "cores": f"{usable_cores()} usable of {os.cpu_count()}",
        "caches a core": ", ".join(caches()) or "unknown",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "Python": platform.python_version(),
    }
