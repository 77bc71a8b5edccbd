"""Sparse weights beside the peers: pruned layers, engines and their arguments, the command."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

import pplconv
from benchmarks.candidates import OK, UNSUPPORTED, WRONG, prepare_checked
from benchmarks.engines import sparse
from benchmarks.engines.base import Engine, Prepared, Unsupported
from benchmarks.engines.sparse import block_in, block_of
from benchmarks.engines.sparse.mnn import MnnSparse, stored
from benchmarks.problems import ProblemError, parse
from benchmarks.reference import make_data, reference
from benchmarks.sparse import run
from benchmarks.sparse.layers import (
    BLOCKS,
    make_pruned_case,
    make_pruned_quantized_case,
    pruned,
)
from benchmarks.sparse.measured import from_plain
from tests.benchmarks.known_runs import FAST, installed

# A plain 1x1, a 3x3, one that is strided and padded, and one with channels that fill no block.
SMALL = ["mb1ic16ih6oc32kh1", "mb1ic8ih8oc16kh3ph1", "mb1ic12ih11iw9oc20kh3sh2sw1ph1pw0"]
ENGINES = {precision: {one.name: one for one in some} for precision, some in sparse.ENGINES.items()}
OURS = [(kind, name) for kind, some in ENGINES.items() for name in some if some[name].ours]
PRODUCTS = ["torch_csr", "scipy_csr", "scipy_bsr_b4"]


def made(precision, text, density=0.25, blocks=BLOCKS):
    """A case of a precision."""
    make = make_pruned_case if precision == "fp32" else make_pruned_quantized_case
    return make(parse(text), density, blocks)


# Layers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("density", [0.05, 0.25, 0.5, 1.0])
def test_pruning_keeps_the_strongest_blocks(density, block):
    _, w = make_data(parse("mb1ic8ih6oc32kh3"))
    left = pruned(w, density, block)
    assert (left.shape, left.dtype) == (w.shape, w.dtype)
    assert (left[left != 0] == w[left != 0]).all()
    blocks = left.reshape(32 // block, block, -1)
    kept = blocks.any(axis=1)
    # Whole blocks: the weights are nowhere zero.
    assert (blocks.all(axis=1) == kept).all()
    assert kept.sum() == round(density * kept.size)
    strength = np.square(w.reshape(blocks.shape)).sum(axis=1)
    if density < 1.0:
        assert strength[kept].min() >= strength[~kept].max()


def test_channels_that_are_left_are_a_block():
    w = np.ones((6, 3, 1, 1), np.float32)
    w[4:] = 2.0
    left = pruned(w, 0.5, 4)
    assert left[:4].any() == 0
    assert (left[4:] == 2.0).all()


def test_equal_blocks_are_kept_in_the_order_of_the_weights():
    left = pruned(np.ones((8, 4, 1, 1), np.float32), 0.25, 4)
    assert np.flatnonzero(left.reshape(8, 4)[0]).tolist() == [0, 1]
    assert not left[4:].any()


def test_one_block_is_left_of_every_layer():
    assert np.count_nonzero(pruned(np.ones((4, 2, 1, 1), np.float32), 0.01, 4)) == 4


@pytest.mark.parametrize(
    ("density", "block", "message"),
    [(0.0, 1, "density is 0.0"), (1.5, 1, "density is 1.5"), (0.5, 0, "block is 0")],
)
def test_what_cannot_be_pruned(density, block, message):
    with pytest.raises(ValueError, match=message):
        pruned(np.ones((4, 4, 1, 1), np.float32), density, block)


def test_what_is_expected_is_of_the_pruned_weights():
    case = made("fp32", SMALL[2])
    assert set(case.patterns) == set(BLOCKS)
    for block, pattern in case.patterns.items():
        assert (pattern.expected == reference(case.problem, case.x, pattern.w)).all()
        assert case.kept()[block] == np.count_nonzero(pattern.w)
        assert case.kept()[block] == pytest.approx(0.25 * pattern.w.size, abs=4 * block)
    assert (case.w == case.patterns[1].w).all()


def test_the_same_layer_in_every_run():
    first, second = (made("int8", SMALL[1], blocks=(4,)) for _ in range(2))
    assert set(first.patterns) == {1, 4}
    for block in first.patterns:
        assert (first.patterns[block].w == second.patterns[block].w).all()
        assert (first.patterns[block].expected == second.patterns[block].expected).all()
    # Of int8 weights a few were zero before.
    assert 0.2 < first.kept()[4] / first.patterns[4].w.size <= 0.26


# Engines -----------------------------------------------------------------------------------------


class Fake(Engine):
    """Convolves by the reference whatever weights it is given."""

    distribution = "numpy"

    def __init__(self, name, factor=1.0):
        self.name, self.factor, self.seen = name, factor, None

    def prepare(self, problem, x, w, threads):
        """Keep the weights."""
        self.seen = w
        y = self.factor * reference(problem, x, w)
        return Prepared(lambda: y, lambda array: array)


@pytest.mark.parametrize(
    ("name", "block"),
    [("fake", 0), ("fake_b4", 4), ("fake_nhwc_b16@measure", 16), ("fake_b4_dense", 0)],
)
def test_an_engine_is_given_the_weights_of_its_block(name, block):
    case, engine = made("fp32", SMALL[0]), Fake(name)
    assert (block_in(name), block_of(engine)) == (block, block or 1)
    assert prepare_checked(engine, case, 1).status == OK
    assert (engine.seen == case.patterns[block or 1].w).all()
    assert prepare_checked(Fake(name, 1.001), case, 1).status == WRONG


def without_sparse(real, given):
    """A stand-in that takes `sparse` and `block`, and computes densely on what it is given."""

    def make(w, *positional, sparse="auto", block=None, **settings):
        given.append((sparse, block, settings.get("tolerance"), settings.get("search")))
        return real(w, *positional, **settings)

    return make


@pytest.fixture
def stood_in(monkeypatch):
    """The arguments of pplconv's layers, recorded by stand-ins that know sparse weights."""
    given = []
    for name in ("Conv2d", "QConv2d"):
        monkeypatch.setattr(pplconv, name, without_sparse(getattr(pplconv, name), given))
    return given


