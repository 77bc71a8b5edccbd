"""The loop that measures peak throughput keeps the ABI, returns, and counts its operations."""

from __future__ import annotations

import ctypes
import importlib
import platform
import re

import pytest

from asm.build import FOLDERS
from asm.registry import ISAS, PRODUCTS, kernels
from pplconv import _kernels
from tests.kernels.kernel_table import every_row, symbol

GENERATED = [k for k in kernels() if k.op == "fma_peak" and k.source == "generator"]
# Linux's arch/x86/include/uapi/asm/prctl.h, and the number of arch_prctl(2).
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18


@pytest.fixture
def may_use_tiles():
    """Ask the system for permission to use tile registers; skip the test if it is refused."""
    if platform.system() != "Linux":
        pytest.skip("only Linux is asked for tiles")
    if ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA):
        pytest.skip("the system does not grant tiles")


@pytest.fixture
def row(request):
    """A row of the table that this thread may call."""
    if request.param["isa"] == "amx":
        request.getfixturevalue("may_use_tiles")
    return request.param


@pytest.mark.parametrize("row", every_row("fma_peak"), ids=symbol, indirect=True)
@pytest.mark.parametrize("iterations", [-1, 0, 1, 2, 1000])
def test_returns_and_counts(checker, row, iterations):
    arena = checker.arena("operations", writable=True)
    address = arena.base + arena.size - 8
    count = ctypes.c_int64.from_address(address)
    count.value = -1
    checker.call(row, {"iterations": iterations, "operations": address}, f"{iterations=}")
    assert count.value > 0
    assert _kernels.fma_peak(row["isa"], row["dtype"], 3) == 3 * count.value


@pytest.mark.parametrize("kernel", GENERATED, ids=lambda k: k.symbol.removeprefix("pplconv_"))
def test_the_count_is_what_stands_in_the_loop(kernel):
    """The count is the products in the loop's text, times the operations of each instruction."""
    module = importlib.import_module(f"asm.{FOLDERS[str(ISAS[kernel.isa].machine)]}.fma_peak")
    text = module.generate(kernel)
    loop = re.search(
        r"^\.L(?:peak_)?loop:\n(.*?)^ +(?:jnz|b\.?ne) ", text, re.MULTILINE | re.DOTALL
    )
    # Where two instructions add one product, only the first counts.
    names = "vfmadd|vfma|fmla|vpdpb|vpmaddwd|vdpbf16ps|tdp|sdot|smlal |bfdot|u?smmla|bfmmla"
    product = rf"^ +(?:\{{vex\}} )?(?:{names})"
    products = len(re.findall(product, loop[1], re.MULTILINE))
    if kernel.isa == "amx":
        # 16 x 16 sums of products of the 64 bytes of a row.
        each = 2 * 16 * 16 * (32 if kernel.dtype == "bf16t" else 64)
    else:
        each = 2 * kernel.lanes * PRODUCTS[kernel.dtype].kr
    assert products >= 12
    assert module.operations(kernel) == products * each
    assert str(products * each) in text


def test_a_product_without_a_loop_is_named():
    with pytest.raises(LookupError, match="no fma_peak kernel for u8 on portable"):
        _kernels.fma_peak("portable", "u8", 1)
