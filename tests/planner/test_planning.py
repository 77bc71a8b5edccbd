"""Plans: wisdom first, else the estimate or a search; and what bounds them."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

import pplconv
from pplconv.planner import planning, searching
from pplconv.planner.estimating import estimate_plan
from pplconv.planner.planning import plan_problem
from pplconv.planner.target import here
from pplconv.problem import ConvProblem
from tests.planner.planner_case import LAYER, Bench, entries, request
from tests.programs import finding, output


def plan_of(asked, **more):
    return plan_problem(asked, **more).plan


def all_bits(asked=None):
    return list(
        dict.fromkeys(r.candidate.bits for r in estimate_plan(asked or request(), math.inf)[0])
    )


def favour(bits, monkeypatch):
    """Make the clock find candidates of these bits the fastest."""
    return Bench(lambda c, n: 1e-3 if c.bits == bits else 2e-3).install(monkeypatch)


def test_a_search_is_found_by_later_estimates(path, monkeypatch):
    before = plan_of(request())
    assert (before.search, before.seconds) == ("estimate", None)
    bits = all_bits()[1]
    favour(bits, monkeypatch)
    measured = plan_problem(request(), search="measure")
    assert (measured.plan.search, measured.plan.seconds) == ("measure", 1e-3)
    assert (measured.plan.bits, measured.own.bits, measured.own.seconds) == (
        bits,
        before.bits,
        2e-3,
    )
    assert measured.own == before
    known = plan_problem(request())
    assert known.plan == measured.plan
    assert known.fields == measured.fields
    assert (known.plan.search, known.plan.seconds, known.own) == ("wisdom", 1e-3, None)
    assert path.is_file()


def test_what_is_known_is_not_measured_again(monkeypatch):
    favour(all_bits()[1], monkeypatch)
    first = plan_of(request(), search="measure")
    bench = favour(all_bits()[2], monkeypatch)
    assert plan_of(request(), search="measure") == first
    assert bench.prepared == []
    # Unless that is asked for. The CPU says how many candidates are near enough for "measure".
    again = plan_problem(request(), search="exhaustive", again=True).plan
    assert again.bits == all_bits()[2]
    assert plan_of(request()).bits == all_bits()[2]


def test_an_exhaustive_search_does_not_trust_a_measured_one(monkeypatch):
    first, second, third = all_bits()[:3]
    favour(first, monkeypatch)
    assert plan_of(request(), search="measure").bits == first
    favour(second, monkeypatch)
    assert plan_of(request(), search="exhaustive").bits == second
    assert entries()[0]["teams"]["1"]["search"] == "exhaustive"
    # It trusts its own finding, and keeps the bits for another team.
    bench = favour(third, monkeypatch)
    assert plan_of(request(), search="exhaustive").bits == second
    assert plan_of(request(), search="measure").bits == second
    assert bench.prepared == []
    assert plan_of(request(2), search="exhaustive").bits == second
    assert {c.bits for c, _ in bench.prepared} <= {second, plan_of(request(2)).bits, first}


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 8, 1)])
@pytest.mark.parametrize("search", ["measure", "exhaustive"])
def test_teams_share_their_bits_whoever_comes_first(order, search, monkeypatch):
    """The clock changes its mind from team to team; the bits stay those found first."""
    found = []
    for threads, bits in zip(order, all_bits(), strict=False):
        favour(bits, monkeypatch)
        plan = plan_of(request(threads), search=search)
        found.append(plan.bits)
        # A team that nobody measured gets the same bits.
        assert plan_of(request(5)).bits == plan.bits
    assert len(set(found)) == 1
    (entry,) = entries()
    assert set(entry["teams"]) == {str(n) for n in order}


@pytest.mark.parametrize("search", ["estimate", "measure"])
def test_the_result_has_the_same_bits_for_any_team(search, rng):
    """With a real clock, before, between and after searches of any team."""
    x = rng.standard_normal((1, 32, 20, 20), np.float32)
    w = rng.standard_normal((32, 32, 3, 3), np.float32)
    results = []
    for threads in (2, 1, 3):
        conv = pplconv.Conv2d(w, padding=1, threads=threads, search=search, search_seconds=0.02)
        results.append(conv(x))
        assert conv.plan_for(x.shape).search == search
        # Not conv2d, which keeps the plans of other tests.
        results.append(pplconv.Conv2d(w, padding=1, threads=threads)(x))
    for y in results[1:]:
        np.testing.assert_array_equal(y, results[0])


def test_algorithms_of_equal_bits_keep_their_teams(monkeypatch):
    """Teams may differ in the algorithm where the bits agree; neither drops the other."""
    asked = {n: request(n, problem=ConvProblem.parse("mb1ic64ih20oc64kh1")) for n in (1, 2)}
    wanted = {1: "pointwise", 2: "im2col"}
    Bench(lambda c, n: 1e-3 if c.algorithm == wanted[n] else 2e-3).install(monkeypatch)
    for n in (1, 2):
        assert plan_of(asked[n], search="exhaustive").algorithm == wanted[n]
    for n in (1, 2):
        plan = plan_of(asked[n])
        assert (plan.search, plan.algorithm, plan.seconds) == ("wisdom", wanted[n], 1e-3)


def test_classes_of_epilogues_are_kept_apart(monkeypatch):
    first, second = all_bits()[:2]
    favour(second, monkeypatch)
    plan_of(request(), search="measure")
    # A hint from a bare convolution is better than none.
    assert plan_of(request(), epilogue="exp").bits == second
    favour(first, monkeypatch)
    assert plan_of(request(), search="measure", epilogue="exp").bits == first
    assert plan_of(request(), epilogue="exp").bits == first
    assert plan_of(request()).bits == plan_of(request(), epilogue="slope").bits == second
    assert [e["epilogue"] for e in entries()] == ["none", "exp"]


def test_a_forced_algorithm_keeps_its_own_findings(monkeypatch):
    forced = request(algorithm="winograd", tolerance=1e-3)
    first, second = all_bits(forced)[:2]
    favour(second, monkeypatch)
    assert plan_of(forced, search="measure").bits == second
    favour(first, monkeypatch)
    two = request(2, algorithm="winograd", tolerance=1e-3)
    assert plan_of(two, search="measure").bits == second
    # It says nothing about a free choice.
    assert plan_of(request(tolerance=1e-3)).search == "estimate"
    (entry,) = entries()
    assert entry["epilogue"] == "none algorithm=winograd"


def damaged(change):
    """Change measured wisdom as somebody else might have written it."""
    document = pplconv.wisdom.export()
    for entry in document["entries"]:
        change(entry)
    pplconv.wisdom.clear(disk=True)
    assert pplconv.wisdom.load(document) == len(document["entries"])


def test_wisdom_of_no_such_candidate_is_ignored(monkeypatch):
    estimate = plan_of(request())
    favour(all_bits()[1], monkeypatch)
    measured = plan_of(request(), search="measure")
    damaged(lambda entry: entry["choice"].update(bits="sum by magic"))
    assert plan_of(request()) == estimate
    assert plan_of(request()).search == "estimate"
    # And a search goes on as if there were none.
    assert plan_of(request(), search="measure") == measured


@pytest.mark.parametrize("value", [0, 13, 2**53, True, "all"])
def test_wisdom_of_no_such_blocks_keeps_the_choice_only(value, monkeypatch):
    favour(all_bits()[1], monkeypatch)
    measured = plan_of(request(), search="measure")

    def change(entry):
        blocks = entry["teams"]["1"]["blocks"]
        blocks.update(dict.fromkeys(blocks, value))

    damaged(change)
    plan = plan_of(request())
    assert (plan.search, plan.bits, plan.seconds) == ("wisdom", measured.bits, None)


def test_wisdom_never_exceeds_the_tolerance(monkeypatch):
    """Whoever writes a key of tolerance 0 over a Winograd entry gets direct sums all the same."""
    loose = request(tolerance=1e-3)
    winograd = next(bits for bits in all_bits(loose) if bits.startswith("F(4"))
    favour(winograd, monkeypatch)
    assert plan_of(loose, search="measure").bits == winograd
    damaged(lambda entry: entry.update(tolerance=0.0))
    plan = plan_of(request(tolerance=0.0))
    assert plan.algorithm != "winograd"
    assert plan.search == "estimate"


@pytest.mark.parametrize("where", ["preparing", "running", "progress"])
def test_an_interrupt_leaves_wisdom_as_it_was(where, path, monkeypatch):
    favour(all_bits()[1], monkeypatch)
    plan_of(request(tolerance=1e-4), search="measure")
    before = path.read_bytes()

    def interrupt(*_arguments):
        raise KeyboardInterrupt

    bench = favour(all_bits()[1], monkeypatch)
    if where == "preparing":
        monkeypatch.setattr(bench, "prepare", interrupt)
    elif where == "running":
        monkeypatch.setattr(bench, "prepare", lambda c, n: interrupt)
    progress = interrupt if where == "progress" else None
    with pytest.raises(KeyboardInterrupt):
        plan_problem(request(), search="measure", progress=progress)
    assert path.read_bytes() == before
    assert plan_of(request()).search == "estimate"


def test_an_interrupted_conv2d_can_be_used_again(monkeypatch):
    conv = pplconv.Conv2d(np.ones((32, 32, 3, 3), np.float32), padding=1, search="measure")

    def interrupt(*_arguments, **_more):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(searching, "race", interrupt)
        with pytest.raises(KeyboardInterrupt):
            conv.plan_for((1, 32, 20, 20))
    assert conv.plan_for((1, 32, 20, 20)).search == "measure"


def test_a_cold_entry_gives_way_to_a_hot_one(monkeypatch):
    """A cold entry serves hot plans where nothing else is known, and the other way round."""
    first, second = all_bits()[:2]
    favour(second, monkeypatch)
    found = plan_of(request(), search="exhaustive", search_context="cold")
    assert (found.bits, found.seconds) == (second, pytest.approx(1e-3))
    for context in ("hot", "cold"):
        plan = plan_of(request(), search_context=context)
        assert (plan.bits, plan.search) == (second, "wisdom")
        # How long a cold run takes says nothing of a hot one.
        assert (plan.seconds is None) == (context == "hot")
    favour(first, monkeypatch)
    assert plan_of(request(), search="exhaustive").bits == first
    assert plan_of(request()).bits == first
    assert plan_of(request(), search_context="cold").bits == second
    # A team that was not measured takes the method from its own context, too.
    assert plan_of(request(2)).bits == first
    assert plan_of(request(2), search_context="cold").bits == second


def test_wisdom_from_before_contexts_is_hot(monkeypatch, tmp_path):
    """An older file names no context, and hot searches still write such files."""
    first, second = all_bits()[:2]
    favour(second, monkeypatch)
    plan_of(request(), search="exhaustive")
    older = pplconv.wisdom.export(tmp_path / "older.json")
    (entry,) = older["entries"]
    assert "context" not in json.dumps(entry)
    pplconv.wisdom.clear(disk=True)
    favour(first, monkeypatch)
    assert plan_of(request(), search="exhaustive", search_context="cold").bits == first
    assert pplconv.wisdom.load(tmp_path / "older.json") == 1
    assert plan_of(request()).bits == second
    assert plan_of(request(), search_context="cold").bits == first


def test_a_forked_child_that_leads_no_team_remembers_nothing_of_one(monkeypatch):
    favour(all_bits()[1], monkeypatch)
    monkeypatch.setattr(planning, "largest_team", lambda threads: 1)
    assert plan_of(request(2), search="measure").search == "measure"
    assert entries() == []
    plan_of(request(1), search="measure")
    assert len(entries()) == 1


def test_an_empty_batch_is_not_measured():
    problem = ConvProblem.parse("mb1ic4ih8oc4kh3")
    empty = ConvProblem(**{**vars(problem), "batch": 0})
    assert plan_of(request(problem=empty), search="measure").search == "estimate"
    y = pplconv.Conv2d(np.ones((4, 4, 3, 3), np.float32), search="exhaustive")(
        np.ones((0, 4, 8, 8), np.float32)
    )
    assert y.shape == (0, 4, 6, 6)


@pytest.mark.parametrize("search", ["estimate", "measure", "exhaustive"])
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_max_workspace_bounds_the_scratch(search, threads, monkeypatch):
    Bench(lambda c, n: 1e-3).install(monkeypatch)
    sizes = sorted({r.candidate.scratch_bytes for r in estimate_plan(request(), math.inf)[0]})
    least, middle = sizes[0], sizes[len(sizes) // 2]
    for bound in (least, middle - 1, middle, threads * sizes[-1]):
        plan = plan_of(request(threads, max_workspace=bound), search=search)
        assert plan.scratch_bytes <= bound
        # The team does not decide the bits here either.
        assert plan.bits == plan_of(request(1, max_workspace=bound), search=search).bits


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("algorithm", ["winograd", "im2col"])
def test_too_small_a_workspace_is_refused_with_the_least_bytes(algorithm, threads):
    asked = {"threads": threads, "algorithm": algorithm}
    w = np.ones((32, 32, 3, 3), np.float32)
    x = np.ones((1, 32, 20, 20), np.float32)
    with pytest.raises(ValueError, match=r"max_workspace must be at least (\d+) bytes") as caught:
        pplconv.conv2d(x, w, max_workspace=0, **asked)
    least = int(str(caught.value).split("at least ")[1].split()[0])
    with pytest.raises(ValueError, match=f"at least {least} bytes.*got {least - 1}"):
        pplconv.Conv2d(w, max_workspace=least - 1, input_shape=x.shape, **asked)
    conv = pplconv.Conv2d(w, max_workspace=least, **asked)
    assert conv.plan_for(x.shape).scratch_bytes <= least
    np.testing.assert_allclose(conv(x), pplconv.conv2d(x, w), rtol=1e-4)


def test_a_workspace_bound_does_not_follow_wisdom_beyond_it(monkeypatch):
    single = estimate_plan(request(), math.inf)[0]
    largest = max(single, key=lambda r: r.candidate.scratch_bytes).candidate
    Bench(lambda c, n: 1e-3 if c == largest else 2e-3).install(monkeypatch)
    assert plan_of(request(), search="exhaustive").scratch_bytes == largest.scratch_bytes
    bound = largest.scratch_bytes - 1
    assert plan_of(request(max_workspace=bound)).scratch_bytes <= bound


def test_a_team_whose_segments_need_more_scratch_gets_one_threads(monkeypatch):
    """Candidates for a team are made anew; the bound may leave none of them."""
    asked = request(2, max_workspace=1 << 20)
    make = type(asked).ranked

    def ranked(self, threads=None, *more, **named):
        if threads != 1:
            raise ValueError("max_workspace must be at least many bytes")
        return make(self, threads, *more, **named)

    monkeypatch.setattr(type(asked), "ranked", ranked)
    assert plan_of(asked).scratch_bytes <= 1 << 20


def test_runners_up_are_others():
    for asked in (request(), request(2)):
        for search in ("estimate", "measure", "estimate"):
            plan = plan_of(asked, search=search, search_seconds=0.05)
            assert 1 <= len(plan.runners_up) <= planning.RUNNERS_UP
            name = planning.summary(
                next(
                    r.candidate
                    for r in estimate_plan(asked)[1] + estimate_plan(asked, math.inf)[0]
                    if (r.candidate.algorithm, r.candidate.bits) == (plan.algorithm, plan.bits)
                    and here().symbol(r.candidate.kernel, "f32", plan.isa) == plan.kernel
                )
            )
            assert not any(text.rpartition(" x")[0] == name for text in plan.runners_up)


@pytest.mark.parametrize("search, reason", [
    ("estimate", "team"), ("wisdom", "measured"), ("measure", "noise"), ("exhaustive", "noise"),
])  # fmt: skip
def test_runners_up_that_look_faster_are_explained(search, reason):
    plan = dataclasses.replace(plan_of(request()), search=search, runners_up=("a x1.00", "b x1.07"))
    assert "x below 1" not in str(plan)
    text = str(dataclasses.replace(plan, runners_up=("a x0.97", "b x1.07")))
    (line,) = (line for line in text.splitlines() if line.startswith("x below 1"))
    assert reason in line


def test_only_these_choices_have_runners_up_that_look_faster(rng):
    """On one thread an estimate takes what it ranks first."""
    for _ in range(20):
        ic, oc, size = (int(n) for n in rng.integers(1, 65, 3))
        asked = request(problem=dataclasses.replace(LAYER, ic=ic, oc=oc, ih=size, iw=size))
        plan = plan_of(asked)
        assert plan.search == "estimate"
        assert all(float(text.rpartition(" x")[2]) >= 1 for text in plan.runners_up)


def test_a_plan_shows_where_it_comes_from():
    text = str(plan_of(request(), search="measure", search_seconds=0.02))
    assert "chosen by  measure (" in text
    assert "runners-up" in text
    assert "scratch" in text
    assert "error at most" in text
    assert "chosen by  wisdom (" in str(plan_of(request()))
    assert "chosen by  estimate\n" in str(plan_of(request(tolerance=0.0)))


def test_the_estimate_is_the_rule(monkeypatch):
    monkeypatch.setattr(searching, "race", None)
    conv = pplconv.Conv2d(np.ones((8, 8, 3, 3), np.float32), input_shape=(1, 8, 9, 9))
    assert conv.plan_for((1, 8, 9, 9)).search == "estimate"


USER = """
import numpy as np, pplconv
w = np.ones((32, 32, 3, 3), np.float32)
plan = pplconv.Conv2d(w, padding=1, activation="relu", threads=int(sys.argv[1])).plan_for(
    (1, 32, 20, 20))
