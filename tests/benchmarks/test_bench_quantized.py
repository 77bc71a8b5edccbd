"""int8 and bfloat16 beside the peers: exact answers, engines that are held to them, the command."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import pplconv
from benchmarks.candidates import FAILED, OK, UNSUPPORTED, WRONG, prepare_checked
from benchmarks.engines import bf16, quantized
from benchmarks.engines.base import Prepared
from benchmarks.engines.quantized.base import QuantizedEngine
from benchmarks.problems import parse
from benchmarks.quantized import run
from benchmarks.quantized.layers import (
    make_quantized,
    make_quantized_case,
    make_rounded_case,
    requantized,
    rounded,
    units_off,
)
from benchmarks.recorded import load
from benchmarks.runner import Progress, run_layer
from benchmarks.timing import Settings
from tests.benchmarks import known_runs
from tests.benchmarks.known_runs import FAST, without

SMALL = [*known_runs.SMALL, "mb1g16ic16ih12oc16kh5sh2ph2"]
INT8 = {engine.name: engine for engine in quantized.ENGINES}
BF16 = {engine.name: engine for engine in bf16.ENGINES}
TESTED = [name for name, engine in (INT8 | BF16).items() if engine.available().ok]
QUICK = Settings(rounds=1, min_seconds=1e-4)


def rational(problem, layer):
    """The contract in fractions, a multiplication and a rounding at a time, tap by tap."""
    p, group = problem, problem.oc // problem.groups
    low, high = (0, 255) if layer.kind == "u8" else (-128, 127)
    multiplier = layer.w_scale * np.float32(layer.x_scale) / np.float32(layer.y_scale)
    y = np.zeros(p.output_shape, layer.x.dtype)
    for n, oc, oh, ow in np.ndindex(y.shape):
        total = int(layer.bias[oc])
        for ic, r, c in np.ndindex(layer.w.shape[1:]):
            row, column = oh * p.sh - p.ph + r * p.dh, ow * p.sw - p.pw + c * p.dw
            if 0 <= row < p.ih and 0 <= column < p.iw:
                channel = oc // group * layer.w.shape[1] + ic
                seen = int(layer.x[n, channel, row, column]) - layer.x_zero
                total += seen * int(layer.w[oc, ic, r, c])
        product = np.float32(total) * multiplier[oc]
        # Python rounds fractions half to even.
        y[n, oc, oh, ow] = min(max(round(Fraction(float(product))) + layer.y_zero, low), high)
    return y


@pytest.mark.parametrize("kind", ["u8", "s8"])
@pytest.mark.parametrize("text", ["mb1ic5ih5oc3kh3ph1sh2", "mb2g2ic4ih4iw3oc6kh2dh1", SMALL[0]])
def test_the_expected_result_is_the_contract(kind, text):
    problem = parse(text)
    layer = make_quantized(problem, kind)
    assert layer.x.dtype == layer.expected.dtype == {"u8": np.uint8, "s8": np.int8}[kind]
    assert (layer.expected == rational(problem, layer)).all()
    # Not a layer that all but saturates, or has nothing to get wrong.
    ends = np.isin(layer.expected, (np.iinfo(layer.x.dtype).min, np.iinfo(layer.x.dtype).max))
    assert ends.mean() < 0.1
    assert layer.expected.astype(float).std() > 10


def test_the_same_layer_in_every_run():
    first, second = (make_quantized(parse(SMALL[0]), "u8") for _ in range(2))
    for name in ("x", "w", "bias", "w_scale", "expected"):
        assert (getattr(first, name) == getattr(second, name)).all()


@pytest.mark.parametrize(
    ("total", "multiplier", "zero", "kind", "expected"),
    [
        (3, 0.5, 0, "s8", 2),  # half to even
        (5, 0.5, 0, "s8", 2),
        (5, 0.5, 1, "u8", 3),  # and before the zero point: 2.5 + 1 would be even at 4
        (-5, 0.5, 128, "u8", 126),
        (1000, 1.0, 0, "u8", 255),
        (-1000, 1.0, 0, "s8", -128),
        (2**31 - 1, 1.0, -128, "s8", 127),
        # float32 has no 2^24 + 1: half of the sum that it takes for it is a tie, no longer above.
        (2**24 + 1, 2.0**-25, 0, "u8", 0),
        (2**24 + 3, 2.0**-25, 0, "u8", 1),
    ],
)
def test_requantizing_one_sum(total, multiplier, zero, kind, expected):
    sums = np.full((1, 1, 1, 1), float(total))
    result = requantized(sums, np.array([multiplier], np.float32), zero, kind)
    assert result.item() == expected


def test_a_sum_beyond_int32_is_no_layer():
    with pytest.raises(ValueError, match="leaves int32"):
        requantized(np.full((1, 1, 1, 1), 2.0**31), np.ones(1, np.float32), 0, "u8")


def test_units_off():
    expected = np.array([[0, 255, 7, 9]], np.uint8)
    assert units_off(expected.copy(), expected) == 0.0
    assert units_off(np.array([[1, 254, 7, 9]], np.uint8), expected) == 0.5
    assert units_off(np.array([[0, 253, 8, 9]], np.uint8), expected) == 2.0
    # 0 and 255 are far from one another, though their difference wraps to 1.
    assert units_off(np.array([[255, 255, 7, 9]], np.uint8), expected) == 255.0
    assert units_off(expected.astype(np.int16), expected) == float("inf")
    assert units_off(expected[:, :3], expected) == float("inf")


def test_rounding_to_bfloat16_is_to_nearest_even():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 0x7F000000, 100_000, dtype=np.uint32)
    # Ties too, which random bits do not have.
    bits[:1000] = bits[:1000] & 0xFFFF0000 | 0x8000
    numbers = bits.view(np.float32) * rng.choice([-1, 1], bits.size).astype(np.float32)
    expected = numbers.astype(ml_dtypes.bfloat16).astype(np.float32)
    assert (rounded(numbers).view(np.uint32) == expected.view(np.uint32)).all()
    case = make_rounded_case(parse(SMALL[0]))
    assert (rounded(case.x) == case.x).all()
    assert (rounded(case.w) == case.w).all()


# Engines -----------------------------------------------------------------------------------------


@pytest.mark.sampled(61)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("text", SMALL)
@pytest.mark.parametrize("name", TESTED)
def test_an_engine_is_right(name, text, threads):
    """Engines that are installed; pplconv in int8 is exact, and refuses nothing."""
    engine = (INT8 | BF16)[name]
    make = make_quantized_case if name in INT8 else make_rounded_case
    candidate = prepare_checked(engine, make(parse(text)), threads)
    if candidate.status == UNSUPPORTED and not engine.ours:
        assert candidate.detail
        return
    assert candidate.status == OK, candidate.detail
    assert candidate.error <= (0.0 if engine.ours and name in INT8 else engine.tolerance)


def test_bounds_of_bfloat16_are_no_looser_than_its_roundings():
    narrow = {one.name for one in bf16.ENGINES if one.tolerance == 2.0**-8 + 1e-4}
    assert {one.tolerance for one in bf16.ENGINES if one.name not in narrow} == {1e-4}
    assert {one.name for one in bf16.ENGINES if one.ours} - narrow == {
        "pplconv_nhwc_bf16", "pplconv_bf16",
    }  # fmt: skip


class Fake(QuantizedEngine):
    """Gives the exact result, and some of it so many units off."""

    def __init__(self, units=0, part=1, ours=False, kind="u8", dtype=None):
        self.name, self.units, self.part, self.ours, self.kind = "fake", units, part, ours, kind
        self.tolerance = 0.0 if ours else QuantizedEngine.tolerance
        self.dtype, self.calls = dtype, 0

    def prepare_quantized(self, problem, layer, threads):
        """Compute once."""
        y = layer.expected.copy()
        flat = y.reshape(-1)[:: self.part]
        flat[...] = np.where(flat < 100, flat + self.units, flat - self.units)
        y = y.astype(self.dtype or y.dtype)

        def call():
            self.calls += 1
            return y

        return Prepared(call, lambda array: array, isa="avx512vnni")


@pytest.fixture(scope="module")
def case():
    return make_quantized_case(parse("mb1ic8ih6oc8kh3ph1"))


@pytest.mark.parametrize("kind", ["u8", "s8"])
@pytest.mark.parametrize(
    ("ours", "units", "status"),
    [(True, 0, OK), (True, 1, WRONG), (False, 1, OK), (False, 2, WRONG), (False, 20, WRONG)],
)
def test_a_peer_may_be_one_unit_off_and_ours_not_at_all(case, kind, ours, units, status):
    engine = Fake(units, ours=ours, kind=kind)
    candidate = prepare_checked(engine, case, 1)
    assert candidate.status == status
    assert candidate.error == {0: 0.0, 1: 1.0}.get(units, float(units))
    if status == WRONG:
        words = "one unit off, expected none" if units == 1 else f"{units} units off"
        assert words in candidate.detail


def test_how_many_results_are_off_is_counted(case):
    candidate = prepare_checked(Fake(1, part=4), case, 1)
    assert (candidate.status, candidate.error) == (OK, 0.25)


def test_another_type_is_wrong(case):
    candidate = prepare_checked(Fake(dtype=np.int32), case, 1)
    assert candidate.status == WRONG
    assert "type" in candidate.detail


@pytest.mark.slow
def test_a_wrong_engine_is_not_timed(case):
    engine = Fake(2)
    result = run_layer(
        case.problem, [engine], 1, QUICK, None, Progress(1), make=make_quantized_case
    )
    assert result.entries["fake"].status == WRONG
    assert result.entries["fake"].seconds is None
    assert engine.calls == 2


@pytest.mark.slow
def test_the_instruction_set_of_a_plan_is_recorded(case):
    result = run_layer(
        case.problem, [Fake()], 1, QUICK, None, Progress(1), make=make_quantized_case
    )
    assert result.entries["fake"].isa == "avx512vnni"


def test_an_engine_of_int8_computes_nothing_else(case):
    from benchmarks.candidates import make_case

    assert prepare_checked(Fake(), make_case(case.problem), 1).status == UNSUPPORTED


# pplconv -----------------------------------------------------------------------------------------


class QConv2d:
    """The real layer, planned by estimate; its plans name another machine's instruction set."""

    off = 0
    real = pplconv.QConv2d

    def __init__(self, weight, bias, **given):
        self.given = given
        by_estimate = {"search": "estimate", "search_context": "hot"}
        self.layer = self.real(weight, bias, **given | by_estimate)

    def plan_for(self, shape):
        """Name what it would run on."""
        assert tuple(shape) == self.given["input_shape"]
        return type("Plan", (), {"isa": "amx"})

    def __call__(self, x, out):
        """Compute, and be off by some units."""
        y = self.layer(x, out=out)
        out[...] = np.where(y < 100, y + self.off, y - self.off)
        return out


