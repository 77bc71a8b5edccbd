"""A build says how long it takes, and how far it is."""

from __future__ import annotations

import io

import pytest

from asm.progress import Progress, duration, seconds_of


def test_a_build_says_how_long_it_takes_and_how_far_it_is(tmp_path):
    told, time = io.StringIO(), [100.0]
    source = tmp_path / "kernel.c"
    source.write_bytes(bytes(1000))
    progress = Progress([source] * 40, 4, told, lambda: time[0])
    begin = told.getvalue()
    assert begin.startswith("compiling 40 files, 4 at a time: about ")
    assert duration(10 * seconds_of(source)) in begin
    for _ in range(40):
        time[0] += 3.0
        progress.finished(source)
    lines = told.getvalue().splitlines()
    assert len(lines) == 1 + 9, "a line for each tenth, and none at the end"
    assert lines[1] == "compiled 4 of 40 files, about 2 min left"
    assert lines[-1] == "compiled 36 of 40 files, about 12 s left"


def test_a_build_without_work_is_silent():
    told = io.StringIO()
    Progress([], 2, told)
    assert not told.getvalue()


@pytest.mark.parametrize(
    "seconds, text", [(0.2, "0 s"), (89, "89 s"), (90, "2 min"), (299, "5 min")]
)
def test_times_are_for_people(seconds, text):
    assert duration(seconds) == text