print(plan.search, plan.bits, plan.seconds, dict(plan.blocks), sep="|")
"""


def test_another_process_uses_what_was_found(path, monkeypatch):
    bits = all_bits()[1]
    favour(bits, monkeypatch)
    w = np.ones((32, 32, 3, 3), np.float32)
    conv = pplconv.Conv2d(w, padding=1, activation="relu", threads=1, search="measure")
    plan = conv.plan_for((1, 32, 20, 20))
    assert (plan.search, plan.bits) == ("measure", bits)
    kept = json.loads(path.read_text())
    assert [e["problem"] for e in kept["entries"]] == [str(LAYER)]
    for threads, seconds in ((1, plan.seconds), (2, None)):
        found = output("-c", finding(USER), threads).strip().split("|")
        assert found[:3] == ["wisdom", bits, str(seconds)]
        if threads == 1:
            assert found[3] == str(dict(plan.blocks))


def test_a_plan_goes_into_plain_data():
    """Reports need dicts, numbers and strings that json accepts."""
    plan = plan_of(request())
    plain = dataclasses.asdict(plan)
    assert (type(plain["blocks"]), type(plain["cost"])) == (dict, dict)
    assert plain["blocks"] == plan.blocks and plain["cost"] == plan.cost
    assert type(plan)(**plain) == plan
    assert json.loads(json.dumps(plain))["kernel"] == plan.kernel
    plain["blocks"].clear()
    assert plan.blocks
    with pytest.raises(TypeError):
        plan.blocks["k_block"] = 1


def test_one_channel_lies_in_a_plane_in_every_layout():
    weight = np.ones((1, 1, 7, 7), np.float32)
    kernels = {
        pplconv.Conv2d(weight, layout=layout, tolerance=0).plan_for(shape).kernel
        for layout, shape in (("NCHW", (2, 1, 40, 50)), ("NHWC", (2, 40, 50, 1)))
    }
    assert len(kernels) == 1 and "depthwise_pixels" in kernels.pop()
