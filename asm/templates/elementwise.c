/* Programs for every element, interpreted a chunk of columns at a time: each instruction works on
 * some vectors in a row, so that choosing what it does costs little beside doing it, and what lies
 * between two instructions never leaves the core's first cache. */
#include <math.h>

#include "curves.h"

enum {
    VECTORS = PPLCONV_VECTOR_BYTES == 64 ? 4 : 8, /* in a chunk */
    CHUNK = VECTORS * LANES,
};

typedef struct {
    vector v[VECTORS];
} chunk;

/* Lane by lane, by a function of the mathematical library. */
#if PPLCONV_F64
#define OF_LIBRARY(name) name
#else
#define OF_LIBRARY(name) name##f
#endif

typedef element (*function)(element);

static void by_lanes(chunk *to, const chunk *a, function f) {
    for (int64_t i = 0; i < VECTORS; i++) {
        for (int64_t j = 0; j < LANES; j++) to->v[i][j] = f(a->v[i][j]);
    }
}

static vector truth(vector_bits mask) {
    const vector zero = {0};
    return select_lanes(mask, zero + (element)1, zero);
}

/* Of two numbers; NaN if one of them is. */
static inline vector smaller(vector a, vector b) {
    return select_lanes(a != a, a, select_lanes(a < b, a, b));
}
static inline vector larger(vector a, vector b) {
    return select_lanes(a != a, a, select_lanes(a > b, a, b));
}

static inline vector absolute(vector x) {
    const vector sign = (vector){0} * (element)-1;
    return (vector)((vector_bits)x & ~(vector_bits)sign);
}

/* Near zero by its series: sigmoid would round away what is left there. */
static inline vector hyperbolic_tangent(vector x) {
#if PPLCONV_F64
    for (int64_t j = 0; j < LANES; j++) x[j] = tanh(x[j]);
    return x;
#else
    const vector zero = {0}, one = zero + (element)1, near = zero + (element)0.3;
    const vector square = x * x;
    vector p = zero + (element)(-1382.0 / 155925);
    p = multiply_add(p, square, zero + (element)(62.0 / 2835));
    p = multiply_add(p, square, zero + (element)(-17.0 / 315));
    p = multiply_add(p, square, zero + (element)(2.0 / 15));
    p = multiply_add(p, square, zero + (element)(-1.0 / 3));
    /* A zero keeps its sign. */
    const vector small = select_lanes(x == zero, x, multiply_add(p * square, x, x));
    const vector y = at_most(absolute(x), zero + (element)20);
    const vector e = exponential(y + y);
    const vector large = one - (element)2 / (e + one);
    const vector signed_large = select_lanes(x < zero, -large, large);
    const vector far = select_lanes(x != x, x, signed_large);
    return select_lanes(absolute(x) < near, small, far);
#endif
}

static inline vector square_root(vector x) {
#if PPLCONV_VECTOR_BYTES == 64 && PPLCONV_F64
    return (vector)_mm512_sqrt_pd((__m512d)x);
#elif PPLCONV_VECTOR_BYTES == 64
    return (vector)_mm512_sqrt_ps((__m512)x);
#elif PPLCONV_VECTOR_BYTES == 32 && PPLCONV_F64
    return (vector)_mm256_sqrt_pd((__m256d)x);
#elif PPLCONV_VECTOR_BYTES == 32
    return (vector)_mm256_sqrt_ps((__m256)x);
#else
    for (int64_t j = 0; j < LANES; j++) x[j] = OF_LIBRARY(sqrt)(x[j]);
    return x;
#endif
}

static element power(element a, element b) { return OF_LIBRARY(pow)(a, b); }

#define FOR_EACH(expression)                                                                       \
    for (int64_t i = 0; i < VECTORS; i++) {                                                        \
        const vector x = a->v[i], y = b->v[i], z = c->v[i];                                        \
        (void)y;                                                                                   \
        (void)z;                                                                                   \
        to->v[i] = (expression);                                                                   \
    }                                                                                              \
    break

