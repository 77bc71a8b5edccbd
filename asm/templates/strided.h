/* Copies of matrices with any strides, of bits: rows by whole vectors, also backwards;
 * transpositions in registers, two or three lines in turn by shuffles, broadcasts by stores alone,
 * and all else element by element. A template defines `item`, the bits of an element, SIZE, its
 * bytes, BLOCK, the rows and columns of a block that it transposes, and WIDE, the columns of its
 * widest block; and the functions that are declared here. */
#ifndef PPLCONV_STRIDED_H
#define PPLCONV_STRIDED_H

#include "copies.h"

/* Source and destination, rows and columns in the order of the loops. */
struct matrix {
    const char *src;
    char *dst;
    int64_t src_rs, src_cs, dst_rs, dst_cs, rows, columns;
};

/* Each row of dst is one element, repeated. */
static void fill_rows(const struct matrix *m);

/* Transpose the block of BLOCK rows and `columns`, BLOCK or WIDE, that begins with element (i, j).
 * Columns of src are contiguous, and so are rows of dst. */
INLINE void transpose_block(const struct matrix *m, int64_t i, int64_t j, int columns);

/* The same for a block of at most BLOCK x BLOCK elements. */
INLINE void transpose_part(const struct matrix *m, int64_t i, int64_t j, int64_t rows,
                           int64_t columns);

/* Two or three lines of src, element by element in turn: planes of colours as pixels. */
INLINE void take_turns(const struct matrix *m, int lines);

/* The other way round: two or three lines of dst, element by element in turn from src. */
INLINE void part_turns(const struct matrix *m, int lines);

static void copy_elements(const struct matrix *m) {
    for (int64_t i = 0; i < m->rows; i++) {
        const char *src = m->src + i * m->src_rs;
        char *dst = m->dst + i * m->dst_rs;
        for (int64_t j = 0; j < m->columns; j++, src += m->src_cs, dst += m->dst_cs) {
            item one;
            memcpy(&one, src, SIZE);
            memcpy(dst, &one, SIZE);
        }
    }
}

typedef item any_item __attribute__((may_alias));

/* Compilers make vectors of this loop. */
static void reverse_rows(const struct matrix *m) {
    for (int64_t i = 0; i < m->rows; i++) {
        const any_item *src = (const any_item *)(m->src + i * m->src_rs);
        any_item *restrict dst = (any_item *)(m->dst + i * m->dst_rs);
        for (int64_t j = 0; j < m->columns; j++) dst[j] = src[-j];
    }
}

/* The rows from `first` on, after two or three lines have been taken in turn so far. */
INLINE void copy_rest(const struct matrix *m, int64_t first) {
    struct matrix rest = *m;
    rest.src += first * m->src_rs;
    rest.dst += first * m->dst_rs;
    rest.rows -= first;
    copy_elements(&rest);
}

/* The columns from `first` on, after two or three lines have been parted so far. */
INLINE void copy_last(const struct matrix *m, int64_t first) {
    struct matrix rest = *m;
    rest.src += first * m->src_cs;
    rest.dst += first * m->dst_cs;
    rest.columns -= first;
    copy_elements(&rest);
}

/* Blocks go along the rows of dst, several blocks one below the other, as many as a cache line of
 * src reaches. */
INLINE void transpose_blocks(const struct matrix *m, const int columns) {
    enum { TALL = 64 / SIZE > BLOCK ? 64 / SIZE : BLOCK };
    for (int64_t top = 0; top < m->rows; top += TALL) {
        const int64_t end = m->rows - top < TALL ? m->rows : top + TALL;
        for (int64_t left = 0; left < m->columns; left += columns) {
            /* The last block of a row or a column reaches back. */
            const int64_t j = left + columns <= m->columns ? left : m->columns - columns;
            for (int64_t i = top; i < end; i += BLOCK)
                transpose_block(m, i + BLOCK <= m->rows ? i : m->rows - BLOCK, j, columns);
        }
    }
}

static void transpose_matrix(const struct matrix *m) {
    if (m->rows < BLOCK || m->columns < BLOCK) {
        for (int64_t i = 0; i < m->rows; i += BLOCK) {
            for (int64_t j = 0; j < m->columns; j += BLOCK) {
                const int64_t rows = m->rows - i, columns = m->columns - j;
                transpose_part(m, i, j, rows < BLOCK ? rows : BLOCK,
                               columns < BLOCK ? columns : BLOCK);
            }
        }
    } else if (WIDE > BLOCK && m->columns >= WIDE) {
        transpose_blocks(m, WIDE);
    } else {
        transpose_blocks(m, BLOCK);
    }
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
    } else if (m.src_cs == -SIZE) {
        reverse_rows(&m);
    } else if (m.src_rs == SIZE && m.columns == 2 && m.dst_rs == 2 * SIZE) {
        take_turns(&m, 2);
    } else if (m.src_rs == SIZE && m.columns == 3 && m.dst_rs == 3 * SIZE) {
        take_turns(&m, 3);
    } else if (SIZE < 8 && m.src_rs == SIZE && m.rows == 2 && m.src_cs == 2 * SIZE) {
        part_turns(&m, 2);
    } else if (SIZE < 8 && m.src_rs == SIZE && m.rows == 3 && m.src_cs == 3 * SIZE) {
        part_turns(&m, 3);
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

#endif
