"""Argument structs of products with sparse weights: pruned terms are left out.

Weights of a few output channels, a *panel*, are packed as a list of terms in ascending order of k:
for each k at which the panel has a weight, the distance in k from the previous term, and the
weights of all its channels. In half precision sums are cut into chains of ``HALF_CHAIN`` terms.
"""

from __future__ import annotations

from asm.contract.fields import CONST_POINTER, INT, POINTER, Contract, Field

_TERMS = (
    Field("panels", INT, "neighbouring panels, >= 1"),
    Field(
        "places",
        CONST_POINTER,
        "struct pplconv_panel [panels + 1]: a panel has the terms from its own to the next one's, "
        ">= 0, a multiple of KR. Kernels read `term` alone",
    ),
    Field(
        "steps",
        CONST_POINTER,
        "int32_t, of all terms of the panels, one behind the other: k less that of the term before "
        "it in the panel, of a panel's first term k itself",
    ),
    Field("values", CONST_POINTER, "their weights in the same order, [terms / KR][width][KR]"),
    Field("x", CONST_POINTER, "input at k = 0"),
    Field("x_ks", INT, "input: from one k to the next"),
)
_RESULT = (
    Field("c", POINTER, "C, in rows of vectors; only its first n columns are touched"),
    Field("c_rs", INT, "C: from one row to the next"),
    Field("c_vs", INT, "C: from one vector of a row to the next"),
    Field("c_ps", INT, "C: from one panel to the next"),
    Field("n", INT, "columns of each panel, 1 <= n <= NR"),
    Field(
        "bias",
        CONST_POINTER,
        "MR or n elements of each panel, as apart as its channels: along those, or there is one "
        "panel alone",
    ),
    Field("residual", CONST_POINTER, "in rows of vectors like C, by flag"),
    Field("residual_rs", INT, "residual: from one row to the next"),
    Field("residual_vs", INT, "residual: from one vector of a row to the next"),
    Field("residual_ps", INT, "residual: from one panel to the next"),
    Field("clip", CONST_POINTER, "two elements, low and high, by flag"),
    Field("flags", INT, "PPLCONV_* bits"),
)

SPARSE_PIXELS = Contract(
    "sparse_pixels",
    "C[0:MR, 0:n] = epilogue(sum over the terms of values[:] * x[k, 0:n]) for each panel, in the "
    "order of its terms: rows are the channels of a panel, and vectors run over pixels",
    (
        *_TERMS,
        Field("x_ahead", INT, "how far on in memory pixels lie that are fetched for later; a hint"),
        *_RESULT,
    ),
)

SPARSE_CHANNELS = Contract(
    "sparse_channels",
    "C[0:MR, 0:n] = epilogue(sum over the terms of x[0:MR, k] * values[:]) for each panel, in the "
    "order of its terms: rows are pixels, and vectors run over the NR channels of a panel",
    (*_TERMS, Field("x_rs", INT, "input: from one pixel to the next"), *_RESULT),
)


def _of(line: str) -> tuple[Field, ...]:
    """Make the fields that say where the taps of each row, or of each column, find the input."""
    return (
        Field(f"{line}_dilation", INT, f"{line}s of the input from one tap to the next"),
        Field(f"{line}_stride", INT, f"{line}s that lie apart: every so many follow one another"),
        Field(f"{line}_step", INT, f"places from a {line} to the next among those"),
        Field(f"{line}_phase", INT, f"places from the first {line} to the one behind it"),
    )


PACK_SPARSE = Contract(
    "pack_sparse",
    "the terms of one panel: for each k_begin <= k < k_end of which any of `rows` output channels "
    "has a weight that is not zero, those of all of them, and zeros for rows <= channel < width; "
    "k as for pack_weights. Steps go from place to place in the input, that of k_begin being the "
    "first, and may lead back: the place of (ic, tap) is ic * channel_step, and of h = tap / kw * "
    "row_dilation besides h / row_stride * row_step + h % row_stride * row_phase; so for columns. "
    "A count that is no multiple of kr is made one by weights of zero at the last k",
    (
        Field("src", CONST_POINTER, "weights of the panel's first output channel"),
        Field("src_os", INT, "src: from one output channel to the next"),
        Field("src_ks", INT, "src: from one (ic, tap) to the next"),
        Field("ic", INT, "input channels of the group"),
        Field("taps", INT, "kh * kw"),
        Field(
            "channel_block", INT, "input channels in a block, >= 1: 1 is (ic, tap), ic (tap, ic)"
        ),
        Field("kw", INT, "taps in a row of the kernel, >= 1"),
        Field("channel_step", INT, "places from one input channel to the next"),
        *_of("row"),
        *_of("column"),
        Field("rows", INT, "output channels of the panel that there are"),
        Field("width", INT, "output channels that a term has weights of, >= rows"),
        Field("kr", INT, "terms whose weights of one channel lie side by side, >= 1"),
        Field("k_begin", INT, "first k; steps count from its place"),
        Field("k_end", INT, "one past the last k"),
        Field(
            "room", INT, "terms that there is room for, a multiple of kr: none beyond are written"
        ),
        Field("steps", POINTER, "int32_t [room]; NULL: terms are only counted"),
        Field("values", POINTER, "[room / kr][width][kr]"),
        Field("count", POINTER, "int64_t: becomes the number of terms, whatever the room"),
    ),
)
