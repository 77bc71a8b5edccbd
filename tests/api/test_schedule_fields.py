"""Loops take all that a candidate says of its blocks and memory, each number by its name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pplconv.algorithms import gemm
from pplconv.geometry import Strides
from pplconv.matrix_problem import MatrixProblem
from pplconv.schedules import Schedule, compile_plan, loops_named
from pplconv.sparsity import Sparsity
from tests.api.candidates import all_contexts, context_of, conv_problem, describe, every_candidate
from tests.api.problems import Problem

# Convolutions that the loops of a name compute, among others perhaps.
SHAPES = {
    "depthwise": (1, 21, 21, 42, (9, 11), (3, 3), 1, 1, 1),
    "direct": (2, 1, 21, 35, (13, 11), (3, 3), 1, 1, 1),
    "gemm": (2, 1, 37, 50, (7, 9), (1, 1), 1, 0, 1),
    "planes": (1, 2, 6, 18, (9, 37), (3, 3), 1, 1, 1),
    "sparse": (2, 1, 37, 50, (7, 9), (3, 3), 1, 1, 1),
    "winograd": (2, 1, 21, 35, (13, 11), (3, 3), 1, 1, 1),
}


def fields_for(
    loops: str, layout: str = "NHWC", dtype: str = "float32"
) -> tuple[dict[str, Any], str, list[str]]:
    """Give all fields of a candidate, its ISA, and the names of its own fields."""
    layout = "NCHW" if loops == "planes" else layout
    problem = conv_problem(Problem(dtype, layout, *SHAPES[loops], seed=7))
    if loops == "sparse":
        problem = replace(problem, sparsity=Sparsity(4, 250))
    around = context_of(problem.numerics[0], 1)
    candidate = next(c for c in every_candidate(problem, around) if c.loops == loops)
    return candidate.fields(1), around.isa, list(candidate.own_fields())


def gathered(layout: str) -> tuple[dict[str, Any], str]:
    """Give all fields of a candidate that gathers channels in the scratch, and its ISA."""
    problem = conv_problem(
        Problem("float32", layout, 1, 64, 64, 64, (9, 11), (7, 5), 1, (3, 2), 1, seed=7)
    )
    around = context_of(problem.numerics[0], 1)
    found = (c for c in every_candidate(problem, around) if c.loops == "depthwise")
    candidate = next(c for c in found if c.own_fields()["gathered"])
    return candidate.fields(1), around.isa


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"slab_rows": 8}, "fewer rows than what goes into it"),
        ({"channel_chunk": 65}, "scratch is too small for a chunk"),
        ({"channel_chunk": 9}, "cut between groups, units or vectors"),
        ({"row_chunk": 0}, "chunks are at least 1"),
        ({"scratch_bytes": 4096}, "scratch is too small for a chunk"),
        ({"out_offset": 64}, "scratch is too small for a chunk"),
    ],
)
def test_gathered_channels_need_their_scratch(layout, change, complaint):
    fields, isa = gathered(layout)
    compile_plan(fields, isa)
    with pytest.raises(ValueError, match=complaint):
        compile_plan(fields | change, isa)


def test_only_channels_with_one_output_are_gathered():
    fields, isa, _ = fields_for("depthwise", "NHWC", "float16")
    with pytest.raises(ValueError, match="only arrays that are not converted"):
        compile_plan(fields | {"gathered": 1}, isa)
    more = {"gathered": 1, "channel_chunk": 42, "row_chunk": 9}
    for layout in ("NHWC", "NCHW"):
        fields, isa, _ = fields_for("depthwise", layout)
        with pytest.raises(ValueError, match="where each input channel has one output"):
            compile_plan(fields | more | {"packed_weight_bytes": 4096}, isa)


def test_segments_are_whole_vectors_of_packed_weights():
    """A task that began within a vector would take the weights of other channels."""
    problem = conv_problem(Problem("float32", "NHWC", 1, 64, 64, 64, (9, 11), (3, 3), 1, 1, seed=7))
    around = context_of(problem.numerics[0], 2)
    found = (c for c in every_candidate(problem, around) if c.loops == "depthwise")
    candidate = next(c for c in found if c.blocks["channel_segment"] == 32)
    compile_plan(candidate.fields(1), around.isa)
    with pytest.raises(ValueError, match="whole vectors of packed weights"):
        compile_plan(candidate.fields(1) | {"channel_segment": 33}, around.isa)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("loops", SHAPES)
def test_a_number_that_lacks_is_named(loops, layout):
    fields, isa, own = fields_for(loops, layout)
    compile_plan(fields, isa)
    assert len(own) >= 8
    for name in own:
        others = {other: value for other, value in fields.items() if other != name}
        with pytest.raises((LookupError, ValueError), match=rf"'{name}'"):
            compile_plan(others, isa)


@pytest.mark.parametrize("loops", SHAPES)
def test_a_count_is_smaller_than_a_size(loops):
    fields, isa, own = fields_for(loops)
    sizes = loops_named(loops).sizes
    assert {"tasks", "scratch_bytes", "packed_weight_bytes"} < sizes < set(fields) | Schedule.sizes
    for name in [*own, "batch", "threads", "tasks"]:
        if isinstance(fields[name], int):
            least = 1 << 47 if name in sizes else 1 << 31
            with pytest.raises(MemoryError, match=rf"^{name} is beyond what the loops can address"):
                compile_plan(fields | {name: least}, isa)
            with pytest.raises(ValueError, match=rf"^{name} is negative"):
                compile_plan(fields | {name: -1}, isa)


@pytest.mark.parametrize("loops", ["depthwise", "direct", "planes", "winograd"])
def test_a_place_in_the_scratch_may_be_far_and_is_whole_elements(loops):
    fields, isa, own = fields_for(loops)
    places = sorted((loops_named(loops).sizes - Schedule.sizes | {"slab_offset"}).intersection(own))
    assert len(places) >= 2
    for name in places:
        with pytest.raises(ValueError, match="offsets are whole elements"):
            compile_plan(fields | {name: (1 << 31) + 2}, isa)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("loops", ["direct", "gemm", "planes", "winograd"])
def test_panels_are_those_of_the_kernels(loops, layout):
    """Neither width nor kr is the plan's to choose: the kernels read what they read."""
    fields, isa, _ = fields_for(loops, layout)
    assert fields["kr"] == 1
    for kr in (0, 2, 4):
        with pytest.raises(ValueError, match=f"kr is {kr}, but the kernels take 1"):
            compile_plan(fields | {"kr": kr}, isa)
    width = fields["panel_width"]
    for other in (0, width // 2, width - 1, width + 1, 2 * width):
        with pytest.raises(ValueError, match=f"panel_width is {other}, but the tile .* {width}"):
            compile_plan(fields | {"panel_width": other}, isa)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"kr": 1}, "kr is 1, but the kernels take 2"),
        ({"ic_segment": 3}, "whole groups of channels"),
        ({"v_row": 30}, "whole elements"),
        ({"v_row": 40}, "shorter than what goes into them"),  # 21 channels without their pair
        ({"m_row": 130}, "whole elements"),
        ({"slab_channels": 0}, "at least 1"),
        ({"slab_channels": 1 << 20}, "rows of the slab are too short"),
        ({"scratch_bytes": 4096}, "the scratch is too small"),
        ({"r": 5}, "no kernel for winograd_input"),
    ],
    ids=str,
)
def test_words_of_winograd_lie_in_pairs(layout, change, complaint):
    fields, isa, _ = fields_for("winograd", layout, "uint8")
    compile_plan(fields, isa)
    with pytest.raises((ValueError, LookupError), match=complaint):
        compile_plan(fields | change, isa)


