/* Weights (oc, ic, taps) into panels of output channels, k down and channels across: the order in
 * which a microkernel reads them. Source rows are read as forward streams, LANES of them at a
 * time, and transposed on the way. A matrix (k, oc), whose channels are neighbours, is copied. */
#include "lanes.h"
#include "transpose.h"

/* Weights of a row that are packed before the next rows: enough that computing their places once
 * for all rows pays, few enough that a panel's packed rows stay in L1 meanwhile. */
enum { PIECE = 8 * LANES };

#define OUTLINE static __attribute__((noinline))

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Packed elements before weight k0 of a row and before each of the `count` after it. */
OUTLINE void find_places(int64_t place[PIECE], const struct pplconv_pack_weights_args *a,
                         int64_t k0, int64_t count) {
    const int64_t taps = a->taps, together = a->channel_block, width = a->panel_width;
    if (taps == 1 || together == 1) { /* k runs as it does in the source */
        for (int64_t i = 0; i < count; i++) place[i] = (k0 + i) * width;
        return;
    }
    int64_t c = k0 / taps % together, block = k0 / taps - c, t = k0 % taps;
    for (int64_t i = 0; i < count; t = 0) {
        const int64_t end = least(i + taps - t, count);
        int64_t row = block * taps + t * together + c;
        for (; i < end; i++, row += together) place[i] = row * width;
        if (++c == together) {
            c = 0;
            block += together;
        }
    }
}

/* `count` weights, whole vectors of them, of LANES rows. */
OUTLINE void pack_whole(const char *src, int64_t src_step, int64_t count, element *dst,
                        const int64_t *place) {
    for (int64_t k = 0; k < count; k += LANES) {
        vector block[LANES];
        load_transposed(block, src + k * (int64_t)sizeof(element), src_step);
        UNROLL for (int i = 0; i < LANES; i++) {
            *(unaligned_vector *)(dst + place[k + i]) = block[i];
        }
    }
}

/* The same of `channels` rows; each packed row gets `store` elements. */
OUTLINE void pack_narrow(const char *src, int64_t src_step, int64_t channels, int64_t store,
                         int64_t count, element *dst, const int64_t *place) {
    const char *rows[LANES];
    find_rows(rows, src, src_step, channels);
    for (int64_t k = 0; k < count; k += LANES) {
        vector block[LANES];
        load_rows_transposed(block, rows, k * (int64_t)sizeof(element));
        if (channels < store) clear_lanes(block, channels);
        UNROLL for (int i = 0; i < LANES; i++)
            store_lanes(dst + place[k + i], block[i], store);
    }
}

/* The same of fewer weights than LANES, or of no rows at all. */
OUTLINE void pack_part(const char *src, int64_t src_step, int64_t channels, int64_t store,
                       int64_t count, element *dst, const int64_t *place) {
    for (int64_t k = 0; k < count; k += LANES) {
        const int64_t columns = least(count - k, LANES);
        vector block[LANES];
        load_transposed_part(block, src, src_step, channels, columns);
        UNROLL for (int i = 0; i < LANES; i++) {
            if (i == columns) break;
            store_lanes(dst + place[k + i], block[i], store);
        }
    }
}

/* Weights k0 .. k0 + count - 1 of `channels` rows of one panel. */
static void pack_piece(const struct pplconv_pack_weights_args *a, const char *src, int64_t src_step,
                       int64_t channels, int64_t count, element *panel, const int64_t *place) {
    const int64_t whole = count / LANES * LANES;
    for (int64_t i = 0; i < a->panel_width; i += LANES) {
        const int64_t store = least(a->panel_width - i, LANES);
        const int64_t rows = i < channels ? least(channels - i, LANES) : 0;
        const char *from = src + (rows ? i * src_step : 0);
        int64_t done = whole;
        if (rows == LANES) {
            pack_whole(from, src_step, whole, panel + i, place);
        } else if (rows) {
            pack_narrow(from, src_step, rows, store, whole, panel + i, place);
        } else {
            done = 0;
        }
        pack_part(from + done * (int64_t)sizeof(element), src_step, rows, store, count - done,
                  panel + i, place + done);
    }
}

/* Rows of a matrix (k, oc) that are packed together, panel after panel: few enough for the TLB to
 * hold their pages and for the prefetchers to follow them, enough to fill whole cache lines of a
 * panel. Each page and each line is then read once, in order, however far apart the rows are. */
enum { ROWS = 16 };

/* `rows` rows of a panel that is `vectors` vectors wide. */
static inline void copy_vectors(element *dst, const char *src, int64_t src_step, int64_t rows,
                                int vectors) {
    for (int64_t i = 0; i < rows; i++, src += src_step, dst += vectors * LANES) {
        UNROLL for (int v = 0; v < vectors; v++) {
            *(unaligned_vector *)(dst + v * LANES) =
                *(const unaligned_vector *)(src + v * (int64_t)sizeof(vector));
        }
    }
}

