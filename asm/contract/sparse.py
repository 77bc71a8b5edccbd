"""Argument structs of products with sparse weights: pruned terms are left out.

A *panel* is the weights of a few output channels, packed as a list of terms in ascending order of
k. There is a term for each k at which a channel of the panel has a weight that is not zero: the
distance in k from the previous term, and the weights of all channels. Sums in half precision are
cut into chains of ``HALF_CHAIN`` terms.
"""

from __future__ import annotations

from asm.contract.fields import CONST_POINTER, INT, POINTER, Contract, Field

_TERMS = (
    Field("panels", INT, "neighbouring panels, >= 1"),
    Field(
        "places",
        CONST_POINTER,
        "struct pplconv_panel [panels + 1]: a panel's terms end where the next one's begin; their "
        "number is >= 0, a multiple of KR. Kernels read `term` only",
    ),
    Field(
        "steps",
        CONST_POINTER,
        "int32_t for each term of the panels in order: k less the k of the previous term in the "
        "panel; for the first term of a panel, k itself",
    ),
    Field("values", CONST_POINTER, "weights of the terms in order, [terms / KR][width][KR]"),
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
        "by flag: one element per channel of all panels; or, with one panel, MR or n elements",
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
        Field("x_ahead", INT, "distance in bytes of the pixels to prefetch; a hint"),
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
    """Make the fields that map the rows, or the columns, of taps to places of the input."""
    return (
        Field(f"{line}_dilation", INT, f"{line}s of the input from one tap to the next"),
        Field(f"{line}_stride", INT, f"{line}s of the same phase are this many {line}s apart"),
        Field(f"{line}_step", INT, f"places from a {line} to the next one of its phase"),
        Field(f"{line}_phase", INT, f"places from a {line} of one phase to that of the next phase"),
    )


PACK_SPARSE = Contract(
    "pack_sparse",
    "the terms of one panel: for each k_begin <= k < k_end at which any of `rows` output channels "
    "has a weight that is not zero, the weights of all of them, and zeros for rows <= channel < "
    "width; k as for pack_weights. Steps are differences of places in the input, counted from the "
    "place of k_begin, and may be negative. The place of (ic, tap) is the sum of ic * "
    "channel_step, of h / row_stride * row_step + h % row_stride * row_phase with h = tap / kw * "
    "row_dilation, and of the same for columns with tap % kw. Zero weights at the last k fill the "
    "count up to a multiple of kr",
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
        Field("rows", INT, "output channels of the panel in src"),
        Field("width", INT, "weights in each term, >= rows"),
        Field("kr", INT, "terms whose weights of one channel lie side by side, >= 1"),
        Field("k_begin", INT, "first k; steps count from its place"),
        Field("k_end", INT, "one past the last k"),
        Field(
            "room", INT, "terms that fit into steps and values, a multiple of kr; others are lost"
        ),
        Field("steps", POINTER, "int32_t [room]; if NULL, terms are only counted"),
        Field("values", POINTER, "[room / kr][width][kr]"),
        Field("count", POINTER, "int64_t: becomes the number of all terms, even beyond room"),
    ),
)
