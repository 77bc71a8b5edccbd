"""The loops of networks on arrays that lie in any way, against NumPy, and what they refuse."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pplconv.geometry import Strides
from pplconv.matrix_problem import MatrixProblem
from pplconv.ops.prepared import Prepared
from pplconv.ops.program import Program
from pplconv.planner import make_cheapest_plan
from pplconv.schedules.elementwise_loops import Elementwise
from pplconv.schedules.window_loops import Resample
from tests import children
from tests.emulation import is_emulated
from tests.levels import allowed_isas
from tests.network.loop_cases import KINDS, types_of
from tests.patience import PATIENCE

HERE = Path(__file__).resolve().parent
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.sampled(29)
@pytest.mark.parametrize(
    ("kind", "dtype"), [(kind, name) for kind in KINDS for name in types_of(kind)]
)
@pytest.mark.parametrize("isa", allowed_isas())
def test_any_strides(kind, dtype, isa, rng):
    """Right, nowhere else, and the same bits for each team."""
    for _ in range(40):
        case = KINDS[kind](rng, dtype)
        found = []
        for threads in (1, 2, 3):
            memory = case.memory()
            case.run(isa, threads, memory)
            case.check(memory)
            found.append(memory)
        for other in found[1:]:
            for x, y in zip(found[0], other, strict=True):
                assert np.array_equal(x, y)


@every_kind
def test_an_array_that_is_too_small_is_refused(kind, rng):
    """By one element, beyond its end, in the arena and outside."""
    for _ in range(20):
        case = KINDS[kind](rng, "f32")
        work = case.work(case.fields, allowed_isas()[-1])
        every = kind in ("elementwise", "lookup", "truths", "quantizing", "attention")
        read = [i for i in range(len(case.arrays)) if i < 2 or every]
        sizes = [laid.content.size for laid in case.arrays]
        room = [-(-size // 64) * 64 for size in sizes]
        starts = [sum(room[:i]) for i in range(len(room))]
        for which in read:
            for size, message in ((sizes[which] - 4, "step takes"), (0, "step takes")):
                places = [("external", i, 0, n) for i, n in enumerate(sizes)]
                places[which] = ("external", which, 0, size)
                short = [*sizes[:which], size, *sizes[which + 1 :]]
                with pytest.raises(ValueError, match=f"{message}|beyond"):
                    Program([(work, {"arrays": places})], 0, short, 1, 1)
            places = [("external", i, 0, n) for i, n in enumerate(sizes)]
            for place in (
                ("external", which, 4, sizes[which]),
                ("external", which, -4, sizes[which]),
                ("external", len(sizes), 0, sizes[which]),
                ("external", -1, 0, sizes[which]),
                ("arena", 0, sizes[which]),
                ("arena", -64, sizes[which]),
                ("arena", 1 << 40, sizes[which]),
            ):
                places[which] = place
                with pytest.raises(ValueError, match="beyond"):
                    Program([(work, {"arrays": places})], 0, sizes, 1, 1)
        inside = [("arena", start, size) for start, size in zip(starts, sizes, strict=True)]
        Program([(work, {"arrays": inside})], sum(room), [], 1, 1)
        with pytest.raises(ValueError, match="beyond"):
            Program([(work, {"arrays": inside})], sum(room) - 64 * (room[-1] // 64), [], 1, 1)
        with pytest.raises(ValueError, match="lacks an array"):
            Program([(work, {"arrays": inside[:1]})], sum(room), [], 1, 1)


STRIDES = {
    "elementwise": [], "copying": ["src", "dst"], "converting": ["src", "dst"],
    "rows": ["src_rs", "dst_rs", "src", "dst"],
    "pool": ["x", "y"], "resample": ["x", "y"],
}  # fmt: skip


@pytest.mark.parametrize("kind", STRIDES)
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_strides_are_whole_elements(kind, dtype, rng):
    """A byte more or less is another array, whose elements lie where none may be read."""
    isa = allowed_isas()[-1]
    tried = 0
    for _ in range(10):
        case = KINDS[kind](rng, dtype)
        changes = []
        for name in STRIDES[kind]:
            old = case.fields[name]
            if isinstance(old, int):
                changes.append({name: old + 1})
            changes += [] if isinstance(old, int) else [
                {name: (*old[:d], n + 1, *old[d + 1 :])} for d, n in enumerate(old)
            ]  # fmt: skip
        if kind == "elementwise":
            array, strides, *others = case.fields["inputs"][0]
            rest = case.fields["inputs"][1:]
            changes = [
                {
                    "inputs": [
                        (array, (*strides[:d], n + 1, *strides[d + 1 :]), *others),
                        *rest,
                    ]
                }
                for d, n in enumerate(strides)
            ]
        for change in changes:
            if kind == "rows" and case.fields["op"] in ("reduce_rows", "reduce_columns"):
                # One of them has no rows in its result.
                change.pop("dst_rs", None)
            if change:
                with pytest.raises(ValueError, match="whole elements"):
                    case.work(case.fields | change, isa)
                tried += 1
    assert tried > 10


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_operands_of_attention_lie_at_whole_elements(dtype, rng):
    """A program reads the mask by vectors of its type, row by row and head by head."""
    for _ in range(10):
        case = KINDS["attention"](rng, dtype)
        rows, strides = case.fields["rows"], case.fields["strides"]
        changes = [{"rows": [*rows[:4], rows[4] + 1]}]
        changes += [
            {"strides": [*strides[:4], (*strides[4][:d], n + 1, *strides[4][d + 1 :])]}
            for d, n in enumerate(strides[4])
        ]
        for change in changes:
            with pytest.raises(ValueError, match="whole elements"):
                case.work(case.fields | change, allowed_isas()[-1])


@every_kind
def test_segments_that_no_loop_can_count_are_refused(kind, rng):
    case = KINDS[kind](rng, "f32")
    name = {"rows": "segment", "attention": "tile"}.get(kind, "row_segment")
    with pytest.raises(ValueError):
        case.work(case.fields | {name: 0}, allowed_isas()[-1])
    for segment in (-1, 1 << 31, (1 << 63) - 1):
        with pytest.raises((ValueError, MemoryError), match=name):
            case.work(case.fields | {name: segment}, allowed_isas()[-1])


def probe(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Change fields in another process, between guard pages."""
    return subprocess.run(
        [sys.executable, str(HERE / "loop_mutant_probe.py"), *arguments],
        env=children.environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.unsanitized("steps over a guard page, which would be reported")
@pytest.mark.parametrize("where", ["input", "output"])
def test_guards_are_there(where):
    done = probe("stray", where, allowed_isas()[-1])
    assert done.returncode in (-signal.SIGSEGV, -signal.SIGBUS), done.stderr


@pytest.mark.sampled(2)
@every_kind
def test_what_is_taken_runs_inside_its_arrays(kind):
    done = probe(kind, "2" if is_emulated() else "6", *allowed_isas())
    assert done.returncode == 0, f"died at {done.stderr[-2000:]}"
    found = json.loads(done.stdout)
    assert found["failures"] == []
    assert found["taken"] > 5 and found["refused"] > 50


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"code": [(1, 0, 0, 0, 0)]}, "a table is looked up"),
        ({"inputs": [(1, (1,), 1, 0), (1, (1,), 1, 1)]}, "a table is looked up"),
        ({"inputs": [(1, (1,), 0, 0)]}, "a table is looked up"),
        ({"outputs": [(0, (1,), 1, 0), (1, (1,), 1, 0)]}, "a table is looked up"),
        ({"table": 24}, "a table is looked up"),
        ({"dtype": "f32"}, "lookup"),
    ],
)
def test_tables_of_anything_but_one_array_of_bytes(changes, message):
    fields = {
        "dtype": "u8", "dims": (1,), "columns": 9, "outputs": [(0, (1,), 1, 0)],
        "inputs": [(1, (1,), 1, 0)], "code": [], "row_segment": 1, "column_segment": 9, "table": 2,
    }  # fmt: skip
    Elementwise(fields, allowed_isas()[-1])
    with pytest.raises((ValueError, LookupError), match=message):
        Elementwise(fields | changes, allowed_isas()[-1])


