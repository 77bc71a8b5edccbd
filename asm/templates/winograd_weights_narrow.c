/* U of weights (oc, ic, NR, NR) by integer matrices: G times the least number that leaves no
 * fractions. The layout is that of winograd_weights.c, except that neighbouring input channels lie
 * in pairs. */
#include "winograd.h"

/* A vector has pairs of ACROSS output channels, a line of the cache TOGETHER vectors: they are
 * stored one after the other, since lines of all positions often share a set. */
enum { KR = 2, ACROSS = LANES / KR, TOGETHER = 64 / PPLCONV_VECTOR_BYTES };

/* Both channels of a pair, of `rows` output channels, with zeros for missing channels. */
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

/* U of one vector, zeros where there are no channels. */
static void make_vector(const struct pplconv_winograd_weights_args *a, int64_t oc, int64_t rows,
                        int64_t channel, value u[PATCH * PATCH]) {
    element taps[TAPS * TAPS][LANES];
    if (rows > 0 && channel < a->ic) {
        gather(a, oc, least(rows, ACROSS), channel, taps);
        transform_filters(taps, u);
    } else {
        memset(u, 0, PATCH * PATCH * sizeof(value));
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_winograd_weights_args *a = argument;
    const int64_t width = a->panel_width;
    value u[TOGETHER][PATCH * PATCH];

    for (int64_t o = a->oc_begin; o < a->oc_end; o += width) {
        const int64_t valid = least(a->oc_end - o, width);
        element *panel = (element *)a->dst + o * a->ic_padded;
        for (int64_t c = 0; c < a->ic_padded; c += KR) {
            for (int64_t i = 0; i < width; i += ACROSS * TOGETHER) {
                for (int v = 0; v < TOGETHER; v++) {
                    const int64_t at = i + v * ACROSS;
                    make_vector(a, o + at, valid - at, c, u[v]);
                }
                const int64_t stored = least(width - i, ACROSS * TOGETHER) * KR;
                for (int position = 0; position < PATCH * PATCH; position++) {
                    element *to = AT(element, panel + c * width + i * KR, position * a->dst_ps);
                    for (int v = 0; v < TOGETHER; v++, to += LANES) {
                        const int64_t left = stored - v * LANES;
                        if (left >= LANES) *(unaligned_vector *)to = u[v][position];
                        else if (left > 0) memcpy(to, &u[v][position], left * sizeof(element));
                    }
                }
            }
        }
    }
}
