"""Offsets of the vectors of a row that may not be read beyond n.

Memory beyond n may belong to another array, or may not exist. So whole vectors of a row are read in
place, and the others so that they end at n. The columns of a tile's partial vector are then shifted
up; the tile shifts them before the sum and back after it
(:meth:`asm.aarch64.gemm_tile.Tile.put_straight`). A row of less than a vector is read in pieces.
"""

from __future__ import annotations

from collections.abc import Sequence

from asm.aarch64.gemm_tile import Tile
from asm.contract import FLAGS

# How rows are read: bits of x15.
ENDS_AT_N, NARROW = 1, 2


def row_ends(tile: Tile, offsets: Sequence[str], size: int, known: str) -> None:
    """Set x15 and, unless it has :data:`NARROW`, the offsets of a row's vectors.

    It uses x8, x16 and x17; x16 becomes n.

    Parameters
    ----------
    tile : Tile
        Tile whose rows are read.
    offsets : sequence of str
        Registers of the offsets of all vectors after the first.
    size : int
        Bytes of an element of the row; a vector of the row has as many elements as a vector of the
        tile.
    known : str
        Label to go to where the row has less than a vector.
    """
    w, lanes = tile.w, tile.v.lanes
    w(f"ldr x16, {tile.field('n')}")
    w(f"mov x17, #{tile.kernel.nr}")
    w(f"ldr x8, {tile.field('flags')}")
    w(f"tst x8, #{FLAGS['B_PADDED']}")
    w("csel x17, x16, x17, eq // columns that may be read")
    w(f"mov x15, #{1 << NARROW}")
    w(f"cmp x17, #{lanes}")
    w(f"b.lt .L{known}")
    w(f"cmp x17, #{tile.kernel.nr}")
    w("cset x15, ne")
    w(f"lsl x15, x15, #{ENDS_AT_N}")
    if offsets:
        w(f"sub x17, x17, #{lanes}")
        w(f"lsl x17, x17, #{size.bit_length() - 1} // the last vector that may be read")
    for j, x in enumerate(offsets, 1):
        w(f"mov {x}, #{lanes * size * j}")
        w(f"cmp {x}, x17")
        w(f"csel {x}, {x}, x17, le")
