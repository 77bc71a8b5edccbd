"""A short soak runs and reports its attempts, and kept resources are noticed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.programs import finding, output
from tests.soak import counts

HERE = Path(__file__).resolve().parent


@pytest.mark.slow
@pytest.mark.unsanitized("measures memory, which a sanitizer keeps on purpose")
def test_a_short_one():
    code = finding(
        "import runpy\n"
        "sys.argv = ['soak.py', '--seconds', '3', '--warm-up', '4', '--margin', '64']\n"
        f"runpy.run_path({str(HERE / 'soak.py')!r}, run_name='__main__')"
    )
    text = output("-c", code, timeout=600)
    for what in ("prepared", "function", "plan", "search", "refused", "killed writer"):
        assert int(re.search(rf"  {what}: (\d+)", text)[1]) > 0
    assert "0 wrong, 0 counts differ" in text


def test_what_is_kept_is_seen():
    before = counts.Counts(10 << 20, 5, 2, 0, 0)
    after = counts.Counts(50 << 20, 6, 3, 1, 1)
    assert counts.differences(before, before, 0) == []
    assert len(counts.differences(before, after, 30 << 20)) == 5
    assert len(counts.differences(before, after, 40 << 20)) == 4