OURS = [name for name, engine in INT8.items() if engine.ours]


def test_a_pplconv_without_quantized_layers_is_absent(monkeypatch):
    without(monkeypatch, "QConv2d")
    for name in OURS:
        found = INT8[name].available()
        assert (found.ok, found.reason) == (False, "this pplconv has no QConv2d")


@pytest.mark.parametrize("text", SMALL)
@pytest.mark.parametrize("name", OURS)
def test_what_qconv2d_is_given(monkeypatch, name, text):
    monkeypatch.setattr(pplconv, "QConv2d", QConv2d)
    assert INT8[name].available().ok
    candidate = prepare_checked(INT8[name], make_quantized_case(parse(text)), 2)
    assert candidate.status == OK, candidate.detail
    assert candidate.error == 0.0
    assert candidate.prepared.isa == "amx"
    monkeypatch.setattr(QConv2d, "off", 1)
    assert prepare_checked(INT8[name], make_quantized_case(parse(text)), 2).status == WRONG


def test_searches_have_names_of_their_own(monkeypatch, case):
    monkeypatch.setattr(pplconv, "QConv2d", QConv2d)
    (engine,) = INT8["pplconv_nhwc_s8"].variants(["measure-cold"], ())
    assert (engine.name, engine.kind) == ("pplconv_nhwc_s8@measure-cold", "s8")
    given = prepare_checked(engine, case, 1).prepared.call.func.given
    asked = [given[name] for name in ("layout", "search", "search_context", "threads")]
    assert asked == ["NHWC", "measure", "cold", 1]