/* Copy `channels` elements of one row into its place in a panel, with zeros behind them. Whole
 * vectors are stored wherever they fit: a store of some lanes costs many times as much. */
static inline void copy_row(element *dst, const element *src, int64_t channels, int64_t width) {
    int64_t i = 0;
    for (; i + LANES <= channels; i += LANES) {
        *(unaligned_vector *)(dst + i) = *(const unaligned_vector *)(src + i);
    }
    if (i < channels) {
        const vector last = load_lanes(src + i, channels - i);
        if (i + LANES <= width) {
            *(unaligned_vector *)(dst + i) = last;
        } else {
            store_lanes(dst + i, last, width - i);
        }
        i += LANES;
    }
    if (i < width) clear(dst + i, width - i);
}

/* `rows` rows of one panel. The widths of most tiles have loops of their own. */
static inline void copy_panel(element *dst, const char *src, int64_t src_step, int64_t rows,
                              int64_t channels, int64_t width) {
    if (channels == width) {
        switch (width) {
        case 1 * LANES:
            copy_vectors(dst, src, src_step, rows, 1);
            return;
        case 2 * LANES:
            copy_vectors(dst, src, src_step, rows, 2);
            return;
        case 3 * LANES:
            copy_vectors(dst, src, src_step, rows, 3);
            return;
        case 4 * LANES:
            copy_vectors(dst, src, src_step, rows, 4);
            return;
        default:
            break;
        }
    }
    for (int64_t i = 0; i < rows; i++, src += src_step, dst += width) {
        copy_row(dst, (const element *)src, channels, width);
    }
}

/* Rows of a matrix (k, oc): in a panel, each is the next row. */
OUTLINE void copy_rows(const struct pplconv_pack_weights_args *a) {
    const int64_t size = sizeof(element), width = a->panel_width, k = a->ic;
    for (int64_t i = 0; i < k; i += ROWS) {
        const int64_t rows = least(k - i, ROWS);
        const char *src = AT_CONST(char, a->src, i * a->src_ks);
        for (int64_t o = a->oc_begin; o < a->oc_end; o += width) {
            copy_panel((element *)a->dst + o * k + i * width, src + o * size, a->src_ks, rows,
                       least(a->oc_end - o, width), width);
        }
    }
}

/* One channel's kr neighbouring weights side by side, for kernels that multiply kr of them at once:
 * element by element, over zeros. */
OUTLINE void pack_groups(const struct pplconv_pack_weights_args *a) {
    const int64_t taps = a->taps, together = a->channel_block, width = a->panel_width, kr = a->kr;
    const int64_t k = (a->ic + together - 1) / together * together * taps;
    const int64_t depth = (k + kr - 1) / kr * kr;
    for (int64_t o = a->oc_begin; o < a->oc_end; o += width) {
        element *panel = (element *)a->dst + o * depth;
        const int64_t channels = least(a->oc_end - o, width);
        clear(panel, depth * width);
        for (int64_t row = 0; row < k; row++) {
            const int64_t c = row / (together * taps) * together + row % together;
            const int64_t t = row / together % taps;
            const char *src = AT_CONST(char, a->src, o * a->src_os + (c * taps + t) * a->src_ks);
            element *dst = panel + row / kr * kr * width + row % kr;
            for (int64_t i = 0; i < channels && c < a->ic; i++) {
                dst[i * kr] = *AT_CONST(element, src, i * a->src_os);
            }
        }
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_pack_weights_args *a = argument;
    const int64_t size = sizeof(element), taps = a->taps, width = a->panel_width;
    const int64_t together = a->channel_block, k = a->ic * taps;
    const int64_t whole = a->ic / together * together, left = a->ic - whole;
    const int64_t packed_k = (whole + (left ? together : 0)) * taps, step = a->src_os;

    if (a->kr != 1) {
        pack_groups(a);
        return;
    }
    if (a->src_ks != size) {
        copy_rows(a);
        return;
    }
    for (int64_t o = a->oc_begin; o < a->oc_end; o += width) {
        element *panel = (element *)a->dst + o * packed_k;
        const char *src = AT_CONST(char, a->src, o *step);
        for (int64_t k0 = 0; k0 < k; k0 += PIECE) {
            int64_t place[PIECE];
            const int64_t count = least(k - k0, PIECE);
            find_places(place, a, k0, count);
            pack_piece(a, src + k0 * size, step, least(a->oc_end - o, width), count, panel, place);
        }
        for (int64_t t = 0; left && t < taps; t++) { /* channels that the last block lacks */
            clear(panel + (whole * taps + t * together + left) * width, (together - left) * width);
        }
    }
}
