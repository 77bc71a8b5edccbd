"""Numbers formatted for people."""

from __future__ import annotations


def percent(value: float) -> str:
    """Write a coordinate."""
    return f"{value:.4g}%" if abs(value) < 1 else f"{value:.3f}%"


def number(value: float) -> str:
    """Write a number with three digits, without a power of ten if possible."""
    if value == 0:
        return "0"
    if abs(value) >= 999.5:
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".") if abs(value) >= 0.001 else f"{value:.1e}"


def round_number(value: float) -> str:
    """Write a round number for an axis."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def short(words: str, most: int = 28) -> str:
    """Shorten a text that would overlap another one on a phone."""
    return words if len(words) <= most else f"{words[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


def milliseconds(seconds: float) -> str:
    """Write a time."""
    return f"{number(seconds * 1e3)} ms" if seconds >= 1e-3 else f"{number(seconds * 1e6)} µs"


def operations(count: float) -> str:
    """Write a number of floating-point operations."""
    return f"{number(count / 1e9)} GFLOP" if count >= 1e8 else f"{number(count / 1e6)} MFLOP"


def megabytes(size: float) -> str:
    """Write a size."""
    return f"{number(size / 1e6)} MB" if size >= 1e5 else f"{number(size / 1e3)} kB"
