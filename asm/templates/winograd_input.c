/* V = B^T d B of neighbouring tiles, from a channels-last image into one matrix for each
 * position of the patch. Every value is stored once; what is outside the image is not read. */
#define WINOGRAD_F64 PPLCONV_F64
#include "winograd.h"

/* The part of a patch that is inside the image: rows by their offsets and sets of lanes, the
 * empty set for those outside; columns begin .. end - 1. */
struct inside {
    int64_t row[PATCH], begin, end;
    lane_set lanes[PATCH];
};

/* One patch of `channels` lanes. Compiled for the cases that it lies on the `edge` of the image
 * or not, and that `all` lanes of its vectors are in use or not; those that are not count as
 * edges. */
INLINE void transform_patch(const char *src, int64_t src_rs, int64_t src_ps,
                            const struct inside *inside, char *dst, int64_t dst_ps,
                            int64_t channels, int edge, int all) {
    const value zero = {0};
    value half[PATCH][PATCH];
    UNROLL for (int c = 0; c < PATCH; c++) {
        const char *column = visit_const(&src, c, src_ps);
        value x[PATCH], y[PATCH];
        if (edge && (c < inside->begin || c >= inside->end)) {
            UNROLL for (int r = 0; r < PATCH; r++)
                half[r][c] = zero;
            continue;
        }
        UNROLL for (int r = 0; r < PATCH; r++) {
#if PPLCONV_NEON
            if (edge) {
                const element *from = AT_CONST(element, column, inside->row[r]);
                x[r] = load_kept(from, channels, inside->lanes[r]);
            }
#else
            if (edge) x[r] = load_set(AT_CONST(element, column, inside->row[r]), inside->lanes[r]);
#endif
            else
                x[r] = *(const unaligned_vector *)visit_const(&column, r, src_rs);
        }
        transform_input(x, y);
        UNROLL for (int r = 0; r < PATCH; r++)
            half[r][c] = y[r];
    }
    UNROLL for (int r = 0; r < PATCH; r++) {
        value y[PATCH];
        transform_input(half[r], y);
        UNROLL for (int c = 0; c < PATCH; c++) {
            element *to = (element *)visit(&dst, r * PATCH + c, dst_ps);
            if (all) *(unaligned_vector *)to = y[c];
            else store_tail(to, y[c], channels);
        }
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_winograd_input_args *a = argument;
    const int64_t whole = a->channels / LANES * LANES, rest = a->channels - whole;
    const int64_t src_rs = a->src_rs, src_ps = a->src_ps, dst_ps = a->dst_ps;
    const int all_rows = a->row_begin <= 0 && a->row_end >= PATCH;
    const int any_row = a->row_begin < a->row_end;
    struct inside inside;

    for (int r = 0; r < PATCH; r++) {
        const int valid = r >= a->row_begin && r < a->row_end;
        /* An address inside the image, though nothing is read from it: masked loads of pages
         * that do not exist are slow. */
        inside.row[r] = (valid ? r : a->row_begin) * src_rs;
        inside.lanes[r] = lanes_up_to(valid ? LANES : 0);
    }
    for (int64_t tile = 0; tile < a->tiles; tile++) {
        const char *src = (const char *)a->src + tile * TILE * src_ps;
        char *dst = (char *)a->dst + tile * a->dst_ts;
        inside.begin = a->column_begin - tile * TILE;
        inside.end = any_row ? a->column_end - tile * TILE : inside.begin;
        const int edge = !all_rows || inside.begin > 0 || inside.end < PATCH;
        int64_t channel = 0;
        if (edge) {
            for (; channel < whole; channel += LANES) {
                const int64_t offset = channel * (int64_t)sizeof(element);
                transform_patch(src + offset, src_rs, src_ps, &inside, dst + offset, dst_ps, LANES,
                                1, 1);
            }
        } else {
            for (; channel < whole; channel += LANES) {
                const int64_t offset = channel * (int64_t)sizeof(element);
                transform_patch(src + offset, src_rs, src_ps, &inside, dst + offset, dst_ps, LANES,
                                0, 1);
            }
        }
        if (rest) {
            const int64_t offset = channel * (int64_t)sizeof(element);
            struct inside part = inside;
            for (int r = 0; r < PATCH; r++) {
                const int valid = r >= a->row_begin && r < a->row_end;
                part.lanes[r] = lanes_up_to(valid ? rest : 0);
            }
            transform_patch(src + offset, src_rs, src_ps, &part, dst + offset, dst_ps, rest, 1, 0);
        }
    }
}
