/* The one store of a tile whose vectors ran over output channels while the user's array has
 * pixels side by side: blocks of LANES x LANES are transposed on the way in, and the epilogue
 * happens on the way out. */
#include "lanes.h"
#include "transpose.h"

/* Epilogue of one call. */
struct epilogue {
    int64_t flags, residual_rs;
    vector low, high;
};

INLINE void apply(const struct epilogue *e, vector block[LANES], const element bias[LANES],
                  const element *residual, int64_t rows, int64_t columns) {
    if (e->flags & PPLCONV_BIAS_COLUMN) {
        UNROLL for (int c = 0; c < LANES; c++)
            block[c] += bias[c];
    }
    if (e->flags & PPLCONV_RESIDUAL) {
        if (rows == LANES && columns == LANES) {
            UNROLL for (int c = 0; c < LANES; c++) {
                block[c] += *AT_CONST(unaligned_vector, residual, c * e->residual_rs);
            }
        } else {
            UNROLL for (int c = 0; c < LANES; c++) {
                if (c >= columns) break;
                block[c] += load_lanes(AT_CONST(element, residual, c * e->residual_rs), rows);
            }
        }
    }
    if (e->flags & PPLCONV_CLIP) {
        UNROLL for (int c = 0; c < LANES; c++) {
            block[c] = at_most(at_least(block[c], e->low), e->high);
        }
    }
}

#if PPLCONV_NEON
/* All whole blocks of LANES columns. Blocks of 16 bytes a side are so little work that what the
 * general loop decides for each would cost as much again. */
INLINE void store_strip(struct epilogue e, const char *src, int64_t src_rs, char *dst,
                        int64_t dst_rs, const element bias[LANES], const char *residual,
                        int64_t rows) {
    const struct epilogue rest = {e.flags & ~PPLCONV_BIAS_COLUMN, e.residual_rs, e.low, e.high};
    vector added[LANES] = {{0}};
    UNROLL for (int c = 0; c < LANES; c++) {
        added[c] += bias[c];
        __asm__("" : "+w"(added[c])); /* stays a register */
    }
    for (; rows >= LANES; rows -= LANES) {
        vector block[LANES];
        load_transposed(block, src, src_rs);
        if (e.flags & PPLCONV_BIAS_COLUMN) {
            UNROLL for (int c = 0; c < LANES; c++)
                block[c] += added[c];
        }
        apply(&rest, block, bias, (const element *)residual, LANES, LANES);
        UNROLL for (int c = 0; c < LANES; c++)
            *AT(unaligned_vector, dst, c * dst_rs) = block[c];
        src += LANES * src_rs;
        dst += sizeof(vector);
        residual += sizeof(vector);
    }
}
#endif

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_store_transposed_args *a = argument;
    const element *bounds = a->clip;
    const vector zero = {0};
    const struct epilogue e = {
        .flags = a->flags & (PPLCONV_BIAS_COLUMN | PPLCONV_RESIDUAL | PPLCONV_CLIP),
        .residual_rs = a->residual_rs,
        .low = zero + (a->flags & PPLCONV_CLIP ? bounds[0] : 0),
        .high = zero + (a->flags & PPLCONV_CLIP ? bounds[1] : 0),
    };

    const int64_t whole_rows = a->rows / LANES * LANES, left = a->rows - whole_rows;
    const char *last_rows[LANES];
    find_rows(last_rows, AT_CONST(char, a->src, whole_rows * a->src_rs), a->src_rs, left);
    const int64_t dst_rs = a->dst_rs;
    for (int64_t j = 0; j < a->columns; j += LANES) {
        const int64_t columns = a->columns - j < LANES ? a->columns - j : LANES;
        element bias[LANES] = {0};
        if (e.flags & PPLCONV_BIAS_COLUMN) {
            *(unaligned_vector *)bias = load_lanes((const element *)a->bias + j, columns);
        }
        int64_t i = 0;
#if PPLCONV_NEON
        if (columns == LANES) {
            const int64_t at = j * (int64_t)sizeof(element);
            const char *src = AT_CONST(char, a->src, at);
            char *dst = AT(char, a->dst, j *dst_rs);
            const char *residual = AT_CONST(char, a->residual, j * a->residual_rs);
            const struct epilogue none = {0};
            if (e.flags) store_strip(e, src, a->src_rs, dst, dst_rs, bias, residual, a->rows);
            else store_strip(none, src, a->src_rs, dst, dst_rs, bias, residual, a->rows);
            i = whole_rows;
        }
#endif
        for (; i < a->rows; i += LANES) {
            const int64_t rows = a->rows - i < LANES ? a->rows - i : LANES;
            const element *src = AT_CONST(element, a->src, i * a->src_rs) + j;
            element *dst = AT(element, a->dst, j * dst_rs) + i;
            const element *residual = AT_CONST(element, a->residual, j * a->residual_rs) + i;
            vector block[LANES];
            if (columns < LANES) {
                load_transposed_part(block, src, a->src_rs, rows, columns);
            } else if (rows < LANES) {
                load_rows_transposed(block, last_rows, j * (int64_t)sizeof(element));
            } else {
                load_transposed(block, src, a->src_rs);
            }
            if (e.flags) apply(&e, block, bias, residual, rows, columns);
            if (rows == LANES && columns == LANES) {
                UNROLL for (int c = 0; c < LANES; c++) {
                    *AT(unaligned_vector, dst, c * dst_rs) = block[c];
                }
            } else {
                UNROLL for (int c = 0; c < LANES; c++) {
                    if (c == columns) break;
                    store_lanes(AT(element, dst, c * dst_rs), block[c], rows);
                }
            }
        }
    }
}
