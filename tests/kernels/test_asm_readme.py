"""The tables of ``asm/README.md`` agree with the code."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

import asm.registry
from asm.contract import CONTRACTS, FLAGS, POOLINGS, REDUCTIONS
from asm.registry import (
    GEMM_TILES,
    ISAS,
    NARROW_TILES,
    PRODUCTS,
    SPARSE_NARROW_TILES,
    SPARSE_PIXELS_TILES,
    kernels,
)
from tests import documents

README = Path(asm.registry.__file__).with_name("README.md")


@pytest.fixture(scope="module")
def tables() -> dict[str, list[list[str]]]:
    """Give the rows of each table by the headings of its first two columns."""
    found = {}
    for head, *rows in documents.tables(README.read_text()):
        found[", ".join(head[:2])] = [[cell.strip("`") for cell in row] for row in rows]
    return found


def test_instruction_sets(tables):
    expected = [
        [
            isa.name,
            isa.machine or "any",
            " ".join(isa.features) or "none",
            f"{isa.vector_bytes} bytes",
            str(isa.vector_registers),
        ]
        for isa in ISAS.values()
    ]
    assert tables["isa, machine"] == expected


def test_operations(tables):
    levels: dict[str, dict[str, str]] = defaultdict(dict)
    for kernel in kernels():
        levels[kernel.op][kernel.isa] = kernel.source
    sources = {op: set(by_isa.values()) for op, by_isa in levels.items()}
    names = {
        frozenset({"template"}): "C template",
        frozenset({"generator"}): "generator",
        frozenset({"template", "generator"}): "C template (portable), generator",
    }
    expected = [
        [op, " ".join(isa for isa in ISAS if isa in levels[op]), names[frozenset(sources[op])]]
        for op in CONTRACTS
        if op in levels
    ]
    assert sorted(tables["operation, kernels"]) == sorted(expected)


def test_tiles(tables):
    expected = [[isa, str(vectors), str(mr)] for (isa, vectors), mr in GEMM_TILES.items()]
    assert tables["isa, vectors in a row"] == expected


def test_tiles_of_narrow_types(tables):
    expected = [
        [isa, name, ", ".join(f"{vectors}: {mr}" for vectors, mr in widths.items())]
        for (isa, name), widths in NARROW_TILES.items()
    ]
    assert tables["isa, product"] == expected


def panels(tiles: dict[int, tuple[int, ...]]) -> str:
    """Format the tiles of a level as the table does."""
    return ", ".join(f"{mr}: {' '.join(map(str, vectors))}" for mr, vectors in tiles.items())


def test_tiles_of_sparse_weights(tables):
    floats = [[isa, panels(tiles)] for isa, tiles in SPARSE_PIXELS_TILES.items()]
    assert tables["sparse isa, panels"] == floats
    narrow = [[*key, panels(tiles)] for key, tiles in SPARSE_NARROW_TILES.items()]
    assert tables["sparse isa, product"] == narrow


def test_products(tables):
    expected = [
        [name, f"{kind.a} x {kind.b}", kind.sum, str(kind.kr)]
        for name, kind in PRODUCTS.items()
        if kind.kr > 1
    ]
    assert tables["product, elements of A and B"] == expected


@pytest.mark.parametrize(
    ("head", "values"), [("flag", FLAGS), ("pooling", POOLINGS), ("reduction", REDUCTIONS)]
)
def test_numbers(tables, head, values):
    kinds = [[name, str(value)] for name, value in values.items()]
    assert [row[:2] for row in tables[f"{head}, value"]] == kinds


def test_example_exists():
    (example,) = set(re.findall(r"`(pplconv_gemm_\w+)`", README.read_text()))
    assert example in {kernel.symbol for kernel in kernels()}


def test_files_exist(tables):
    for name, _ in tables["file, what it holds"]:
        assert (README.parent / name).exists(), name
