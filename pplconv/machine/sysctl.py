"""Values of macOS's `sysctl` by name, where Linux has files.

Source: Apple's documentation of ``sysctlbyname``, "Determining system capabilities".
"""

from __future__ import annotations

import sys
from collections.abc import Callable

Sysctl = Callable[[str], "bytes | None"]


def sysctl(name: str) -> bytes | None:
    """Raw value of `name`; None where there is no such value, or no such call."""
    return _by_name(name) if sys.platform == "darwin" else None


def number(ask: Sysctl, name: str, *, signed: bool = True) -> int:
    """Value as an integer; 0 if there is none, or if it is signed and negative."""
    raw = ask(name) or b""
    # The same name is 4 bytes wide in one release and 8 in the next.
    return max(0, int.from_bytes(raw, "little", signed=signed)) if len(raw) in (4, 8) else 0


def text(ask: Sysctl, name: str) -> str:
    """Value as a string, "" if there is none."""
    return (ask(name) or b"").split(b"\0", 1)[0].decode("utf-8", "replace").strip()


def _by_name(name: str) -> bytes | None:
    import ctypes  # slow to import, and of no use on other systems

    try:
        call = ctypes.CDLL(None).sysctlbyname
    except (AttributeError, OSError):
        return None
    size = ctypes.c_size_t(0)
    key = name.encode("ascii")
    if call(key, None, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
        return None
    buffer = ctypes.create_string_buffer(max(1, size.value))
    if call(key, buffer, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
        return None
    return buffer.raw[: size.value]
