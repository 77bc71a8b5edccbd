"""Gives the tile registers back, so that the system has nothing of them to save any more."""

from __future__ import annotations

from asm.contract import CONTRACTS
from asm.registry import Kernel
from asm.writer import Writer
from asm.x86_64.emit import frame


def generate(kernel: Kernel) -> str:
    """Assembly text of the kernel that ends the use of tiles."""
    contract, w = CONTRACTS[kernel.op], Writer()
    w(f"mov rax, [rdi + {contract.offset('tiles')}]")
    w("tilerelease")
    w("mov qword ptr [rax], 0")
    w("vzeroupper")  # as every kernel does at its end
    w("ret")
    text = [
        f"{kernel.symbol}: {contract.summary}.",
        f"struct {contract.struct} * in rdi; rax tiles.",
    ]
    return frame(kernel, text, w.lines, [])
