/* Copies of matrices with any strides, of bits: rows by whole vectors, transpositions in registers,
 * two or three lines in turn by shuffles, broadcasts by stores alone, and all else element by
 * element. */
#include "copies.h"
#include "transpose.h"

enum { SIZE = sizeof(element) };

/* Source and destination, rows and columns in the order of the loops. */
struct matrix {
    const char *src;
    char *dst;
    int64_t src_rs, src_cs, dst_rs, dst_cs, rows, columns;
};

static void copy_elements(const struct matrix *m) {
    for (int64_t i = 0; i < m->rows; i++) {
        const char *src = m->src + i * m->src_rs;
        char *dst = m->dst + i * m->dst_rs;
        for (int64_t j = 0; j < m->columns; j++, src += m->src_cs, dst += m->dst_cs) {
            element_bits one;
            memcpy(&one, src, SIZE);
            memcpy(dst, &one, SIZE);
        }
    }
}

static void fill_rows(const struct matrix *m) {
    for (int64_t i = 0; i < m->rows; i++) {
        element_bits one;
        memcpy(&one, m->src + i * m->src_rs, SIZE);
        const vector all = (vector)((vector_bits){0} + one);
        element *dst = (element *)(m->dst + i * m->dst_rs);
        int64_t j = 0;
        for (; j + LANES <= m->columns; j += LANES) *(unaligned_vector *)(dst + j) = all;
        if (j < m->columns) store_lanes(dst + j, all, m->columns - j);
    }
}

/* Transpose the block of `rows` x `columns` elements that begins with element (i, j). */
INLINE void transpose_block(const struct matrix *m, int64_t i, int64_t j, int64_t rows,
                            int64_t columns) {
    const char *src = m->src + i * SIZE + j * m->src_cs;
    char *dst = m->dst + i * m->dst_rs + j * SIZE;
    vector block[LANES];
    if (rows == LANES && columns == LANES) {
        load_transposed(block, src, m->src_cs);
        UNROLL for (int r = 0; r < LANES; r++)
            *AT(unaligned_vector, dst, r * m->dst_rs) = block[r];
        return;
    }
    load_transposed_part(block, src, m->src_cs, columns, rows);
    UNROLL for (int r = 0; r < LANES; r++) {
        if (r >= rows) break;
        store_lanes(AT(element, dst, r * m->dst_rs), block[r], columns);
    }
}

/* Columns of src are contiguous, and so are rows of dst. Blocks go along the rows of dst, several
 * blocks one below the other, as many as a cache line of src reaches. */
static void transpose_matrix(const struct matrix *m) {
    enum { TALL = 64 / SIZE > LANES ? 64 / SIZE : LANES };
    if (m->rows < LANES || m->columns < LANES) {
        for (int64_t i = 0; i < m->rows; i += LANES) {
            for (int64_t j = 0; j < m->columns; j += LANES) {
                const int64_t rows = m->rows - i, columns = m->columns - j;
                transpose_block(m, i, j, rows < LANES ? rows : LANES,
                                columns < LANES ? columns : LANES);
            }
        }
        return;
    }
    for (int64_t top = 0; top < m->rows; top += TALL) {
        const int64_t end = m->rows - top < TALL ? m->rows : top + TALL;
        for (int64_t left = 0; left < m->columns; left += LANES) {
            /* The last block of a row or a column reaches back. */
            const int64_t j = left + LANES <= m->columns ? left : m->columns - LANES;
            for (int64_t i = top; i < end; i += LANES)
                transpose_block(m, i + LANES <= m->rows ? i : m->rows - LANES, j, LANES, LANES);
        }
    }
}

/* Two or three lines of src, element by element in turn: planes of colours as pixels. */
INLINE void take_turns(const struct matrix *m, int lines) {
    const char *src = m->src;
    element *dst = (element *)m->dst;
    /* Indices for each vector of the result: first to mix two lines, then to mix in the third. */
    vector_bits two[3], third[3];
    for (int k = 0; k < lines; k++) {
        for (int i = 0; i < LANES; i++) {
            const int line = (k * LANES + i) % lines, at = (k * LANES + i) / lines;
            two[k][i] = line == 1 ? LANES + at : at;
            third[k][i] = line == 2 ? LANES + at : i;
        }
    }
    int64_t i = 0;
    for (; i + LANES <= m->rows; i += LANES) {
        const vector a = *AT_CONST(unaligned_vector, src, i * SIZE);
        const vector b = *AT_CONST(unaligned_vector, src, i * SIZE + m->src_cs);
        vector c = b;
        if (lines == 3) c = *AT_CONST(unaligned_vector, src, i * SIZE + 2 * m->src_cs);
        UNROLL for (int k = 0; k < lines; k++) {
            vector mixed = shuffle(a, b, two[k]);
            if (lines == 3) mixed = shuffle(mixed, c, third[k]);
            *(unaligned_vector *)(dst + lines * i + k * LANES) = mixed;
        }
    }
    const struct matrix rest = {
        src + i * SIZE, m->dst + lines * i * SIZE, SIZE, m->src_cs, lines * SIZE, SIZE, m->rows - i,
        lines};
    copy_elements(&rest);
}

static struct matrix flipped(const struct matrix *m) {
    const struct matrix f = {m->src,    m->dst,    m->src_cs,  m->src_rs,
                             m->dst_cs, m->dst_rs, m->columns, m->rows};
    return f;
}

static void copy(struct matrix m) {
    /* Along the contiguous elements of dst, if there are any. */
    if (m.columns == 1 || (m.rows > 1 && m.dst_cs != SIZE && m.dst_rs == SIZE)) m = flipped(&m);
    /* Rows that follow one another on both sides are one row. */
    if (m.dst_rs == m.columns * m.dst_cs && m.src_rs == m.columns * m.src_cs) {
        m.columns *= m.rows;
        m.rows = 1;
    }
    if (m.dst_cs != SIZE) {
        copy_elements(&m);
    } else if (m.src_cs == SIZE) {
        for (int64_t i = 0; i < m.rows; i++)
            copy_bytes(m.dst + i * m.dst_rs, m.src + i * m.src_rs, m.columns * SIZE);
    } else if (m.src_cs == 0) {
        fill_rows(&m);
    } else if (m.src_rs == SIZE && m.columns == 2 && m.dst_rs == 2 * SIZE) {
        take_turns(&m, 2);
    } else if (m.src_rs == SIZE && m.columns == 3 && m.dst_rs == 3 * SIZE) {
        take_turns(&m, 3);
    } else if (m.src_rs == SIZE && m.rows > 1) {
        transpose_matrix(&m);
    } else {
        copy_elements(&m);
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_copy_strided_args *a = argument;
    const struct matrix m = {a->src,    a->dst,    a->src_rs, a->src_cs,
                             a->dst_rs, a->dst_cs, a->rows,   a->columns};
    if (m.rows > 0 && m.columns > 0) copy(m);
    clean_registers();
}