@pytest.mark.parametrize(("precision", "name"), OURS)
def test_what_pplconv_is_given(stood_in, precision, name):
    engine = ENGINES[precision][name]
    assert engine.available().ok
    stood_in.clear()
    candidate = prepare_checked(engine, made(precision, SMALL[1]), 1)
    assert candidate.status == OK, candidate.detail
    (asked,) = stood_in
    block = block_in(name)
    assert asked[:2] == ((True, (1, block)) if block else (False, None))
    if name.endswith("_direct"):
        assert asked[2] == 0.0
    assert f"sparse={bool(block)}" in engine.note


def test_a_pplconv_without_sparse_weights_is_absent(monkeypatch):
    def conv2d(w, *, layout="NCHW", search="estimate", tolerance=1e-5, threads=None):
        raise AssertionError("unreachable")

    def qconv2d(weight, bias=None, *, sparse="auto", block=None, **others):
        raise ValueError("no sparse weights are multiplied as u8")

    monkeypatch.setattr(pplconv, "Conv2d", conv2d)
    monkeypatch.setattr(pplconv, "QConv2d", qconv2d)
    for precision, name in OURS:
        found = ENGINES[precision][name].available()
        assert not found.ok
        assert "sparse" in found.reason


@pytest.mark.parametrize("text", SMALL)
@pytest.mark.parametrize(
    ("precision", "name", "threads"),
    [
        *((precision, name, 2) for precision, name in OURS),
        *(("fp32", name, threads) for name in PRODUCTS for threads in (1, 2)),
    ],
)
def test_ours_and_products_of_sparse_matrices_are_right(precision, name, threads, text):
    """The real ones, where this pplconv or the peer has them."""
    engine = installed(ENGINES[precision][name])
    candidate = prepare_checked(engine, made(precision, text), threads)
    if candidate.status == UNSUPPORTED:
        assert name.endswith("_direct")
        assert "direct already" in candidate.detail
        return
    assert candidate.status == OK, candidate.detail
    assert candidate.error <= engine.tolerance


