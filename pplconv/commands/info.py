"""What pplconv found and what it would use: `show_config` and `config`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from .. import wisdom
from ..architecture import INSTRUCTION_SETS, canonical
from ..config import current as current_settings
from ..machine import Machine, core_name, x86_core
from ..machine import current as current_machine
from ..runtime import explain_default_threads, explain_default_tolerance, openmp_runtimes

_WIDTH = 14


def config() -> dict[str, Any]:
    """Describe versions, CPU, caches, cores, threads, wisdom and kernels.

    Returns
    -------
    dict
        Of strings, numbers, lists and dicts only, so that it goes into a JSON report.  Sizes are
        in bytes; ``threads["default"]`` is the team where a call names none, and ``threads["why"]``
        the reason; ``tolerance`` says the same of the accuracy budget, ``wisdom`` describes the
        file of measured plans.  ``cpu["core"]`` is the row of an x86 core in pplconv's
        table, None where there is none; its rates are 0 where they are not known.

    Raises
    ------
    ValueError
        If a ``PPLCONV_*`` environment variable is malformed.
    """
    import numpy

    from .. import _kernels, _version

    settings = current_settings()
    machine = current_machine()
    usable = machine.usable_isas(settings.max_isa)
    kernels = _count(_kernels.rows())
    # The choice for float32: kernels for half precision alone serve nothing else.
    f32 = {row["isa"] for row in kernels if row["dtype"] == "f32"}
    with_kernels = [isa for isa in usable if isa in f32]
    threads, why = explain_default_threads(settings, machine)
    tolerance, said = explain_default_tolerance(settings)
    return {
        "pplconv": _version.__version__,
        "python": sys.version.split()[0],
        "numpy": numpy.__version__,
        "platform": sys.platform,
        "cpu": {
            "name": machine.cpu_name,
            "vendor": machine.vendor,
            "family": machine.family,
            "model": machine.model,
            "arch": machine.arch,
            "core": _core(machine),
            "kinds": [
                {"name": core_name(midr), "midr": midr, "cpus": list(cpus)}
                for midr, cpus in machine.core_kinds
            ],
        },
        "isa": {
            "chosen": with_kernels[-1] if with_kernels else None,
            "usable": list(usable),
            "available": list(machine.isas),
            "cap": settings.max_isa,
            "fma_per_cycle": dict(machine.fma_per_cycle),
            "features": list(machine.features),
            "denied": list(machine.denied),
        },
        "caches": {
            "l1d": {"bytes": machine.l1d_bytes, "cpus": machine.l1d_cpus},
            "l2": {"bytes": machine.l2_bytes, "cpus": machine.l2_cpus},
            "l3": {"bytes": machine.l3_bytes, "cpus": machine.l3_cpus},
            "line_bytes": machine.line_bytes,
        },
        "cores": {
            "sockets": len(machine.packages),
            "physical": len(machine.cores),
            "efficiency": _cores_among(machine.cores, machine.efficiency_cores),
            "logical": sum(map(len, machine.cores)),
            "usable": len(machine.usable_cores()),
        },
        "affinity": list(machine.affinity),
        "quota": machine.quota,
        "numa_nodes": [
            {
                "id": node,
                "cpus": list(cpus),
                "cores": _cores_among(machine.cores, cpus),
                "memory_bytes": memory,
            }
            for node, cpus, memory in zip(
                machine.node_ids, machine.numa_nodes, machine.node_memory, strict=True
            )
        ],
        "memory_bytes": machine.memory_bytes,
        "threads": {"default": threads, "why": why},
        "tolerance": {"default": tolerance, "why": said},
        "wisdom": wisdom.describe(),
        "openmp": openmp_runtimes(),
        "kernels": kernels,
    }


def show_config(file: TextIO | None = None, *, kernels: bool = False) -> None:
    """Print this machine's CPU, and how pplconv uses it.

    Parameters
    ----------
    file : file object, optional
        Where to print; standard output by default.
    kernels : bool, optional
        Whether to list all kernels, several hundred lines.

    Raises
    ------
    ValueError
        If a ``PPLCONV_*`` environment variable is malformed.
    """
    print(_render(config(), kernels), file=file)


def _core(machine: Machine) -> dict[str, Any] | None:
    found = x86_core(machine)
    if found is None:
        return None
    return {"text": str(found), "known": found.exact, "rates": found.core._asdict()}


def _cores_among(cores: Iterable[Iterable[int]], cpus: Iterable[int]) -> int:
    """Cores with a CPU among `cpus`."""
    wanted = set(cpus)
    return sum(not wanted.isdisjoint(core) for core in cores)


def _count(rows: Iterable[Mapping[str, object]]) -> list[dict[str, Any]]:
    counts = Counter((str(row["op"]), str(row["dtype"]), str(row["isa"])) for row in rows)

    def order(key: tuple[str, str, str]) -> tuple[str, str, int]:
        op, dtype, isa = key
        return op, dtype, INSTRUCTION_SETS.index(isa)

    return [
        {"op": op, "dtype": dtype, "isa": isa, "count": counts[op, dtype, isa]}
        for op, dtype, isa in sorted(counts, key=order)
    ]


def _render(found: dict[str, Any], kernels: bool) -> str:
    cpu, isa, caches, cores = found["cpu"], found["isa"], found["caches"], found["cores"]
    lines = [
        _line("pplconv", found["pplconv"]),
        _line("Python", f"{found['python']}, NumPy {found['numpy']}, {found['platform']}"),
        _line("CPU", cpu["name"] or "(no name)"),
        _line("", _model_text(cpu)),
        *([_line("", cpu["core"]["text"])] if cpu["core"] else []),
        *(_line("", _kind_text(kind)) for kind in cpu["kinds"]),
        _line("ISA", _isa_text(isa)),
        _line("", "FMA/cycle: " + _pairs(isa["fma_per_cycle"])),
        *([_line("", "features: " + " ".join(isa["features"]))] if isa["features"] else []),
        *([_line("", "not on every core: " + " ".join(isa["denied"]))] if isa["denied"] else []),
        _line("caches", f"{_cache('L1d', caches['l1d'])}, {_cache('L2', caches['l2'])}"),
        _line("", f"{_cache('L3', caches['l3'])}, line {caches['line_bytes']} bytes"),
        _line("cores", _cores_text(cores)),
        _line(
            "affinity",
            f"{_plural(len(found['affinity']), 'CPU')}: {_id_list(found['affinity'])}"
            f" ({_plural(cores['usable'], 'core')})",
        ),
        _line("CPU quota", "none" if found["quota"] is None else f"{found['quota']:g} CPUs"),
        *_block("NUMA nodes", [_node_text(node) for node in found["numa_nodes"]], "none"),
        _line("memory", _size(found["memory_bytes"]) if found["memory_bytes"] else "unknown"),
        _line("threads", f"{found['threads']['default']} ({found['threads']['why']})"),
        _line("tolerance", f"{found['tolerance']['default']:g} ({found['tolerance']['why']})"),
        _line("wisdom", _wisdom_text(found["wisdom"])),
    ]
    lines += _block("OpenMP", [_runtime(entry) for entry in found["openmp"]], "none loaded")
    listed = _kernel_table if kernels else _kernel_count
    lines += _block("kernels", listed(found["kernels"]), "none")
    return "\n".join(lines)


def _line(label: str, text: str) -> str:
    return f"{label:<{_WIDTH}}{text}"


def _block(label: str, texts: list[str], empty: str) -> list[str]:
    texts = texts or [empty]
    return [_line(label if i == 0 else "", text) for i, text in enumerate(texts)]


def _model_text(cpu: dict[str, Any]) -> str:
    arm = canonical(cpu["arch"]) in ("aarch64", "armv7l")
    family, model = ("implementer", "part") if arm else ("family", "model")
    return f"{cpu['vendor']}, {family} {cpu['family']:#x}, {model} {cpu['model']:#x}, {cpu['arch']}"


def _kind_text(kind: dict[str, Any]) -> str:
    where = f"{_plural(len(kind['cpus']), 'CPU')}: {_id_list(kind['cpus'])}"
    return f"{kind['name']} (MIDR {kind['midr']:#010x}), {where}"


def _isa_text(isa: dict[str, Any]) -> str:
    cap = f"capped at {isa['cap']}" if isa["cap"] else "no cap"
    best, usable = isa["chosen"] or "none", isa["usable"]
    # Levels above it are for narrower types.
    best = f"{usable[-1]}, float32 by {best}" if usable and usable[-1] != best else best
    return f"{best} (available: {', '.join(isa['available'])}; {cap})"


def _pairs(values: dict[str, int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _cache(label: str, cache: dict[str, int]) -> str:
    if not cache["bytes"]:
        return f"{label} none"
    sharing = f" shared by {cache['cpus']} CPUs" if cache["cpus"] > 1 else ""
    return f"{label} {_size(cache['bytes'])}{sharing}"


def _cores_text(cores: dict[str, int]) -> str:
    kinds = f" ({cores['efficiency']} efficiency cores)" if cores["efficiency"] else ""
    sockets = _plural(cores["sockets"], "socket")
    return f"{sockets}, {cores['physical']} physical{kinds}, {cores['logical']} logical"


def _node_text(node: dict[str, Any]) -> str:
    memory = _size(node["memory_bytes"]) if node["memory_bytes"] else "memory unknown"
    return (
        f"{node['id']}: CPUs {_id_list(node['cpus'])}, {_plural(node['cores'], 'core')}, {memory}"
    )


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _wisdom_text(kept: dict[str, Any]) -> str:
    if kept["path"] is None:
        return "in memory only"
    count = kept["entries"]
    text = f"{count} {'entry' if count == 1 else 'entries'} in {kept['path']}"
    return f"{text} (the file {kept['trouble']})" if kept["trouble"] else text


def _runtime(entry: dict[str, Any]) -> str:
    version = f" {entry['version']}" if entry["version"] else ""
    return f"{entry['library']}{version}, {entry['threads']} threads by default ({entry['path']})"


def _kernel_table(kernels: list[dict[str, Any]]) -> list[str]:
    widths = [max((len(row[key]) for row in kernels), default=0) for key in ("op", "dtype", "isa")]
    return [
        f"{row['op']:<{widths[0]}}  {row['dtype']:<{widths[1]}}  {row['isa']:<{widths[2]}}"
        f"  {row['count']:>4}"
        for row in kernels
    ]


def _kernel_count(kernels: list[dict[str, Any]]) -> list[str]:
    if not kernels:
        return []
    count = _plural(sum(row["count"] for row in kernels), "kernel")
    operations = _plural(len({row["op"] for row in kernels}), "operation")
    return [f"{count} of {operations}; python -m pplconv info --kernels lists them"]


def _size(count: int) -> str:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.4g} {unit}"
    return f"{count} bytes"


def _id_list(ids: list[int]) -> str:
    """Write ids as the kernel does: 0-3,8."""
    spans: list[list[int]] = []
    for number in ids:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)
