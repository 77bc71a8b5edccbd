"""Lines of an assembly file, whatever the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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


class Marked(Writer):
    """A writer whose labels begin with a mark of their own."""

    def __init__(self, lines: list[str], mark: str) -> None:
        super().__init__(lines)
        self.mark = mark

    def __call__(self, text: str) -> None:
        """Append one instruction or directive; labels in it get the mark."""
        super().__call__(text.replace(".L", f".L{self.mark}_"))

    def label(self, name: str) -> None:
        """Append a local label with the mark."""
        super().label(f"{self.mark}_{name}")


def function(
    name: str,
    contract: Iterable[str],
    body: Iterable[str],
    *,
    comment: str,
    sign: str,
    head: Iterable[str] = (),
    tail: Iterable[str] = (),
) -> str:
    """Wrap a body into a file that defines one function, which only this package calls.

    Parameters
    ----------
    name : str
        Its symbol.
    contract : iterable of str
        Lines of comment above the function, which describe it.
    body : iterable of str
        Its lines.
    comment : str
        Text that begins a comment in the machine's dialect.
    sign : str
        Character before the type of a symbol; one of the two usual ones begins a comment in some
        dialects.
    head, tail : iterable of str
        Lines before the section of code, and behind the function.
    """
    text = [
        *(f"{comment} {line}".rstrip() for line in contract),
        "",
        *head,
        ".text",
        ".p2align 6",
        f".globl {name}",
        f".hidden {name}",
        f".type {name}, {sign}function",
        f"{name}:",
        *body,
        f".size {name}, .-{name}",
        *tail,
        f'.section .note.GNU-stack, "", {sign}progbits',
    ]
    return "\n".join(text) + "\n"


def pieces(
    w: Writer,
    name: str,
    lanes: int,
    size: int,
    unless: Callable[[int, str], None],
    action: Callable[[int, int], None],
) -> None:
    """Go over part of a vector in pieces of a power of two of elements, the largest piece first.

    The bits of the number of elements say which pieces there are. There is at least one element,
    and there are fewer than a vector has.

    Parameters
    ----------
    w : Writer
        Writer that takes the instructions.
    name : str
        Label behind the last piece; the names of all other labels begin with it.
    lanes : int
        Elements of a vector.
    size : int
        Bytes of an element.
    unless : callable
        ``unless(bit, label)`` jumps to a label unless that bit of the number is set.
    action : callable
        ``action(offset, size)`` handles a piece, in bytes.
    """

    def from_bit(bit: int, offset: int) -> None:
        """Handle what is left, if `offset` bytes are done."""
        # There is at least one element: if no other bit was set, the last one is.
        certain = bit == 0 and offset == 0
        without = f"{name}_{bit}_{offset}"
        if not certain:
            unless(bit, without)
        action(offset, size << bit)
        if bit:
            from_bit(bit - 1, offset + (size << bit))
            w(f"b .L{name}")
            w.label(without)
            from_bit(bit - 1, offset)
        elif not certain:
            w.label(without)

    from_bit(lanes.bit_length() - 2, 0)
    w.label(name)
