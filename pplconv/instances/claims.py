"""Cores that pinned pools hold while they are open.

Two pools of this process never hold the same core. For other processes, each held core has a
socket, bound to a name that all processes of the system see (Linux: an abstract name, which is no
file). The system gives a name to one process only and frees it when that process ends, in whatever
way. So processes that start at the same time find different cores. Cores that other programs use
are read from the affinity masks of their threads. None of this can make a pool fail: if the system
gives no information, or every core is busy, the pool also takes cores that others use.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
import warnings

from .. import config
from ..machine import Machine, bound_cpus
from ..machine import current as current_machine
from ..runtime import ForkableLock, process_threads
from .splitting import Split, split, unbound

__all__ = ["Hold", "claim", "divide"]

_NAME = "\0pplconv-core-{}"

# The socket of each held core; None if no socket could be made for other processes to see.
_held: dict[int, socket.socket | None] = {}
_lock = ForkableLock()


class Hold:
    """The cores that one pool holds.

    Parameters
    ----------
    cores : dict of int to int
        The core of each of the pool's logical CPUs.
    """

    def __init__(self, cores: dict[int, int]) -> None:
        self._cores = cores

    def release(self, cpus: tuple[int, ...]) -> None:
        """Give back the cores of `cpus`, those that this hold still has."""
        with _lock:
            for cpu in cpus:
                if cpu in self._cores:
                    _close(_held.pop(self._cores.pop(cpu), None))


def divide(instances: int | None, threads: int | None, pin: bool) -> tuple[Split, Hold]:
    """Instances and threads of a new pool, with cores that it holds if it is to be pinned.

    Parameters
    ----------
    instances, threads : int or None
        As for `split`.
    pin : bool
        Whether instances are to have cores of their own.

    Warns
    -----
    RuntimeWarning
        If there are too few cores for all instances; then no instance has cores of its own.
    """
    machine = current_machine()
    share = process_threads(config.current(), machine)
    if not pin:
        found = split(machine, instances, threads, share)
        return unbound(len(found.placements), found.threads), Hold({})
    found, hold = claim(machine, instances, threads, share)
    if not found.placements[0].cores:
        quota = "" if machine.quota is None else f", with a CPU quota of {machine.quota:g},"
        warnings.warn(
            f"InstancePool: pin=True, but the free cores{quota} do not suffice for "
            f"{len(found.placements)} x {found.threads} threads, which run unbound",
            RuntimeWarning,
            stacklevel=3,
        )
    return found, hold


def claim(
    machine: Machine, instances: int | None, threads: int | None, share: int
) -> tuple[Split, Hold]:
    """Divide cores that no other pool of this process holds, and hold them.

    Parameters
    ----------
    machine : Machine
        Description of the machine.
    instances, threads, share
        As for `split`.

    Returns
    -------
    split : Split
        Its placements name no cores if too few are free.
    hold : Hold
        Of the placements' cores.
    """
    core_of = {cpu: core[0] for core in machine.cores for cpu in core}
    bound = {core_of.get(cpu, cpu) for cpu in bound_cpus(machine.affinity)}
    busy = {cpu for cpu in machine.affinity if core_of.get(cpu, cpu) in bound}
    with _lock:
        taken = {cpu for cpu in machine.affinity if core_of.get(cpu, cpu) in _held}
        while True:
            found = split(machine, instances, threads, share, taken, busy)
            cpus = [cpu for placement in found.placements for cpu in placement.cores]
            cores = {cpu: core_of.get(cpu, cpu) for cpu in cpus}
            told = {cpu: _tell(core) for cpu, core in cores.items()}
            met = {cpu for cpu, (_, others) in told.items() if others} - busy
            if not met:
                break
            for own, _ in told.values():
                _close(own)
            busy |= met  # it grows each time, so the loop ends
        _held.update((cores[cpu], own) for cpu, (own, _) in told.items())
    return found, Hold(cores)


def _tell(core: int) -> tuple[socket.socket | None, bool]:
    """Claim a core: the socket that holds it, and whether another process holds it."""
    if sys.platform != "linux":
        return None, False
    try:
        own = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    except OSError:  # no more files
        return None, False
    try:
        own.bind(_NAME.format(core))
    except OSError as error:
        own.close()
        return None, error.errno == errno.EADDRINUSE
    return own, False


def _close(own: socket.socket | None) -> None:
    if own is not None:
        own.close()


def _in_child() -> None:
    """Close the sockets of the parent's pools: open, they would hold cores beyond its end."""
    for own in list(_held.values()):
        _close(own)
    _held.clear()


if hasattr(os, "register_at_fork"):  # systems without fork have no such function
    os.register_at_fork(after_in_child=_in_child)
