"""C text of the Winograd transforms: straight lines of sums and fused multiply-adds.

The two points of a pair +-p have rows that differ in the sign of every other coefficient. So
each pair costs one sum over its even and one over its odd coefficients, then a sum and a
difference of the two; in A^T, where points are columns, the sum and the difference come first.
Zeros are skipped, ones are added.
"""

from __future__ import annotations

from asm.winograd import Matrix, integer_matrices, matrices

Row = tuple[float, ...]
Term = tuple[float, str]


class _Writer:
    """Lines of one function; every value is assigned once."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def name(self, expression: str) -> str:
        """Give an expression a name of its own."""
        name = f"v{len(self.lines)}"
        self.lines.append(f"const value {name} = {expression};")
        return name

    def total(self, terms: list[Term]) -> str:
        """Write a sum of products and give its name."""
        # A coefficient of one starts the chain and needs no operation.
        first, *rest = sorted(terms, key=lambda term: term[0] != 1)
        result = first[1] if first[0] == 1 else self.name(f"splat({first[0]!r}) * {first[1]}")
        for term in rest:
            result = self.plus(result, *term)
        return result

    def plus(self, start: str, factor: float, name: str) -> str:
        """Write start + factor * name and give its name."""
        if abs(factor) == 1:
            return self.name(f"{start} {'+' if factor > 0 else '-'} {name}")
        function = "add_product" if factor > 0 else "multiply_subtract"
        return self.name(f"{function}({start}, splat({abs(factor)!r}), {name})")


def _floats(matrix: Matrix) -> list[Row]:
    return [tuple(float(x) for x in row) for row in matrix]


def _pairs(rows: list[Row]) -> dict[int, int]:
    """Find rows that differ in the signs of some coefficients and agree in others."""
    found: dict[int, int] = {}
    for i, row in enumerate(rows):
        for j in range(i + 1, len(rows)):
            if tuple(map(abs, row)) != tuple(map(abs, rows[j])):
                continue
            if row != rows[j] and row != tuple(-x for x in rows[j]):
                found[i] = j
    return found


def rows_in_pairs(matrix: Matrix) -> list[str]:
    """Write y = matrix x where points are rows."""
    rows, writer = _floats(matrix), _Writer()
    out = [""] * len(rows)
    pairs = _pairs(rows)
    for i, row in enumerate(rows):
        if i in pairs.values():
            continue
        if i not in pairs:
            out[i] = writer.total([(c, f"x[{k}]") for k, c in enumerate(row) if c])
            continue
        other = rows[pairs[i]]
        halves = []
        for sign in (1, -1):
            terms = [(c, f"x[{k}]") for k, c in enumerate(row) if c and c == sign * other[k]]
            # The last term has the highest power; the others are divided by its coefficient.
            scale = terms[-1][0]
            halves.append((scale, writer.total([(c / scale, name) for c, name in terms])))
        (even_scale, even), (odd_scale, odd) = halves
        if even_scale != 1:
            even = writer.name(f"splat({even_scale!r}) * {even}")
        out[i] = writer.plus(even, odd_scale, odd)
        out[pairs[i]] = writer.plus(even, -odd_scale, odd)
    return writer.lines + [f"y[{i}] = {name};" for i, name in enumerate(out)]


def columns_in_pairs(matrix: Matrix) -> list[str]:
    """Write y = matrix x where points are columns."""
    rows, writer = _floats(matrix), _Writer()
    columns = [tuple(row[k] for row in rows) for k in range(len(rows[0]))]
    pairs = _pairs(columns)
    sums = {k: writer.name(f"x[{k}] + x[{other}]") for k, other in pairs.items()}
    differences = {k: writer.name(f"x[{k}] - x[{other}]") for k, other in pairs.items()}
    out = []
    for row in rows:
        terms = []
        for k, c in enumerate(row):
            if k in pairs:
                terms.append((c, (sums if c == row[pairs[k]] else differences)[k]))
            elif k not in pairs.values() and c:
                terms.append((c, f"x[{k}]"))
        out.append(writer.total(terms))
    return writer.lines + [f"y[{i}] = {name};" for i, name in enumerate(out)]


def header_text(n: int, r: int, integers: bool = False) -> str:
    """C header with the three one-dimensional transforms of F(n, r).

    With `integers`, the sums are larger by ``WINOGRAD_SHIFT`` bits.

    A file that includes it defines the type ``value``, ``splat(number)``,
    ``add_product(c, a, b)`` = c + a * b and ``multiply_subtract(c, a, b)`` = c - a * b.
    """
    m, shift = integer_matrices(n, r) if integers else (matrices(n, r), 0)
    t = n + r - 1
    bodies = (
        ("input", "B^T", t, t, rows_in_pairs(m.input)),
        ("output", "A^T", t, n, columns_in_pairs(m.output)),
        ("weights", "G", r, t, rows_in_pairs(m.weights)),
    )
    functions = (
        f"/* y = {matrix} x */\n"
        "static inline __attribute__((always_inline)) void\n"
        f"transform_{name}(const value x[{columns}], value y[{rows}]) {{\n"
        + "".join(f"    {line}\n" for line in lines)
        + "}\n"
        for name, matrix, columns, rows, lines in bodies
    )
    kind, enum = (
        (" of integers", f"enum {{ WINOGRAD_SHIFT = {shift} }};\n\n") if integers else ("", "")
    )
    return (
        f"/* The transforms of F({n}, {r}){kind}, generated by asm/winograd_code.py. */\n\n{enum}"
        + "\n".join(functions)
    )