def test_a_direct_sum_of_a_1x1_is_the_dense_engine():
    with pytest.raises(Unsupported, match="direct already"):
        ENGINES["fp32"]["pplconv_direct"].prepare(parse(SMALL[0]), None, None, 1)


def test_variants_keep_block_and_kind(stood_in):
    for precision, name in OURS:
        (engine,) = ENGINES[precision][name].variants(["measure"], ())
        assert engine.name == f"{name}@measure"
        assert engine.search == "measure"
        assert block_in(engine.name) == block_in(name)
        assert ("direct" in name) == (getattr(engine, "direct", False) is True)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *itertools.product(["mb2ic8ih4oc8kh1", "mb1g2ic8ih4oc8kh1"], ["torch_csr", "scipy_csr"]),
        ("mb1ic8ih4oc6kh1", "scipy_bsr_b4"),
    ],
)
def test_a_product_is_of_one_image_and_one_group_and_of_whole_blocks(text, name):
    engine = installed(ENGINES["fp32"][name])
    assert prepare_checked(engine, made("fp32", text), 1).status == UNSUPPORTED


def test_weights_that_are_stored():
    w = np.zeros((10, 3, 1, 1), np.float32)
    w[1, 0] = w[2, 0] = w[5, 2] = w[9, 1] = 1.0
    assert stored(w, 1) == 4
    assert stored(w, 4) == 4 + 4 + 1


def test_what_the_converter_of_mnn_is_asked(tmp_path):
    w = make_pruned_case(parse("mb1ic16ih4oc32kh1"), 0.25, BLOCKS).patterns
    assert MnnSparse(1).options(w[1].w, tmp_path) == ("--detectSparseSpeedUp",)
    *options, parameters = MnnSparse(8).options(w[8].w, tmp_path)
    assert options == ["--detectSparseSpeedUp", "--compressionParamsFile"]
    (algorithm,) = json.loads((tmp_path / "pruned.json").read_text())["algo"]
    assert parameters == str(tmp_path / "pruned.json")
    assert algorithm["pruneParams"]["simdOcPrunerParams"] == {"ocBlocks": [8]}


@pytest.mark.parametrize(("block", "density", "zeros"), [(1, 0.5, 60), (4, 0.75, 30)])
def test_what_the_converter_of_mnn_leaves_dense(tmp_path, block, density, zeros):
    w = make_pruned_case(parse("mb1ic16ih4oc32kh1"), density, (block,)).patterns[block].w
    with pytest.raises(Unsupported, match=f"{zeros} % of zeros"):
        MnnSparse(block).options(w, tmp_path)


def test_names_are_unique_and_whoever_is_left_out_is_no_engine_of_every_run():
    for precision, engines in sparse.ENGINES.items():
        assert len({one.name for one in engines}) == len(engines)
        assert not set(sparse.LEFT_OUT[precision]) & {one.name for one in engines} - {*sparse.SLOW}


# The command -------------------------------------------------------------------------------------

ONE_LAYER = ["--precision", "fp32", "--layers", "darknet_19:conv15"]


def test_the_network_that_nothing_was_tuned_on():
    net = run.nets_of()["darknet_19"]
    # 5.58 billion operations, as its author counts them.
    assert sum(one.flops * one.count for one in net) == pytest.approx(5.58e9, rel=0.02)
    assert {"1x1", "3x3"} <= {one.kind for one in net}


def chosen(*arguments):
    """Options as the command has them."""
    return run.parser().parse_args(arguments)