def test_bytes_are_no_sums(rng):
    case = KINDS["repeating"](rng, "f32")
    down = np.concatenate([case.fields["rows"]] * 2, 1)
    with pytest.raises(ValueError, match="bytes are copied"):
        Resample(case.fields | {"rows": down, "weights_y": np.ones(down.shape)}, allowed_isas()[-1])


def test_parts_of_an_attention_fit_one_another(rng):
    """Products of other matrices, and a program of another tile."""
    tile, keys, width, row = 8, 40, 16, 192
    inner = Strides(0, 0, row // 4, 1)
    problems = [
        MatrixProblem(tile, keys, width, c=inner),
        MatrixProblem(tile, width, keys, a=inner, b=Strides(0, 0, width, 1)),
    ]
    scores, sums = (
        Prepared(problem, *make_cheapest_plan([problem], threads=1)[1:], 1) for problem in problems
    )
    isa = allowed_isas()[-1]
    fields = {
        "dtype": "f32", "dims": (), "strides": [()] * 4, "rows": [64, 64, 0, 0], "queries": 16,
        "tile": tile, "chunks": 1, "score_row": row, "stored": (None,) * 4,
        "operands": "f32", "narrowed_row": 0,
    }  # fmt: skip
    scores.attention_work(sums, [], [], fields, isa)
    for operands, narrowed, message in (
        ("bf16", 2 * keys, "of its type"), ("bf16", 2 * keys - 2, "shorter"),
        ("bf16", 2 * keys + 1, "shorter"), ("bf16", -2, "negative"), ("bf16", 1 << 62, "beyond"),
        ("f64", 8 * keys, "no kernel"), ("u8", keys, "no kernel"),
    ):  # fmt: skip
        wrong = fields | {"operands": operands, "narrowed_row": narrowed}
        with pytest.raises((ValueError, MemoryError), match=message):
            scores.attention_work(sums, [], [], wrong, isa)
    with pytest.raises(ValueError, match=r"scores is shorter|products differ"):
        sums.attention_work(scores, [], [], fields, isa)
    with pytest.raises(ValueError, match="of its type"):
        wrong = fields | {"dtype": "f64", "operands": "f64", "score_row": 2 * row}
        scores.attention_work(sums, [], [], wrong, isa)
    with pytest.raises(ValueError, match="as far apart"):
        scores.attention_work(sums, [], [], fields | {"rows": [64, 128, 0, 0]}, isa)
    with pytest.raises(ValueError, match="those of all queries"):
        scores.attention_work(sums, [], [], fields | {"rows": [64, 64, 64, 0]}, isa)
    for stored, message in (
        (("f16", tile, 15, 32), "what the products see"), (("f16", tile, width, -2), "negative"),
        (("f16", tile, width, 31), "whole elements"), (("f64", tile, width, 128), "no kernel"),
        (("u8", tile, width, 16), "no kernel"), (("f16", 0, width, 32), "what the products see"),
        (("f16", tile, width, 64), "as far apart"), (("f16", 1 << 31, width, 64), "beyond"),
    ):  # fmt: skip
        wrong = fields | {"stored": (None, stored, None, None), "rows": [64, 32, 0, 0]}
        with pytest.raises((ValueError, MemoryError), match=message):
            scores.attention_work(sums, [], [], wrong, isa)
    with pytest.raises(ValueError, match="have types"):
        scores.attention_work(sums, [], [], fields | {"stored": (None,) * 3}, isa)
    more = fields | {"strides": [()] * 5, "rows": [64, 64, 0, 0, row]}

    def program(array: int, written: int, rows: int = tile, columns: int = keys) -> Elementwise:
        return Elementwise({
            "dtype": "f32", "dims": (rows,), "columns": columns, "code": [], "row_segment": 1,
            "outputs": [(written, (row,), 1, 0)], "inputs": [(array, (row,), 1, 0)],
            "column_segment": columns,
        }, isa)  # fmt: skip

    scores.attention_work(sums, [program(4, 0)], [program(0, 0)], more, isa)
    wrong = [program(4, 0, tile + 1), program(0, 0, tile, 2 * row), program(2, 0), program(5, 0),
             program(0, 4), program(0, 2)]  # fmt: skip
    for each in wrong:
        for programs in ([each], []), ([], [each]):
            with pytest.raises(ValueError, match=r"of a tile|writes the tile"):
                scores.attention_work(sums, *programs, more, isa)
    with pytest.raises(ValueError, match="fewer programs"):
        scores.attention_work(sums, [program(0, 0)] * 5, [program(0, 0)] * 4, more, isa)
    with pytest.raises((ValueError, TypeError)):
        scores.attention_work(sums, [None], [], more, isa)
