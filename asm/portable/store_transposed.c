/* The one store of a tile whose vectors ran over output channels while the user's array has
 * pixels side by side: blocks of LANES x LANES are transposed in registers, and the epilogue
 * happens on the way out. */
#include "lanes.h"
#include "transpose.h"

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_store_transposed_args *a = argument;
    const int64_t flags = a->flags;
    const element *bounds = a->clip;
    const vector zero = {0};
    const vector low = zero + (flags & PPLCONV_CLIP ? bounds[0] : 0);
    const vector high = zero + (flags & PPLCONV_CLIP ? bounds[1] : 0);

    for (int64_t j = 0; j < a->columns; j += LANES) {
        const int64_t columns = a->columns - j < LANES ? a->columns - j : LANES;
        const element *bias = (const element *)a->bias + j;
        for (int64_t i = 0; i < a->rows; i += LANES) {
            const int64_t rows = a->rows - i < LANES ? a->rows - i : LANES;
            const element *src = AT_CONST(element, a->src, i * a->src_rs) + j;
            element *dst = AT(element, a->dst, j * a->dst_rs) + i;
            const element *residual = AT_CONST(element, a->residual, j * a->residual_rs) + i;
            vector block[LANES];
            if (rows == LANES && columns == LANES) {
                UNROLL for (int r = 0; r < LANES; r++) {
                    block[r] = *AT_CONST(unaligned_vector, src, r * a->src_rs);
                }
            } else {
                UNROLL for (int r = 0; r < LANES; r++) {
                    block[r] = r < rows ? load_lanes(AT_CONST(element, src, r * a->src_rs), columns)
                                        : zero;
                }
            }
            transpose(block);
            UNROLL for (int c = 0; c < LANES; c++) {
                if (c >= columns) break;
                vector x = block[c];
                if (flags & PPLCONV_BIAS_COLUMN) x += bias[c];
                if (flags & PPLCONV_RESIDUAL) {
                    x += load_lanes(AT_CONST(element, residual, c * a->residual_rs), rows);
                }
                if (flags & PPLCONV_CLIP) { /* NaN compares false and passes through */
                    x = select_lanes(x < low, low, x);
                    x = select_lanes(x > high, high, x);
                }
                store_lanes(AT(element, dst, c * a->dst_rs), x, rows);
            }
        }
    }
}