@pytest.mark.parametrize("block", [8, 16, 24])
@pytest.mark.parametrize("shape", [SHAPES["direct"], (2, 3, 21, 30, (7, 6), (3, 3), 1, 1, 1)])
def test_panels_inside_blocks_are_no_wider_than_the_tile(shape, block):
    problem = conv_problem(Problem("float32", "NCHW", *shape, seed=7), block)
    around = context_of(problem.numerics[0], 1)
    for candidate in every_candidate(problem, around):
        fields, kernel = candidate.fields(1), candidate.kernel
        for width in (0, kernel.nr + 1):
            with pytest.raises(ValueError, match=f"panel_width is {width}, but the tile"):
                compile_plan(fields | {"panel_width": width}, around.isa)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "uint8"])
@pytest.mark.parametrize(
    ("layout", "block"), [("NCHW", 0), ("NHWC", 0), ("NCHW", 8), ("NCHW", 16), ("NCHW", 24)]
)
def test_packed_weights_fit_their_memory_to_the_byte(layout, block, dtype):
    """What plans say of its size is what the loops count, in every candidate."""
    for shape in (*SHAPES.values(), (2, 3, 21, 30, (7, 6), (3, 3), 1, 1, 1)):
        problem = conv_problem(Problem(dtype, layout, *shape, seed=7), block)
        for around in all_contexts(problem.numerics[0]):
            sparse = replace(problem, sparsity=Sparsity(4, 250))
            for candidate in (*every_candidate(problem, around), *every_candidate(sparse, around)):
                fields = candidate.fields(around.threads)
                compile_plan(fields, around.isa)
                less = {"packed_weight_bytes": fields["packed_weight_bytes"] - 1}
                with pytest.raises(ValueError, match="packed weights are larger"):
                    compile_plan(fields | less, around.isa)
                    pytest.fail(str(describe(candidate)))


