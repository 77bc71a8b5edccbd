"""Lines of an assembly file, whatever the machine."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Writer:
    """Lines of one assembly file; each machine's `emit` adds what it alone has."""

    lines: list[str] = field(default_factory=list)

    def __call__(self, text: str) -> None:
        """Append one instruction or directive."""
        self.lines.append("    " + text)

    def label(self, name: str) -> None:
        """Append a local label."""
        self.lines.append(f".L{name}:")
