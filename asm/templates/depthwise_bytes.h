/* Common part of the depthwise kernels of bytes and of the packing of their weights: how four taps
 * at a time are multiplied, and the layout of weights for it.
 *
 * QUADS: four bytes of one sum side by side, times four weights of eight bits, one instruction.
 * PAIRS: two words of one sum side by side, times two weights of sixteen bits; a quad is two pairs,
 * its even bytes and its odd ones. TAPS: tap by tap, whatever the weights and the machine. */
#ifndef PPLCONV_DEPTHWISE_BYTES_H
#define PPLCONV_DEPTHWISE_BYTES_H

#include "depthwise.h"

enum { QUADS, PAIRS, TAPS };

#if PPLCONV_TYPE_S8
typedef int8_t item;
enum { SIGNED = 1 };
#else
typedef uint8_t item;
enum { SIGNED = 0 };
#endif

#if __AVX512VNNI__ || __AVXVNNI__ || __ARM_FEATURE_DOTPROD
#define FAST QUADS
#elif PPLCONV_VECTOR_BYTES >= 32
#define FAST PAIRS
#else
#define FAST TAPS
#endif

/* Vectors take bytes of one signedness. Bytes of the other are converted by flipping their highest
 * bit, which adds or subtracts 128. */
#if __ARM_FEATURE_DOTPROD
typedef int8_t operand;
enum { FLIPS = !SIGNED, ADDED = -128 };
#else
typedef uint8_t operand;
enum { FLIPS = SIGNED, ADDED = 128 };
#endif

/* A unit of weights of depthwise_bytes_channels is for so many channels: four vectors of sums, as
 * many as one vector of bytes has items. */
enum { UNIT = 4 * LANES, UNIT_HEADER = 64, MOST_SIZE = 5, MOST_LINES = 8, MOST_ROWS = 2 };

/* Output rows of a block with this size and stride, the lines that they see, and the quads that
 * those make. */
INLINE int rows_of(const int size, const int stride) { return size == 3 && stride == 2 ? 1 : 2; }
INLINE int lines_of(const int size, const int stride) {
    return (rows_of(size, stride) - 1) * stride + size;
}
INLINE int quads_of(const int lines) { return (lines + 3) / 4; }

/* Bytes of the weights of one vector of channels: the starting values of the sums, then for each
 * column of the kernel, row of the block and quad of lines one vector, or two vectors, of even
 * lines and of odd ones. */
INLINE int64_t record_of(const int size, const int stride, const int format) {
    const int vectors = size * rows_of(size, stride) * quads_of(lines_of(size, stride));
    return (1 + vectors * (format == PAIRS ? 2 : 1)) * PPLCONV_VECTOR_BYTES;
}

/* Size of a kernel that has loops of its own, or 0. They are made for strides of columns; where
 * that of rows differs, they compute one row at a time. */
static inline int square_size(const struct pplconv_geometry *g, int64_t multiplier) {
    const int square = g->kh == g->kw && g->dilation_h == 1 && g->dilation_w == 1 &&
                       multiplier == 1 && FAST != TAPS;
    return square && (g->kh == 3 || g->kh == 5) && g->stride_w >= 1 && g->stride_w <= 2 ? (int)g->kh
                                                                                        : 0;
}

/* A vector of sums, and of bytes on the way to them: GCC has an instruction that makes words of
 * bytes and one that makes sums of words, not both in one. */
typedef int32_t lane_sums __attribute__((vector_size(4 * LANES)));
typedef lane_sums unaligned_sums __attribute__((aligned(4), may_alias));
#if PPLCONV_VECTOR_BYTES >= 32
typedef int16_t lane_words __attribute__((vector_size(2 * LANES)));
#else
typedef lane_sums lane_words;
#endif

/* The first words of a unit, and of a channel of depthwise_bytes_pixels. Weights follow. */
struct packed {
    int32_t format;
    int32_t start; /* of a channel: the starting value of its sums */
};

#endif
