/* Truths: bytes that become 0 or 1 on their way into a vector, and on their way out of it. */
#ifndef PPLCONV_TRUTHS_H
#define PPLCONV_TRUTHS_H

#include "template.h"

typedef uint8_t truth_vector __attribute__((vector_size(LANES)));

static inline vector truth(vector_bits mask) {
    const vector zero = {0};
    return select_lanes(mask, zero + (element)1, zero);
}

/* The first n lanes, LANES or fewer, and zeros in the others. */
static inline vector load_truths(const uint8_t *p, int64_t n) {
    truth_vector bytes = {0};
    if (n >= LANES) memcpy(&bytes, p, sizeof bytes);
    else if (n > 0) memcpy(&bytes, p, (size_t)n);
    return truth(__builtin_convertvector(bytes, vector_bits) != 0);
}

static inline void store_truths(uint8_t *p, vector v, int64_t n) {
    const vector zero = {0};
    const truth_vector bytes = __builtin_convertvector((vector_bits)(v != zero) & 1, truth_vector);
    if (n >= LANES) memcpy(p, &bytes, sizeof bytes);
    else if (n > 0) memcpy(p, &bytes, (size_t)n);
}

#endif
