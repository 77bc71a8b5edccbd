/* V = B^T d B of neighbouring tiles, from a channels-last image into one matrix for each
 * position of the patch. Every value is stored once; what is outside the image is not read. Bytes
 * become words as they are loaded. */
#define WINOGRAD_F64 PPLCONV_F64
#define WINOGRAD_PIXELS 1
#include "winograd.h"

enum { PIXEL = (int)sizeof(pixel), ELEMENT = (int)sizeof(element) };

/* The part of a patch that is inside the image: rows by their offsets and sets of lanes, the
 * empty set for those outside; columns begin .. end - 1. */
struct inside {
    int64_t row[PATCH], begin, end;
    lane_set lanes[PATCH];
};

/* A column outside the image: zeros remain zeros. */
INLINE void transform_outside(value outside, value y[PATCH]) {
#if WINOGRAD_INTEGERS
    value x[PATCH];
    UNROLL for (int r = 0; r < PATCH; r++)
        x[r] = outside;
    transform_input(x, y);
#else
    UNROLL for (int r = 0; r < PATCH; r++)
        y[r] = outside;
#endif
}

/* One patch of `channels` lanes. It is compiled for each case: whether the patch lies on the `edge`
 * of the image, and whether `all` lanes of its vectors are in use. A patch with unused lanes counts
 * as an edge. */
INLINE void transform_patch(const char *src, int64_t src_rs, int64_t src_ps,
                            const struct inside *inside, value outside, char *dst, int64_t dst_ps,
                            int64_t channels, int edge, int all) {
    value half[PATCH][PATCH];
    UNROLL for (int c = 0; c < PATCH; c++) {
        const char *column = visit_const(&src, c, src_ps);
        value x[PATCH], y[PATCH];
        if (edge && (c < inside->begin || c >= inside->end)) {
            transform_outside(outside, y);
            UNROLL for (int r = 0; r < PATCH; r++)
                half[r][c] = y[r];
            continue;
        }
        UNROLL for (int r = 0; r < PATCH; r++) {
            if (edge) {
                const pixel *from = AT_CONST(pixel, column, inside->row[r]);
                x[r] = load_inside(from, channels, inside->lanes[r], outside);
            } else {
                x[r] = load_pixels(visit_const(&column, r, src_rs));
            }
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
    const value outside = outside_of(a);
    struct inside inside;

    for (int r = 0; r < PATCH; r++) {
        const int valid = r >= a->row_begin && r < a->row_end;
        /* An address inside the image, though nothing is read from it: masked loads of pages
         * that do not exist are slow. */
        inside.row[r] = (valid ? r : a->row_begin) * src_rs;
        inside.lanes[r] = lanes_up_to(valid ? LANES : 0);
    }
    for (int64_t tile = 0; tile < a->tiles; tile++) {
        const char *src = (const char *)a->src + tile * a->step * src_ps;
        char *dst = (char *)a->dst + tile * a->dst_ts;
        inside.begin = a->column_begin - tile * a->step;
        inside.end = any_row ? a->column_end - tile * a->step : inside.begin;
        const int edge = !all_rows || inside.begin > 0 || inside.end < PATCH;
        int64_t channel = 0;
        if (edge) {
            for (; channel < whole; channel += LANES) {
                transform_patch(src + channel * PIXEL, src_rs, src_ps, &inside, outside,
                                dst + channel * ELEMENT, dst_ps, LANES, 1, 1);
            }
        } else {
            for (; channel < whole; channel += LANES) {
                transform_patch(src + channel * PIXEL, src_rs, src_ps, &inside, outside,
                                dst + channel * ELEMENT, dst_ps, LANES, 0, 1);
            }
        }
        if (rest) {
            struct inside part = inside;
            for (int r = 0; r < PATCH; r++) {
                const int valid = r >= a->row_begin && r < a->row_end;
                part.lanes[r] = lanes_up_to(valid ? rest : 0);
            }
            transform_patch(src + channel * PIXEL, src_rs, src_ps, &part, outside,
                            dst + channel * ELEMENT, dst_ps, rest, 1, 0);
        }
    }
}