static void run_instruction(chunk *registers, const struct pplconv_instruction *s) {
    const vector zero = {0};
    chunk *to = registers + s->to;
    const chunk *a = registers + s->a, *b = registers + s->b, *c = registers + s->c;
    switch (s->op) {
    case PPLCONV_DO_COPY:
        FOR_EACH(x);
    case PPLCONV_DO_ADD:
        FOR_EACH(x + y);
    case PPLCONV_DO_SUBTRACT:
        FOR_EACH(x - y);
    case PPLCONV_DO_MULTIPLY:
        FOR_EACH(x * y);
    case PPLCONV_DO_DIVIDE:
        FOR_EACH(x / y);
    case PPLCONV_DO_MULTIPLY_ADD:
        FOR_EACH(multiply_add(x, y, z));
    case PPLCONV_DO_MINIMUM:
        FOR_EACH(smaller(x, y));
    case PPLCONV_DO_MAXIMUM:
        FOR_EACH(larger(x, y));
    case PPLCONV_DO_CLIP:
        FOR_EACH(at_most(at_least(x, y), z));
    case PPLCONV_DO_NEGATE:
        FOR_EACH(-x);
    case PPLCONV_DO_ABSOLUTE:
        FOR_EACH(absolute(x));
    case PPLCONV_DO_SQUARE_ROOT:
        FOR_EACH(square_root(x));
    case PPLCONV_DO_FLOOR:
        by_lanes(to, a, OF_LIBRARY(floor));
        break;
    case PPLCONV_DO_CEIL:
        by_lanes(to, a, OF_LIBRARY(ceil));
        break;
    case PPLCONV_DO_ROUND:
        by_lanes(to, a, OF_LIBRARY(nearbyint));
        break;
    case PPLCONV_DO_POWER:
        for (int64_t i = 0; i < CHUNK; i++)
            to->v[i / LANES][i % LANES] =
                power(a->v[i / LANES][i % LANES], b->v[i / LANES][i % LANES]);
        break;
    case PPLCONV_DO_EXPONENTIAL:
        FOR_EACH(exponential(x));
    case PPLCONV_DO_LOGARITHM:
        by_lanes(to, a, OF_LIBRARY(log));
        break;
    case PPLCONV_DO_HYPERBOLIC_TANGENT:
        FOR_EACH(hyperbolic_tangent(x));
    case PPLCONV_DO_ERROR_FUNCTION:
        by_lanes(to, a, OF_LIBRARY(erf));
        break;
    case PPLCONV_DO_SIGMOID:
        FOR_EACH(logistic(x, 0));
    case PPLCONV_DO_SILU:
        FOR_EACH(logistic(x, 1));
    case PPLCONV_DO_HARDSWISH:
        FOR_EACH(hardswish(x));
    case PPLCONV_DO_SLOPE:
        FOR_EACH(piecewise(x, y));
    case PPLCONV_DO_LESS:
        FOR_EACH(truth(x < y));
    case PPLCONV_DO_LESS_OR_EQUAL:
        FOR_EACH(truth(x <= y));
    case PPLCONV_DO_EQUAL:
        FOR_EACH(truth(x == y));
    case PPLCONV_DO_NOT:
        FOR_EACH(truth(x == zero));
    case PPLCONV_DO_AND:
        FOR_EACH(truth((x != zero) & (y != zero)));
    case PPLCONV_DO_OR:
        FOR_EACH(truth((x != zero) | (y != zero)));
    case PPLCONV_DO_WHERE:
        FOR_EACH(select_lanes(x != zero, y, z));
    }
}

/* One element in all lanes. */
static void fill(chunk *to, const storage *from) {
    /* Minus zero, not plus: that would take the sign of a zero. */
    const vector v = load_storage_lanes(from, 1)[0] - (vector){0};
    for (int64_t i = 0; i < VECTORS; i++) to->v[i] = v;
}

static void load(chunk *to, const storage *from, int64_t n) {
    if (n >= CHUNK) {
        for (int64_t i = 0; i < VECTORS; i++) to->v[i] = load_storage(from + i * LANES);
        return;
    }
    for (int64_t i = 0; i < VECTORS; i++, n -= LANES) {
        if (n >= LANES) to->v[i] = load_storage(from + i * LANES);
        else to->v[i] = n > 0 ? load_storage_lanes(from + i * LANES, n) : (vector){0};
    }
}

static void store(storage *to, const chunk *from, int64_t n) {
    if (n >= CHUNK) {
        for (int64_t i = 0; i < VECTORS; i++) store_storage(to + i * LANES, from->v[i]);
        return;
    }
    for (int64_t i = 0; n > 0; i++, n -= LANES) {
        if (n >= LANES) store_storage(to + i * LANES, from->v[i]);
        else store_storage_lanes(to + i * LANES, from->v[i], n);
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_elementwise_args *a = argument;
    const struct pplconv_stream *inputs = a->inputs, *outputs = a->outputs;
    const struct pplconv_instruction *code = a->code;
    chunk registers[PPLCONV_MOST_REGISTERS];
    const int64_t rows = a->columns > 0 ? a->rows : 0;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t k = 0; k < a->input_count; k++) {
            const struct pplconv_stream *s = inputs + k;
            /* What is the same for all rows is still there. */
            if (!s->step && (i == 0 || s->rs))
                fill(registers + s->reg, AT_CONST(storage, s->data, i * s->rs));
        }
        for (int64_t j = 0; j < a->columns; j += CHUNK) {
            const int64_t n = a->columns - j;
            for (int64_t k = 0; k < a->input_count; k++) {
                const struct pplconv_stream *s = inputs + k;
                if (s->step) load(registers + s->reg, AT_CONST(storage, s->data, i * s->rs) + j, n);
            }
            for (int64_t k = 0; k < a->code_count; k++) run_instruction(registers, code + k);
            for (int64_t k = 0; k < a->output_count; k++) {
                const struct pplconv_stream *s = outputs + k;
                store(AT(storage, s->data, i * s->rs) + j, registers + s->reg, n);
            }
        }
    }
    clean_registers();
}
