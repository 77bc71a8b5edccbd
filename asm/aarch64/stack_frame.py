"""What a kernel with a tile keeps on the stack: its scratch, and what the caller wants back."""

from __future__ import annotations

from collections.abc import Sequence

from asm.aarch64.emit import Writer

# Bytes of each place in the frame.
_PLACE = 16


class StackFrame:
    """Emits the beginning and the end of a function.

    Parameters
    ----------
    w : Writer
        Writer that takes the instructions.
    scratch : int
        Vectors of scratch, from the stack pointer on.
    vectors : sequence of int
        Registers v8 to v15 that the kernel uses; their lower halves are the caller's.
    general : sequence of str
        General registers of the caller that the kernel uses.
    more : int, optional
        Bytes of scratch behind the saved registers; they begin at `more_at`.
    """

    def __init__(
        self,
        w: Writer,
        scratch: int,
        vectors: Sequence[int],
        general: Sequence[str],
        more: int = 0,
    ) -> None:
        self.w = w
        pairs: list[tuple[str, str]] = []
        for names in ([f"d{r}" for r in vectors], list(general)):
            odd = [*names, *names[-1:]] if len(names) % 2 else names
            pairs += list(zip(odd[::2], odd[1::2], strict=True))
        self.places = [
            ("" if a == b else "p", a, b, _PLACE * (scratch + index))
            for index, (a, b) in enumerate(pairs)
        ]
        self.more_at = _PLACE * (scratch + len(pairs))
        self.bytes = self.more_at + more

    def enter(self) -> None:
        """Make the frame."""
        self.w(f"sub sp, sp, #{self.bytes}")
        self._move("st")

    def leave(self) -> None:
        """Undo :meth:`enter`."""
        self._move("ld")
        self.w(f"add sp, sp, #{self.bytes}")

    def _move(self, op: str) -> None:
        for pair, a, b, offset in self.places:
            self.w(f"{op}{pair or 'r'} {f'{a}, {b}' if pair else a}, [sp, #{offset}]")