def test_bfloat16_is_asked_of_conv2d(monkeypatch):
    given = []
    real = pplconv.Conv2d

    def spy(w, *, precision=None, **arguments):
        given.append(precision)
        return real(w, **arguments)

    monkeypatch.setattr(pplconv, "Conv2d", spy)
    for name in ("pplconv_bf16", "pplconv_nhwc_bf16"):
        assert BF16[name].available().ok
        assert prepare_checked(BF16[name], make_rounded_case(parse(SMALL[0])), 1).status == OK
        assert "precision=bf16" in BF16[name].note
    assert set(given) == {"bf16"}

    def refuse(w, **arguments):
        raise ValueError(f"precision must be None, got {arguments['precision']!r}")

    monkeypatch.setattr(pplconv, "Conv2d", refuse)
    assert "got 'bf16'" in BF16["pplconv_bf16"].available().reason


def test_arrays_of_bfloat16_are_given_where_pplconv_takes_them(monkeypatch):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    real = pplconv.Conv2d

    class Conv2d:
        """Takes them by way of float32."""

        def __init__(self, w, **arguments):
            assert w.dtype == bfloat16
            self.conv = real(w.astype(np.float32), **arguments)
            self.plan_for = self.conv.plan_for

        def __call__(self, x, out):
            assert x.dtype == out.dtype == bfloat16
            out[...] = self.conv(x.astype(np.float32)).astype(bfloat16)
            return out

    monkeypatch.setattr(pplconv, "Conv2d", Conv2d)
    engine = BF16["pplconv_nhwc_bf16_arrays"]
    assert engine.available().ok
    candidate = prepare_checked(engine, make_rounded_case(parse(SMALL[0])), 1)
    assert candidate.status == OK, candidate.detail
    # Outputs rounded to bfloat16 have a larger error than sums in float32.
    assert candidate.error > 1e-4