@pytest.mark.parametrize(
    ("loops", "name", "value", "others", "complaint"),
    [
        ("gemm", "k_step", 1, (0, 2, 64), r"at least 1|only integer sums"),
        ("gemm", "finish_panels", 1, (0, 2, 64), r"at least 1|only integer sums"),
        ("direct", "finish_panels", 1, (0, 2, 64), r"at least 1|only integer sums"),
        ("gemm", "moved_row", 0, (1 << 12,), "only rows of bytes are moved"),
    ],
)
def test_what_only_integers_have_is_refused_for_floats(loops, name, value, others, complaint):
    fields, isa, _ = fields_for(loops)
    assert fields[name] == value
    for other in others:
        with pytest.raises(ValueError, match=complaint):
            compile_plan(fields | {name: other}, isa)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"turned": False}, "integer sums from planes"),
        ({"turned_pixel": 1}, "pixels of outputs are smaller"),
        ({"turned_offset": 0}, "scratch is too small"),
    ],
    ids=str,
)
def test_outputs_that_are_turned_into_planes_have_their_place(change, complaint):
    fields, isa, _ = fields_for("direct", "NCHW", "uint8")
    assert fields["turned"]
    compile_plan(fields, isa)
    with pytest.raises(ValueError, match=complaint):
        compile_plan(fields | change, isa)
    with pytest.raises(ValueError, match="scratch is too small"):
        compile_plan(fields | {"scratch_bytes": fields["turned_offset"] // 64 * 64}, isa)


def test_only_integer_sums_from_planes_are_turned():
    for layout, dtype in (("NHWC", "uint8"), ("NCHW", "float32")):
        fields, isa, _ = fields_for("direct", layout, dtype)
        with pytest.raises(ValueError, match="integer sums from planes"):
            compile_plan(fields | {"turned": True}, isa)
    fields, isa, _ = fields_for("direct", "NCHW")
    with pytest.raises(ValueError, match="stored panel by panel"):
        compile_plan(fields | {"pixels_inner": False}, isa)


@pytest.mark.parametrize("columns", ["by task", "in place"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_matrix_that_is_not_packed_before_has_its_place(columns, packed):
    problem = MatrixProblem(64, 70, 33, b=Strides(0, 0, 70, 1), prepacked=False)
    around = context_of(problem.numerics[0], 1)
    candidate = next(
        c for c in gemm.candidates(problem, around) if (c.columns, c.packed) == (columns, packed)
    )
    fields, own = candidate.fields(1), columns.replace(" ", "_")
    compile_plan(fields, around.isa)
    changes = {
        "only weights of a matrix": {"weights_in_place": True, "weights_by_task": True},
        "whole elements": {"weights_offset": fields["weights_offset"] + 2},
        "packed weights are larger": {f"weights_{own}": False},
    }
    x_group, y_group, group, column, row, bias = fields["matrices"]
    if columns == "in place":
        matrices = x_group, y_group, group, row, column, bias
        changes["neighbours in rows"] = {"matrices": matrices}
    else:
        last = fields["weights_offset"] + candidate.panels.bytes(70, 33, 4)
        changes["scratch is too small"] = {"scratch_bytes": last // 64 * 64 - 64}
        changes["the scratch is too"] = {"weights_offset": fields["scratch_bytes"]}
    for complaint, change in changes.items():
        with pytest.raises(ValueError, match=complaint):
            compile_plan(fields | change, around.isa)
