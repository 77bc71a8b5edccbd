/* Copies of items to or from places that indices name. */
#include <string.h>

#include "template.h"

#if PPLCONV_TYPE_S64
typedef int64_t number;
#else
typedef int32_t number;
#endif

/* Whether the indices of item i are in range; adds what they come to. */
static inline int find(const struct pplconv_copy_indexed_args *a, int64_t i, int64_t *from,
                       int64_t *to) {
    const number *index = AT_CONST(number, a->index, i * a->index_step);
    const int64_t *limits = a->limits, *src = a->src_strides, *dst = a->dst_strides;
    int32_t *refused = a->refused;
    for (int64_t d = 0; d < a->depth; d++) {
        const int64_t given = index[d], at = given < 0 ? given + limits[d] : given;
        if (at < 0 || at >= limits[d]) {
            /* Threads that refuse at the same time agree on nothing but that. */
            const int64_t low = given < INT32_MIN ? INT32_MIN : given;
            const int32_t told = (int32_t)(low > INT32_MAX ? INT32_MAX : low);
            __atomic_store_n(refused + 1, told, __ATOMIC_RELAXED);
            __atomic_store_n(refused, 1, __ATOMIC_RELAXED);
            return 0;
        }
        *from += at * src[d];
        *to += at * dst[d];
    }
    return 1;
}

static inline __attribute__((always_inline)) void copy(const struct pplconv_copy_indexed_args *a,
                                                       int64_t size) {
    for (int64_t i = 0; i < a->count; i++) {
        int64_t from = i * a->src_step, to = i * a->dst_step;
        /* Operands of a file that means harm may overlap. */
        if (find(a, i, &from, &to))
            memmove(AT(char, a->dst, to), AT_CONST(char, a->src, from), (size_t)size);
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_copy_indexed_args *a = argument;
    /* Sizes that the compiler knows are copied without a call. */
    switch (a->size) {
    case 1:
        copy(a, 1);
        break;
    case 4:
        copy(a, 4);
        break;
    case 8:
        copy(a, 8);
        break;
    default:
        copy(a, a->size);
    }
}
