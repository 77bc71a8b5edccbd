/* Boxes that overlap no better one too much. Boxes taken until now lie coordinate by coordinate, so
 * that a vector of them meets the next box at once. */
#include "row_tools.h"

enum { BOTTOM, LEFT, TOP, RIGHT, AREA, PARTS };

INLINE int any_lane(vector_bits mask) {
#if PPLCONV_VECTOR_BYTES == 64
    return _mm512_movepi32_mask((__m512i)mask) != 0;
#elif PPLCONV_VECTOR_BYTES == 32
    return _mm256_movemask_epi8((__m256i)mask) != 0;
#else
    element_bits all = 0;
    UNROLL for (int i = 0; i < LANES; i++)
        all |= mask[i];
    return all != 0;
#endif
}

INLINE element smaller(element a, element b) { return b < a ? b : a; }
INLINE element larger(element a, element b) { return b > a ? b : a; }

/* Whether a box overlaps one of `count` taken ones too much; lanes beyond them have no area. */
static int overlaps(const struct pplconv_suppress_args *a, const element box[PARTS],
                    int64_t count) {
    const vector zero = {0}, most = zero + *(const element *)a->threshold;
    vector part[PARTS];
    const element *row[PARTS];
    UNROLL for (int k = 0; k < PARTS; k++) {
        part[k] = zero + box[k];
        row[k] = AT_CONST(element, a->taken, k * a->taken_rs);
    }
    for (int64_t j = 0; j < count; j += LANES) {
        vector other[PARTS];
        UNROLL for (int k = 0; k < AREA; k++)
            other[k] = *(const unaligned_vector *)(row[k] + j);
        const vector height =
            at_most(part[TOP], other[TOP]) - at_least(part[BOTTOM], other[BOTTOM]);
        const vector width = at_most(part[RIGHT], other[RIGHT]) - at_least(part[LEFT], other[LEFT]);
        const vector_bits meet = (height > zero) & (width > zero);
        if (!any_lane(meet)) continue;
        const vector common = height * width;
        const vector joined = part[AREA] + *(const unaligned_vector *)(row[AREA] + j) - common;
        if (any_lane(meet & (common > zero) & (joined > zero) & (common / joined > most))) return 1;
    }
    return 0;
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_suppress_args *a = argument;
    const element *boxes = a->boxes;
    int64_t *places = a->places, found = 0, solid = 0;
    for (int64_t i = 0; i < a->count && found < a->most; i++) {
        element box[PARTS];
        for (int k = 0; k < 2; k++) {
            const element x = boxes[k * a->count + i], y = boxes[(k + 2) * a->count + i];
            box[k] = smaller(x, y);
            box[k + 2] = larger(x, y);
        }
        box[AREA] = (box[TOP] - box[BOTTOM]) * (box[RIGHT] - box[LEFT]);
        const int has_area = box[AREA] > 0;
        if (has_area && overlaps(a, box, solid)) continue;
        places[found++] = i;
        if (!has_area) continue;
        /* Lanes beyond the last box, which is there now, overlap nothing. */
        for (int k = 0; k < PARTS; k++) {
            element *row = AT(element, a->taken, k * a->taken_rs);
            row[solid] = box[k];
            for (int64_t j = solid + 1; solid % LANES == 0 && j < solid + LANES; j++) row[j] = 0;
        }
        solid++;
    }
    *(int64_t *)a->found = found;
    clean_registers();
}
