"""Features of ARM systems: bits of the auxiliary vector, else words of /proc/cpuinfo."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from pplconv.machine import hwcap

if TYPE_CHECKING:
    from conftest import Tree

HWCAP, HWCAP2 = 16, 26


def auxv(tree: Tree, *pairs: tuple[int, int], tail: bytes = b"") -> None:
    target = tree.path / "proc/self/auxv"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(b"".join(struct.pack("<QQ", *pair) for pair in pairs) + tail)


@pytest.mark.parametrize(
    ("pairs", "features"),
    [
        ([(HWCAP, 1 << 1)], ("asimd",)),
        ([(HWCAP, 1 << 10)], ("asimdhp",)),
        ([(HWCAP, 1 << 20)], ("asimddp",)),
        ([(HWCAP, 1 << 22), (HWCAP2, 1 << 1)], ("sve", "sve2")),
        ([(HWCAP, 1 << 23)], ("asimdfhm",)),
        ([(HWCAP2, 1 << 13 | 1 << 14)], ("i8mm", "bf16")),
        ([(HWCAP2, 1 << 23)], ("sme",)),
        ([(HWCAP, 1 << 13), (HWCAP2, 1 << 20)], ()),
        ([(6, 1 << 1)], ()),  # the page size
    ],
)
def test_bits(tree: Tree, pairs: list[tuple[int, int]], features: tuple[str, ...]) -> None:
    auxv(tree, (33, 1 << 40), *pairs, (0, 0))
    assert hwcap.read(tree.root, "aarch64") == features


@pytest.mark.parametrize("arch", ["x86_64", "armv7l", "riscv64"])
def test_other_architectures(tree: Tree, arch: str) -> None:
    auxv(tree, (HWCAP, (1 << 24) - 1))
    assert hwcap.read(tree.root, arch) == ()


def test_words(tree: Tree) -> None:
    """The auxiliary vector of a process that may not be dumped cannot be read."""
    tree.file("/proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd sve aes\nCPU part\t: 0xd40")
    assert hwcap.read(tree.root, "aarch64") == ("asimd", "sve")


def test_nothing_or_half_an_entry(tree: Tree) -> None:
    assert hwcap.read(tree.root, "arm64") == ()
    auxv(tree, (HWCAP, 1 << 1), tail=b"\x10\x00\x00")
    assert hwcap.read(tree.root, "arm64") == ("asimd",)