def test_an_engine_that_raises_does_not_end_a_run(monkeypatch, case):
    def broken(*arguments, **settings):
        raise NotImplementedError("no kernel")

    monkeypatch.setattr(pplconv, "QConv2d", broken)
    candidate = prepare_checked(INT8["pplconv_u8"], case, 1)
    assert (candidate.status, candidate.detail) == (FAILED, "NotImplementedError: no kernel")


# The command -------------------------------------------------------------------------------------


def test_the_network_that_nothing_was_tuned_on():
    net = run.nets_of()["efficientnet_lite0"]
    # 407 million products, as its authors count them, padding and all.
    assert sum(one.flops * one.count for one in net) / 2 == pytest.approx(407e6, rel=0.06)
    assert {one.kh for one in net if one.kind == "depthwise"} == {3, 5}
    assert "resnet_50" in run.nets_of()


@pytest.mark.slow
def test_a_run(monkeypatch, ran):
    monkeypatch.setattr(pplconv, "QConv2d", QConv2d)
    engines = "pplconv_nhwc_u8,pplconv_nhwc_s8,pplconv_nhwc"
    layers = ["--nets", "efficientnet_lite0", "--layers", "classifier|block16/dw"]
    found = ran(run.main, *FAST, *layers, "--threads", "1,2", "--engines", engines)
    for title in ("Totals by network", "Figures to reach", "one unit off", "best layout, best"):
        assert title in found.out
        assert title in found.text
    assert "efficientnet_lite0, 2 threads: Gop/s" in found.out
    read = load(found.record)
    assert [layer.threads for layer in read.layers] == [1, 1, 2, 2]
    for layer in read.layers:
        assert {entry.status for entry in layer.entries.values()} == {OK}
        assert layer.entries["pplconv_nhwc_u8"].isa == "amx"
        assert layer.entries["pplconv_nhwc_s8"].error == 0.0
    assert found.plain["precision"] == "int8"
    assert len(found.plain["readings"]) == 4


@pytest.mark.slow
def test_a_run_in_bfloat16(ran):
    chosen = ["--precision", "bf16", "--engines", "pplconv_nhwc"]
    layers = ["--nets", "efficientnet_lite0", "--layers", "classifier"]
    (layer,) = load(ran(run.main, *FAST, *chosen, *layers).record).layers
    assert layer.entries["pplconv_nhwc"].status == OK
    # Some loop of the machine's, if only float32's.
    assert layer.peak > 0


def test_names_are_unique():
    names = [*INT8, *BF16]
    assert len(set(names)) == len(names) == len(quantized.ENGINES) + len(bf16.ENGINES)
    assert all(set(run.engines_of(one)) & set(names) for one in ("int8", "bf16"))
    assert list(itertools.islice(run.engines_of("int8"), 2)) == OURS[:2]
