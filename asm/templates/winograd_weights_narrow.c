/* U of weights (oc, ic, NR, NR) by integer matrices: G times the least number that leaves no
 * fractions. As winograd_weights.c has it, but that neighbouring input channels lie in pairs. */
#include "winograd.h"

enum { KR = 2, ACROSS = LANES / KR }; /* a vector: pairs of so many output channels */

/* Both channels of a pair, of `rows` output channels: what there is of them, beside zeros. */
static void gather(const struct pplconv_winograd_weights_args *a, int64_t oc, int64_t rows,
                   int64_t channel, element taps[TAPS * TAPS][LANES]) {
    const int64_t size = TAPS * TAPS, step = a->ic * size;
    const int64_t held = a->ic - channel < KR ? a->ic - channel : KR;
    const element *src = (const element *)a->src + oc * step + channel * size;
    if (rows < ACROSS || held < KR) memset(taps, 0, size * LANES * sizeof(element));
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t c = 0; c < held; c++) {
            for (int64_t tap = 0; tap < size; tap++) {
                taps[tap][row * KR + c] = src[row * step + c * size + tap];
            }
        }
    }
}

static void transform_filters(element taps[TAPS * TAPS][LANES], value u[PATCH * PATCH]) {
    value half[PATCH][TAPS];
    UNROLL for (int c = 0; c < TAPS; c++) {
        value x[TAPS], y[PATCH];
        UNROLL for (int r = 0; r < TAPS; r++)
            x[r] = *(const unaligned_vector *)taps[r * TAPS + c];
        transform_weights(x, y);
        UNROLL for (int r = 0; r < PATCH; r++)
            half[r][c] = y[r];
    }
    UNROLL for (int r = 0; r < PATCH; r++)
        transform_weights(half[r], u + r * PATCH);
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_winograd_weights_args *a = argument;
    const int64_t width = a->panel_width;
    element taps[TAPS * TAPS][LANES];
    value u[PATCH * PATCH];

    for (int64_t o = a->oc_begin; o < a->oc_end; o += width) {
        const int64_t valid = least(a->oc_end - o, width);
        element *panel = (element *)a->dst + o * a->ic_padded;
        for (int64_t c = 0; c < a->ic_padded; c += KR) {
            for (int64_t i = 0; i < width; i += ACROSS) {
                const int64_t rows = least(valid - i, ACROSS), stored = least(width - i, ACROSS);
                if (rows > 0 && c < a->ic) {
                    gather(a, o + i, rows, c, taps);
                    transform_filters(taps, u);
                } else {
                    memset(u, 0, sizeof u);
                }
                for (int position = 0; position < PATCH * PATCH; position++) {
                    element *to = AT(element, panel + c * width + i * KR, position * a->dst_ps);
                    if (stored == ACROSS) *(unaligned_vector *)to = u[position];
                    else memcpy(to, &u[position], stored * KR * sizeof(element));
                }
            }
        }
    }
}
