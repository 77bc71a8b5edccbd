/* U = G g G^T of weights (oc, ic, NR, NR) in double precision, rounded once, into panels of
 * output channels for each position of the patch: channels across, input channels down. */
#define WINOGRAD_F64 1
#include "transpose.h"
#include "winograd.h"

enum {
    DOUBLES = PPLCONV_VECTOR_BYTES / 8, /* in one vector */
    GROUPS = LANES / DOUBLES,           /* vectors of doubles for one of elements */
    DEPTH = 16,                         /* input channels in a turn */
    K = DEPTH * TAPS * TAPS,
};

typedef element narrow
    __attribute__((vector_size(PPLCONV_VECTOR_BYTES / (8 / sizeof(element))), may_alias));

/* Turn `rows` rows of k weights into k vectors of LANES output channels, zero beyond `rows`. */
INLINE void turn(const element *src, int64_t src_step, int64_t rows, int64_t k, vector staged[K]) {
    const vector zero = {0};
    for (int64_t k0 = 0; k0 < k; k0 += LANES) {
        const int64_t count = k - k0 < LANES ? k - k0 : LANES;
        vector block[LANES];
        if (rows == LANES && count == LANES) {
            UNROLL for (int i = 0; i < LANES; i++) {
                block[i] = *(const unaligned_vector *)(src + i * src_step + k0);
            }
        } else {
            UNROLL for (int i = 0; i < LANES; i++) {
                block[i] = i < rows ? load_lanes(src + i * src_step + k0, count) : zero;
            }
        }
        transpose(block);
        UNROLL for (int i = 0; i < LANES; i++) {
            if (i < count) staged[k0 + i] = block[i];
        }
    }
}

/* The filters of LANES output channels. */
INLINE void transform_filters(const vector *g, vector u[PATCH * PATCH]) {
    UNROLL for (int group = 0; group < GROUPS; group++) {
        value half[PATCH][TAPS];
        UNROLL for (int c = 0; c < TAPS; c++) {
            value x[TAPS], y[PATCH];
            UNROLL for (int r = 0; r < TAPS; r++) {
                const narrow *taps = (const narrow *)&g[r * TAPS + c];
                x[r] = __builtin_convertvector(taps[group], value);
            }
            transform_weights(x, y);
            UNROLL for (int r = 0; r < PATCH; r++)
                half[r][c] = y[r];
        }
        UNROLL for (int r = 0; r < PATCH; r++) {
            value y[PATCH];
            transform_weights(half[r], y);
            UNROLL for (int c = 0; c < PATCH; c++) {
                narrow *out = (narrow *)&u[r * PATCH + c];
                out[group] = __builtin_convertvector(y[c], narrow);
            }
        }
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_winograd_weights_args *a = argument;
    const int64_t taps = TAPS * TAPS, width = a->panel_width;
    vector staged[K], u[PATCH * PATCH];

    for (int64_t o = a->oc_begin; o < a->oc_end; o += width) {
        const int64_t valid = a->oc_end - o < width ? a->oc_end - o : width;
        element *panel = (element *)a->dst + o * a->ic_padded;
        for (int64_t c0 = 0; c0 < a->ic_padded; c0 += DEPTH) {
            const int64_t padded = a->ic_padded - c0 < DEPTH ? a->ic_padded - c0 : DEPTH;
            int64_t depth = a->ic - c0 < padded ? a->ic - c0 : padded;
            if (depth < 0) depth = 0;
            for (int64_t i = 0; i < width; i += LANES) {
                const int64_t rows = valid - i < LANES ? valid - i : LANES;
                const int64_t lanes = width - i < LANES ? width - i : LANES;
                const element *src = (const element *)a->src;
                if (rows > 0 && depth > 0) {
                    src += ((o + i) * a->ic + c0) * taps;
                    turn(src, a->ic * taps, rows, depth * taps, staged);
                }
                for (int64_t c = 0; c < padded; c++) {
                    if (rows > 0 && c < depth) transform_filters(staged + c * taps, u);
                    else memset(u, 0, sizeof u);
                    element *dst = panel + (c0 + c) * width + i;
                    for (int position = 0; position < PATCH * PATCH; position++) {
                        element *to = AT(element, dst, position * a->dst_ps);
                        if (lanes == LANES) *(unaligned_vector *)to = u[position];
                        else store_lanes(to, u[position], lanes);
                    }
                }
            }
        }
    }
}