def test_layers_of_every_run():
    problems = run.select_layers(chosen())
    assert {one.net for one in problems} == set(run.NETS)
    assert {one.kind for one in problems} == {"1x1", "3x3"}
    assert 12 <= len(problems) <= 18
    everything = run.select_layers(chosen("--all-layers"))
    assert len(everything) > 2 * len(problems)
    assert not {"stem", "depthwise"} & {one.kind for one in everything}
    (one,) = run.select_layers(chosen("--layers", "conv8$"))
    assert one.name == "mobilenet:conv8"
    with pytest.raises(ProblemError):
        run.select_layers(chosen("--nets", "lenet"))


def test_steps_of_every_run():
    steps = list(run.steps_of(chosen("--threads", "1,2"), run.select_layers(chosen())))
    assert {one.density for one in steps if one.precision == "fp32"} == {
        0.75, 0.5, 0.25, 0.1, 0.05,
    }  # fmt: skip
    asked = chosen("--densities", "0.1,0.5", "--precision", "int8", "--layers", "conv8$")
    steps = list(run.steps_of(asked, run.select_layers(asked)))
    assert [(one.precision, one.density) for one in steps] == [("int8", 0.5), ("int8", 0.1)]


@pytest.mark.slow
def test_a_run(stood_in, ran):
    engines = "pplconv_b1,pplconv_b4,pplconv_dense,pplconv_direct"
    quantized = "pplconv_nhwc_u8_b4,pplconv_nhwc_u8_dense"
    layers = ["--layers", "darknet_19:conv15", "--threads", "1,2", "--densities", "0.75,0.25"]
    made = ran(run.main, *FAST, *layers, "--engines", f"{engines},{quantized}")
    for title in ("Figures to reach", "fp32, 1 thread: ms", "int8, 2 threads: useful products",
                  "part of the weights below which sparse ones are faster"):  # fmt: skip
        assert title in made.out
        assert title in made.text
    assert "fp32, left out: litert with sparse weights" in made.out
    found = [from_plain(one) for one in made.plain["layers"]]
    assert [(one.precision, one.layer.threads, one.density) for one in found] == [
        (precision, threads, density)
        for precision in ("fp32", "int8")
        for density in (0.75, 0.25)
        for threads in (1, 2)
    ]
    for one in found:
        statuses = {name: entry.status for name, entry in one.layer.entries.items()}
        assert statuses.pop("pplconv_direct", UNSUPPORTED) == UNSUPPORTED
        assert set(statuses.values()) == {OK}
        # Portable C has no loop of bytes.
        assert one.readings or one.precision == "int8"
        share = one.kept[4] / (one.problem.oc * one.problem.reduction)
        assert share == pytest.approx(one.density, abs=0.02)
        assert one.useful(4) == pytest.approx(share * one.problem.flops)


@pytest.mark.slow
def test_peers_do_not_run_above_half(stood_in, ran, monkeypatch):
    peer = Fake("peer")
    monkeypatch.setitem(sparse.ENGINES, "fp32", (ENGINES["fp32"]["pplconv_b1"], peer))
    found = ran(run.main, *FAST, *ONE_LAYER, "--densities", "0.6,0.5")
    names = [set(one["engines"]) for one in found.plain["layers"]]
    assert names == [{"pplconv_b1"}, {"pplconv_b1", "peer"}]


def test_slow_engines_run_if_they_are_named():
    names = [engine.name for engine, _ in run.find("fp32", (), ())]
    assert "scipy_csr" in names
    assert not set(names) & set(sparse.SLOW)
    (only,) = run.find("fp32", sparse.SLOW, ())
    assert only[0].name == sparse.SLOW[0]


def test_dense_layers_may_be_searched_apart():
    found = run.find("fp32", ["pplconv_b4", "pplconv_dense"], (), ["measure"])
    assert [one.name for one, _ in found] == ["pplconv_b4", "pplconv_dense@measure"]


@pytest.mark.slow
def test_ctrl_c_leaves_what_was_measured(stood_in, ran, interrupted):
    interrupted(run, "measure", after=1)
    found = ran(run.main, *FAST, *ONE_LAYER, "--engines", "pplconv_b4", status=130)
    assert "interrupted in step 2 of 5" in found.out
    assert len(found.plain["layers"]) == 1
