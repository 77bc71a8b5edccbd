"""Every instruction set that this machine has, each in a process capped at it."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from asm.registry import DTYPES, ISAS
from tests import children
from tests.emulation import is_emulated
from tests.levels import LADDER, executable_isas, serving

HERE = Path(__file__).resolve().parent


def run(max_isa: str | None, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python under a cap, away from the source tree."""
    # As in the other test processes.
    environment = children.environment(OPENBLAS_NUM_THREADS="1", PPLCONV_MAX_ISA=max_isa or "")
    if max_isa is None:
        del environment["PPLCONV_MAX_ISA"]
    return children.python(*command, env=environment, cwd=Path(sys.executable).parent)


def best(cap: str, dtype: str) -> str:
    """Give the level that plans name under a cap, asking the system and the registry."""
    allowed = [isa for isa in executable_isas() if LADDER.index(isa) <= LADDER.index(cap)]
    return serving(allowed, dtype)[-1]


@cache
def probe(max_isa: str | None, *most: str) -> dict[str, Any]:
    """Give what ``isa_probe.py`` found under a cap, of all its shapes or of at most some."""
    if is_emulated() and not most:
        most = ("2",)
    done = run(max_isa, str(HERE / "isa_probe.py"), *most)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("cap", LADDER)
def test_results_under_a_cap(cap):
    """Right results, and plans that name the best instruction set under the cap."""
    found = probe(cap)
    assert found["failures"] == []
    assert found["isas"] == sorted({best(cap, "f32"), best(cap, "f64")})


def test_the_best_is_used_without_a_cap():
    found = probe(None, "2")
    assert found["failures"] == []
    assert found["isas"] == sorted({best(LADDER[-1], "f32"), best(LADDER[-1], "f64")})
    assert probe("", "2")["digests"] == found["digests"]


@pytest.mark.needs_isa("avx512")
def test_avx2_and_avx512_give_the_same_bits():
    """The plan names all that decides the bits, and the vector's width is no part of it.

    The planner may choose another method where vectors are wider; digests are filed by method.
    """
    narrow, wide = probe("avx2")["digests"], probe("avx512")["digests"]
    both = narrow.keys() & wide.keys()
    assert [name for name in both if narrow[name] != wide[name]] == []
    # Each problem is also computed by im2col and, where it can be, by one variant of the others.
    methods = [name.rpartition(" by ")[2].partition(":")[0] for name in both]
    assert methods.count("im2col") >= 11 * 3 * 2 * 2
    for method in ("direct", "depthwise", "pointwise", "winograd"):
        assert methods.count(method) >= 3 * 2 * 2, method


@pytest.mark.sampled(5)
@pytest.mark.parametrize("cap", LADDER)
def test_the_default_block_is_a_vector_under_a_cap(cap):
    code = (
        "import numpy, pplconv\n"
        "for dtype in ('float32', 'float64'):\n"
        "    x = numpy.arange(2 * 70 * 30., dtype=dtype).reshape(2, 70, 5, 6)\n"
        "    y = pplconv.to_blocked(x)\n"
        "    assert (pplconv.from_blocked(y, 70) == x).all()\n"
        "    print(y.shape[-1])\n"
    )
    lanes = [ISAS[best(cap, dtype)].vector_bytes // DTYPES[dtype] for dtype in ("f32", "f64")]
    done = run(cap, "-c", code)
    assert (done.stdout.split(), done.stderr) == ([str(n) for n in lanes], "")


@pytest.mark.parametrize("value", ["sse", "avx-512", "0", "avx2,avx512"])
def test_an_unknown_cap_is_refused(value):
    """The message names the variable, what it was, and what it may be."""
    code = (
        "import numpy, pplconv\n"
        "x = numpy.ones((1, 1, 4, 4), 'float32')\n"
        "pplconv.conv2d(x, x[..., :2, :2])\n"
        "print('computed')\n"
    )
    done = run(value, "-c", code)
    assert done.returncode == 1
    assert "computed" not in done.stdout
    message = done.stderr.strip().splitlines()[-1]
    assert message.startswith("ValueError")
    for part in ("PPLCONV_MAX_ISA", value, *LADDER):
        assert part in message
