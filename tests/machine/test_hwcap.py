"""Features of AArch64 systems: bits of the auxiliary vector, else sysctl."""

from __future__ import annotations

import pytest

from pplconv import _kernels
from pplconv.architecture import canonical, here
from pplconv.machine import hwcap
from tests.machine.recorded_arm import no_sysctl

HWCAP, HWCAP2 = 16, 26
FP = 1  # bit 0, which every system sets


def read(words: dict[int, int]) -> tuple[str, ...]:
    return hwcap.read(lambda kind: words.get(kind, 0), no_sysctl)


@pytest.mark.parametrize(
    ("word", "bit", "name"),
    [
        (HWCAP, 1, "asimd"),
        (HWCAP, 9, "fphp"),
        (HWCAP, 10, "asimdhp"),
        (HWCAP, 20, "asimddp"),
        (HWCAP, 22, "sve"),
        (HWCAP, 23, "asimdfhm"),
        (HWCAP2, 1, "sve2"),
        (HWCAP2, 13, "i8mm"),
        (HWCAP2, 14, "bf16"),
        (HWCAP2, 23, "sme"),
    ],
)
def test_bits(word: int, bit: int, name: str) -> None:
    assert read({HWCAP: FP} | {word: FP * (word == HWCAP) | 1 << bit}) == (name,)
    # The same bit of the other word means another thing.
    other = {HWCAP: HWCAP2, HWCAP2: HWCAP}[word]
    assert name not in read({HWCAP: FP} | {other: FP | 1 << bit})
    every = {HWCAP: (1 << 32) - 1, HWCAP2: (1 << 32) - 1}
    assert name in read(every)
    assert name not in read(every | {word: every[word] & ~(1 << bit)})


@pytest.mark.parametrize(
    ("bit", "name"), [(12, "neon"), (16, "vfpv4"), (22, "fphp"), (23, "asimdhp")]
)
def test_bits_of_32_bit_arm(bit: int, name: str) -> None:
    """The bits differ from AArch64's; a word of no bits means no features."""

    def of(word: int) -> tuple[str, ...]:
        return hwcap.read({HWCAP: word, HWCAP2: ~0}.get, no_sysctl, "armv7l")

    assert of(0) == ()
    assert of(1 << bit) == (name,)
    assert name not in of(~(1 << bit))


def test_sysctl_is_asked_where_there_is_no_vector() -> None:
    said = {"hw.optional.AdvSIMD": 1, "hw.optional.arm.FEAT_DotProd": 1}

    def ask(name: str) -> bytes | None:
        return said[name].to_bytes(4, "little") if name in said else None

    assert hwcap.read(lambda kind: 0, ask) == ("asimd", "asimddp")
    assert hwcap.read(lambda kind: int(kind == HWCAP) << 1, ask) == ("asimd",)


def test_what_every_program_may_use() -> None:
    assert hwcap.read(lambda kind: 0, no_sysctl) == ("asimd",)


def test_this_process() -> None:
    """The words of this very process, where it has any; zero on other machines."""
    found = _kernels.auxval(HWCAP)
    assert _kernels.auxval(999) == 0
    if canonical(here()) == "armv7l":
        assert found & 1 << 6, "floating point in registers"
        assert _kernels.midr() == 0
        return
    if canonical(here()) != "aarch64":
        assert (found, _kernels.midr()) == (0, 0)
        return
    assert found & 1 << 1, "a vector unit"
    assert bool(_kernels.midr()) == bool(found & 1 << 11)
