"""What holds speed back, a line for each thing that could: from facts alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ...architecture import canonical
from ...numerics import TYPES
from .facts import Facts

__all__ = ["CHECKS", "NOTE", "OK", "SLOW", "Finding", "examine"]

OK, NOTE, SLOW = "ok", "note", "slow"

# Limits of shares beyond which a finding says that speed is lost.
_STOLEN = 0.02
_GIVEN = 0.95
_STEADY = 0.85
_SCALING = 0.8
_THROTTLED = 0.01
_FULL_CLOCK = 0.95


@dataclass(frozen=True)
class Finding:
    """One line.

    Parameters
    ----------
    state : str
        ``"ok"``, ``"note"`` (may be meant so, or costs little) or ``"slow"``.
    what : str
        Subject of the finding.
    text : str
        Text of the finding.
    advice : str
        Remedy; "" if nothing is wrong.
    """

    state: str
    what: str
    text: str
    advice: str = ""


def examine(facts: Facts) -> list[Finding]:
    """Give a finding of each kind, in the order of `CHECKS`."""
    return [Finding(*found) for found in ((_state(check(facts), name)) for name, check in CHECKS)]


_Found = tuple[str, str, str]


def _state(found: _Found, name: str) -> tuple[str, str, str, str]:
    state, text, advice = found
    return state, name, text, advice


def _instructions(f: Facts) -> _Found:
    best, cap = (f.isas or ("none",))[-1], f.settings.max_isa
    f32 = [isa for isa in f.machine.isas if isa not in f.unbuilt]
    if cap is not None and f.machine.usable_isas(cap) != f.machine.isas:
        text = f"{best}: PPLCONV_MAX_ISA is {cap}, and the CPU has {f.machine.isas[-1]}"
        return SLOW, text, "unset PPLCONV_MAX_ISA"
    reasons = "; ".join(f"{name} is kept back: {why}" for name, why in f.withheld)
    known = canonical(f.machine.arch) in ("x86_64", "aarch64", "armv7l")
    if best == "portable":
        text = f"portable kernels only{f'; {reasons}' if reasons else ''}"
        if f.unbuilt:
            return SLOW, f"{text}; this build lacks {', '.join(f.unbuilt)}", _REBUILD
        if not known:
            return SLOW, f"{text}: there are no others for {f.machine.arch}", ""
        return SLOW, text, "use a newer CPU, or give the virtual machine the host's CPU model"
    if f.unbuilt:
        return NOTE, f"{f32[-1]}; this build lacks {', '.join(f.unbuilt)}", _REBUILD
    if reasons:
        return NOTE, f"{f.machine.isas[-1]}; {reasons}", _PERMIT
    if f.machine.denied:
        text = f"{f.machine.isas[-1]}; not on every core: {', '.join(f.machine.denied)}"
        return NOTE, text, "leave out the cores that lack it (taskset)"
    return OK, f"{f.machine.isas[-1]}, all that the CPU has", ""


_REBUILD = "install a wheel, or build with a newer compiler"
_PERMIT = "newer kernels, or another container or virtual machine, may grant it"


def _cores(f: Facts) -> _Found:
    usable, every = len(f.machine.usable_cores()), len(f.machine.cores)
    cpus = sum(map(len, f.machine.cores))
    text = f"{usable} of {every} cores"
    if len(f.machine.affinity) < cpus:
        text += f", {len(f.machine.affinity)} of {cpus} CPUs in the affinity mask"
    if usable < every:
        return NOTE, text, "if not meant so, widen the mask (taskset, cpuset, numactl, Slurm)"
    if f.bound:
        text += f"; OpenMP has bound the calling thread to {', '.join(map(str, f.bound))}"
        return NOTE, text, "unset OMP_PROC_BIND and GOMP_CPU_AFFINITY; teams use all cores anyway"
    small = sum(core[0] in f.machine.efficiency_cores for core in f.machine.cores)
    return OK, f"{text}, {small} of them efficiency cores" if small else text, ""


def _quota(f: Facts) -> _Found:
    quota, usable = f.machine.quota, len(f.machine.usable_cores())
    if quota is None:
        return OK, "none", ""
    text = f"{quota:g} CPUs' worth of time"
    stopped = f.times.throttled / f.times.periods if f.times.periods > 0 else 0.0
    if stopped > _THROTTLED:
        text += f", used up in {100 * stopped:.0f} % of its periods"
        return SLOW, text, "start fewer threads, or raise the quota"
    if quota < usable:
        return NOTE, f"{text}, on {usable} cores", "raise it (--cpus, limits.cpu) to use them"
    return OK, text, ""


def _team(f: Facts) -> _Found:
    usable, quota = max(len(f.machine.usable_cores()), 1), f.machine.quota
    count = f"{f.threads} thread{'' if f.threads == 1 else 's'}"
    asked = f.settings.num_threads or f.settings.omp_num_threads
    name = "PPLCONV_NUM_THREADS" if f.settings.num_threads else "OMP_NUM_THREADS"
    if f.threads > len(f.machine.affinity):
        return SLOW, f"{count} ({f.why}), on {len(f.machine.affinity)} CPUs", f"unset {name}"
    if f.threads > usable:
        text = f"{count} ({f.why}), on {usable} cores: two share the FMA units of one"
        return SLOW, text, f"unset {name}, or set it to {usable}"
    if quota is not None and f.threads > math.ceil(quota):
        text = f"{count} ({f.why}), on a quota of {quota:g} CPUs"
        return SLOW, text, f"unset {name}, or set it to {math.ceil(quota)}"
    paid = usable if quota is None else min(usable, math.ceil(quota))
    if asked is not None and f.threads < paid:
        return NOTE, f"{count} ({f.why}), on {paid} cores", f"if not meant so, unset {name}"
    return OK, f"{count} ({f.why})", ""


def _pools(f: Facts) -> _Found:
    usable = max(len(f.machine.usable_cores()), 1)
    paid = usable if f.machine.quota is None else min(usable, max(1, math.ceil(f.machine.quota)))
    names = [f"{pool.get('prefix') or '?'} {pool.get('num_threads')}" for pool in f.pools]
    text = f"{', '.join(names)} threads" if names else "none loaded"
    runtimes = {str(pool.get("filepath")) for pool in f.pools if pool.get("user_api") == "openmp"}
    large = [
        str(pool.get("prefix"))
        for pool in f.pools
        if pool.get("user_api") != "openmp" and int(pool.get("num_threads") or 0) > paid
    ]
    if len(runtimes) > 1:
        text += f"; {len(runtimes)} OpenMP runtimes, whose teams wait for the same cores"
        return NOTE, text, "use libraries with one runtime, or runtime.team(1) around one of them"
    if large:
        text += f", on {paid} cores"
        return NOTE, text, f"limit {', '.join(large)} (threadpoolctl, OPENBLAS_NUM_THREADS, ...)"
    return OK, text, ""


def _siblings(f: Facts) -> _Found:
    most = max(map(len, f.machine.usable_cores()), default=1)
    if most > 1:
        return OK, f"{most} hardware threads a core, one of which computes", ""
    every = max(map(len, f.machine.cores), default=1)
    if every > 1:
        text = "one hardware thread of each core is in the mask; the other may be somebody's"
        return NOTE, text, "ask for whole cores"
    return OK, "none that the system tells of", ""


def _neighbours(f: Facts) -> _Found:
    cpus = max(len(f.machine.affinity), 1)
    stolen = f.times.stolen / f.times.total if f.times.total > 0 else 0.0
    load = f.condition.load
    parts = [f"{100 * stolen:.1f} % of the time stolen"]
    if load is not None:
        parts.append(f"load {load:.1f} on {sum(map(len, f.machine.cores))} CPUs")
    if f.neighbours:
        parts.append(f"{len(f.neighbours)} CPUs have threads bound to them")
    text = ", ".join(parts)
    if stolen > _STOLEN:
        return SLOW, text, "other virtual machines have the host's CPUs: ask for dedicated ones"
    if load is not None and load > max(cpus, sum(map(len, f.machine.cores))):
        return SLOW, text, "other programs want all CPUs: stop them, or take fewer threads"
    if f.neighbours or (load is not None and load > 0.5 * cpus):
        return NOTE, text, "what runs beside takes cores; pinned pools take the free ones first"
    return OK, text, ""


def _clock(f: Facts) -> _Found:
    c = f.condition
    if not c.governors and c.clock_limit is None:
        return OK, "not told by this system", ""
    text = f"governor {', '.join(c.governors) or 'unknown'}"
    if c.clock_limit is not None and c.clock_limit < _FULL_CLOCK:
        text += f", limited to {100 * c.clock_limit:.0f} % of the highest clock"
        return SLOW, text, "raise scaling_max_freq (cpupower frequency-set -u)"
    if "powersave" in c.governors or "conservative" in c.governors:
        return NOTE, text, "if bursts are slow, cpupower frequency-set -g performance"
    return OK, text, ""


def _loop(f: Facts) -> _Found:
    loop = f.loop
    if loop is None:
        return OK, "not run", ""
    text = f"{loop.flops / 1e9:.0f} GFLOP/s a thread, steady to {100 * loop.steadiness:.0f} %"
    if loop.threads > 1:
        text += f"; {loop.threads} threads {loop.scaling * loop.threads:.2f} times as much"
    if loop.given < _GIVEN:
        text += f"; a CPU for {100 * loop.given:.0f} % of the time"
        advice = "others have this process's CPUs (see neighbours, quota)"
        if loop.threads > 1:
            # A team waits only for threads inside a task.
            text += ", for which its team waits when it stops inside a task"
            advice += ": instances of one thread each wait for nobody"
        return SLOW, text, advice
    if loop.threads > 1 and loop.scaling < _SCALING:
        return SLOW, text, "threads share cores, or wait for them: fewer threads may be as fast"
    if loop.steadiness < _STEADY:
        return NOTE, text, "the clock changes, or a sibling thread computes: time with repeats"
    return OK, text, ""


def _memory(f: Facts) -> _Found:
    m, c = f.machine, f.condition
    near = {m.node_of(cpu) for cpu in m.affinity} - {None}
    text = f"{len(m.numa_nodes)} NUMA node{'' if len(m.numa_nodes) == 1 else 's'}"
    pages = f"huge pages {c.huge_pages}" if c.huge_pages else ""
    if c.memory_nodes and near and not near <= set(c.memory_nodes):
        text += f", of which memory may come from {', '.join(map(str, c.memory_nodes))} only"
        return SLOW, text, "let CPUs and memory be of the same nodes (numactl, cpuset.mems)"
    if len(near) > 1:
        text += f", {len(near)} of them in use{f', {pages}' if pages else ''}"
        return NOTE, text, "an InstancePool(pin=True) keeps each instance on one node"
    if pages:
        text += f", {pages}"
    if c.huge_pages == "never":
        return NOTE, text, "allow them (madvise): packed weights ask for them"
    return OK, text, ""


def _wisdom(f: Facts) -> _Found:
    path, trouble = f.wisdom.get("path"), f.wisdom.get("trouble")
    if trouble:
        return SLOW, f"the file {path} {trouble}", "repair or remove it"
    where = f"in {path}" if path else "in memory only"
    others = int(f.wisdom.get("entries") or 0) - f.known
    if f.known:
        return OK, f"{f.known} measured plans for this CPU {where}", ""
    text = f"none for this CPU {where}"
    if others > 0:
        text += f" ({others} for others)"
    return NOTE, text, "python -m pplconv search MODEL measures plans once"


def _low_precision(f: Facts) -> _Found:
    if not f.gains and _OF_BFLOAT16.intersection(f.machine.isas):
        text = "this CPU's products of bfloat16 are not in use (see instructions)"
        return NOTE, text, 'precision="low" would use them'
    if not f.gains:
        return OK, 'this CPU has no products of bfloat16, which precision="low" permits', ""
    gains = ", ".join(f"{gain:.1f} times in a {name} layer" for name, gain in f.gains.items())
    rounding = f"{100 * TYPES['bf16'].roundoff:.1f} %"
    text = (
        f"bfloat16, which the estimate finds faster than float32: {gains}; operands of products are"
    )
    return OK, f'precision="low" permits {text} rounded by up to {rounding}: {_MEASURE}', ""


# Instruction sets with products of bfloat16.
_OF_BFLOAT16 = frozenset(("avx512bf16", "amx", "bf16"))
_MEASURE = "session.compare(feed) measures gain and error"


CHECKS: tuple[tuple[str, Callable[[Facts], _Found]], ...] = (
    ("instructions", _instructions),
    ("cores", _cores),
    ("quota", _quota),
    ("team", _team),
    ("other pools", _pools),
    ("siblings", _siblings),
    ("neighbours", _neighbours),
    ("clock", _clock),
    ("FMA loop", _loop),
    ("memory", _memory),
    ("wisdom", _wisdom),
    ("low precision", _low_precision),
)
