"""Mutants of the edges of a generated kernel, on any machine: one instruction wrong in each.

The edges are the code around the sum: the tail (masks, or pieces of vectors), the start from C
(ACCUMULATE), and the epilogue (bias, residual, clip, the store). `mutants` finds them in the
text of a kernel by the labels that all generators share, and makes one change at a time:

- an instruction is left out;
- a conditional jump is inverted;
- a mask register becomes the next one.

Arm kernels have no masks, their tails are separate code, and their mutants are judged under
emulation. There, loads, stores, arithmetic and tests of flags are changed, and addresses are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["EDGES", "Mutant", "mutants", "renamed"]

# The first and the last line of each edge, as patterns of how these lines begin.
_FUNCTION, _STARTED, _END = r"pplconv_\w+:", r"\.Lstarted:", r"    (ret|bx lr|pop \{.*pc\})$"
_SUM_DONE, _SEGMENT_DONE = r"    \w[\w.]* \.Lnext_segment$", r"\.Lsegment_done:"
_TERMS_DONE = r"\.Lterms_done:"
# No result shows prefetches. Those of C's lines begin where the sums are zeroed; the distance of
# the input's is kept in a stack slot of its own.
_ZEROED, _FETCHED = re.compile(r"    (vxorps|vpxord) "), ".Lfetch_done:"
_LATER, _NEXT_LATER = "    mov [rsp - 72], rax", "    mov rax, [rsp - 72]"
EDGES = {
    "start": ((_FUNCTION, _STARTED),),
    "tail": (
        (r"\.Ltail_steps:", _SEGMENT_DONE),
        (r"\.Lnarrow_segment:", _SEGMENT_DONE),
        (_STARTED, r"\.Lstrides_known:"),
        (r"\.Ltail:", _TERMS_DONE),
        (r"\.Lnarrow_one:", _TERMS_DONE),
    ),
    "epilogue": ((_SUM_DONE, _END), (_TERMS_DONE, _END)),
}
# Instructions within an edge that do not belong to it, or that no result can show.
_LEFT_ALONE = re.compile(
    r"push|pop|vpush|vpop|ret\b|hint|vzeroupper"  # the frame
    r"|(sub|add) sp,|(st|ld)[pr] [xd]\d+, .*\[sp"
    r"|prefetch|prfm|pld"  # prefetches
    r"|\."  # directives
)
# Instructions that every vector of Arm's edges needs.
_OF_ARM = re.compile(
    r"v?fadd|v?fcm|bit |vbit|vadd|vcgt|fmla|vfma|tbl|tbz x8"
    r"|v?(ldr|str) [qdsh]\d|(ld|st)1r? |v(ld|st)1"
)
# The jump to the code of a partial vector. What follows the last of these jumps is never reached:
# the last vector is not whole where n is less than NR.
_NEVER_WHOLE = re.compile(r"    b\.lt \.L(load|residual|store)_partial_\d+$")
_JUMPS = dict(
    pair
    for a, b in (
        ("jz", "jnz"), ("je", "jne"), ("jg", "jle"), ("jl", "jge"),
        ("b.eq", "b.ne"), ("b.lt", "b.ge"), ("b.gt", "b.le"), ("cbz", "cbnz"), ("tbz", "tbnz"),
        ("beq", "bne"), ("blt", "bge"), ("bgt", "ble"), ("bcc", "bcs"), ("bmi", "bpl"),
    )
    for pair in ((a, b), (b, a))
)  # fmt: skip
_MASK = re.compile(r"\{k([1-7])\}")


@dataclass(frozen=True)
class Mutant:
    """A kernel with one instruction wrong.

    Parameters
    ----------
    edge : str
        A name in `EDGES`.
    change : str
        The line, its instruction, and the change.
    text : str
        The whole file.
    """

    edge: str
    change: str
    text: str


def mutants(text: str) -> Iterator[Mutant]:
    """Yield every mutant of a kernel's text."""
    lines = text.splitlines()
    for edge, number in _edge_lines(lines):
        instruction = lines[number].strip()
        for change, instead in _changes(instruction, text):
            wrong = [
                *lines[:number],
                *([f"    {instead}"] if instead else []),
                *lines[number + 1 :],
            ]
            name = f"line {number + 1}: {instruction}: {change}"
            yield Mutant(edge, name, "\n".join(wrong) + "\n")


def renamed(text: str, symbol: str, name: str) -> str:
    """Give a kernel another name, and make its symbol visible."""
    return text.replace(f".hidden {symbol}\n", "").replace(symbol, name)


def _edge_lines(lines: list[str]) -> Iterator[tuple[str, int]]:
    fetching = _fetching(lines)
    for edge, ranges in EDGES.items():
        for first, last in ranges:
            begins = [i for i, line in enumerate(lines) if re.match(first, line)]
            if not begins:  # this machine has no such part
                continue
            ends = (i for i, line in enumerate(lines) if re.match(last, line) and i > begins[-1])
            for number in range(begins[-1] + 1, next(ends, begins[-1] + 1)):
                line = lines[number]
                if number in fetching:
                    continue
                if not line.startswith("    ") or _LEFT_ALONE.match(line.strip()):
                    continue
                if _is_x86(lines) or (_OF_ARM.match(line.strip()) and _is_reached(lines, number)):
                    yield edge, number


def _fetching(lines: list[str]) -> set[int]:
    found: set[int] = set()
    for end, line in enumerate(lines):
        if line == _FETCHED:
            found |= {*range(max(i for i in range(end) if _ZEROED.match(lines[i])) + 1, end)}
        if line == _LATER:
            first = max((i for i in range(end) if lines[i] == _NEXT_LATER), default=end - 1)
            found |= {*range(first, end + 1)}
    return found


def _is_x86(lines: list[str]) -> bool:
    return ".intel_syntax noprefix" in lines


def _is_reached(lines: list[str], number: int) -> bool:
    """Whether a line can be reached; code between the last vector's jump and a label cannot."""
    for line in reversed(lines[:number]):
        if line.startswith("."):
            return True
        found = _NEVER_WHOLE.match(line)
        if found:
            last = f".L{found[1]}_partial_"
            return any(other.strip().startswith(f"b.lt {last}") for other in lines[number:])
    return True


def _changes(instruction: str, text: str) -> Iterator[tuple[str, str]]:
    yield "left out", ""
    operation, _, operands = instruction.partition(" ")
    if operation in _JUMPS:
        yield "turned around", f"{_JUMPS[operation]} {operands}"
    for mask in _MASK.findall(instruction):
        masks = {int(k) for k in _MASK.findall(text)}
        other = int(mask) % max(masks) + 1
        if other != int(mask):
            yield "another mask", _MASK.sub(f"{{k{other}}}", instruction, count=1)
