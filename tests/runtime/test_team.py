"""How large a team a call gets: limits, regions, other calls; and other libraries' settings."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import threadpoolctl

import pplconv
from pplconv.planner import share
from pplconv.runtime import openmp_runtimes
from pplconv.schedules.team import Taken, largest_team, threads_in_use
from tests.patience import PATIENCE
from tests.programs import finding, output, ran
from tests.runtime.processes import run

MANY = 1 << 20


def test_a_call_takes_what_it_wants_where_nobody_limits_it() -> None:
    for wanted in (1, 2, 3, 7):
        with Taken(wanted, MANY) as got:
            assert got == wanted
        assert largest_team(wanted) == wanted


def test_calls_share_and_each_has_one_thread_at_least() -> None:
    assert run(
        "with team.Taken(3, 4) as a, team.Taken(3, 4) as b, team.Taken(3, 4) as c:\n"
        "  print(a, b, c, team.threads_in_use())\n"
        "with team.Taken(3, 4) as a, team.Taken(5, 8) as b:\n"
        "  print(a, b, team.threads_in_use())\n"
        "print(team.threads_in_use())"
    ) == ["3 1 1 5", "3 5 8", "0"]


def test_what_a_call_took_comes_back_when_it_fails() -> None:
    before = threads_in_use()
    with pytest.raises(RuntimeError), Taken(2, MANY):
        raise RuntimeError
    assert threads_in_use() == before


@pytest.mark.parametrize("user_api", [None, "openmp"])
@pytest.mark.parametrize("limit", [1, 2])
def test_limits_of_threadpoolctl_are_kept(limit: int, user_api: str | None) -> None:
    """Against an OpenMP that begins with four threads, so that two are a limit everywhere."""
    assert run(
        "import threadpoolctl\n"
        f"with threadpoolctl.threadpool_limits({limit}, user_api={user_api!r}):\n"
        "  print([team.largest_team(n) for n in (1, 2, 3, 64)])\n"
        "print(team.largest_team(3))",
        OMP_NUM_THREADS="4",
    ) == [str([1, limit, limit, limit]), "3"]


def openmp_libraries() -> list[str]:
    """Return the paths of this process's OpenMP libraries.

    A wheel may bring its own: not every libgomp is the one that counts.
    """
    found = threadpoolctl.threadpool_info()
    libraries = [entry["filepath"] for entry in found if entry["user_api"] == "openmp"]
    assert libraries
    return libraries


def test_a_limit_that_was_set_before_the_import_is_kept() -> None:
    """OpenMP's first number may differ from its number when pplconv is imported."""
    code = finding(
        "import ctypes\n"
        f"for library in {openmp_libraries()!r}:\n"
        "  ctypes.CDLL(library).omp_set_num_threads(1)\n"
        "from pplconv.schedules import team\n"
        "print(team.largest_team(3))"
    )
    done = ran("-c", code, env={**os.environ, "OMP_NUM_THREADS": "4"})
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_what_openmp_begins_with_is_no_limit() -> None:
    """``threads=`` and ``PPLCONV_NUM_THREADS`` go before ``OMP_NUM_THREADS``."""
    assert run("print(team.largest_team(3))", OMP_NUM_THREADS="1") == ["3"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads in /proc")
@pytest.mark.parametrize(("limit", "threads"), [("1", 1), ("2", 2), ("64", 4)])
def test_the_limit_of_a_program_holds(limit: str, threads: int) -> None:
    """``OMP_THREAD_LIMIT`` is a hard limit, unlike other numbers."""
    assert run(
        "print(team.largest_team(4))\n"
        "before = os_threads()\n"
        "x = np.repeat(x, 16, 0)\n"
        "same = np.array_equal(pplconv.Conv2d(w, threads=4)(x), pplconv.Conv2d(w, threads=1)(x))\n"
        "print(os_threads() - before, same)",
        OMP_THREAD_LIMIT=limit, OMP_NUM_THREADS="1", PPLCONV_NUM_THREADS="4",
        PPLCONV_TEAM_START_US="1",
    ) == [str(threads), f"{threads - 1} True"]  # fmt: skip


def test_limits_of_other_libraries_are_not_openmps() -> None:
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        assert largest_team(3) == 3


def test_a_limit_holds_for_the_thread_that_set_it() -> None:
    """OpenMP keeps limits per thread, too."""
    got: list[int] = []
    with threadpoolctl.threadpool_limits(1, user_api="openmp"):
        thread = threading.Thread(target=lambda: got.append(largest_team(2)))
        thread.start()
        thread.join(timeout=PATIENCE)
    assert got == [2]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads in /proc")
def test_under_a_limit_no_thread_starts_and_the_bits_are_the_same() -> None:
    assert run(
        "import threadpoolctl\n"
        "before = os_threads()\n"
        "with threadpoolctl.threadpool_limits(1):\n"
        "  y = pplconv.conv2d(x, w, threads=2)\n"
        "  assert np.array_equal(pplconv.Conv2d(w, threads=2)(x), y)\n"
        "print(os_threads() - before)\n"
        "assert np.array_equal(pplconv.conv2d(x, w, threads=2), y)\n"
        "print(os_threads() - before)",
        PPLCONV_TEAM_START_US="1",
    ) == ["0", "1"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="calls what only libgomp has")
def test_inside_a_region_of_the_same_openmp_a_call_runs_alone() -> None:
    """Each thread of the region calls, through ctypes, what ``prange`` with the GIL would be."""
    (library,) = (path for path in openmp_libraries() if "gomp" in Path(path).name)
    assert run(
        "import ctypes\n"
        f"gomp = ctypes.CDLL({library!r})\n"
        "conv = pplconv.Conv2d(w, threads=2)\n"
        "expected = conv(x)\n"
        "found, lock = [], threading.Lock()\n"
        "@ctypes.CFUNCTYPE(None, ctypes.c_void_p)\n"
        "def body(_):\n"
        "  y = conv(x)\n"
        "  with lock:\n"
        "    found.append((team.largest_team(4), np.array_equal(y, expected)))\n"
        "gomp.GOMP_parallel(body, None, 3, 0)\n"
        "print(found, team.largest_team(4))",
        OMP_DYNAMIC="false",
    ) == [f"{[(1, True)] * 3} 4"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="stops a thread of Linux")
def test_a_call_does_not_wait_for_a_worker_that_does_not_run() -> None:
    """A worker that is stopped between calls, and goes on later, as if nothing had happened.

    A signal handler holds it: ``pause`` returns after another signal. One that comes before the
    handler has reached ``pause`` is lost, so it is sent until the handler has returned.
    """
    assert run(
        "import ctypes\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "signal_of = libc.signal\n"
        "signal_of.argtypes = [ctypes.c_int, ctypes.c_void_p]\n"
        "signal_of(signal.SIGTRAP, ctypes.cast(libc.pause, ctypes.c_void_p))\n"
        "signal_of(signal.SIGSYS, ctypes.cast(libc.getpid, ctypes.c_void_p))\n"
        "def status(tid, key):\n"
        "  for line in open(f'/proc/self/task/{tid}/status'):\n"
        "    if line.startswith(key + ':'): return line.split()[1]\n"
        "def held(tid): return int(status(tid, 'SigBlk'), 16) >> signal.SIGTRAP - 1 & 1\n"
        "before = set(os.listdir('/proc/self/task'))\n"
        "conv = pplconv.Conv2d(w, threads=2)\n"
        "alone = pplconv.Conv2d(w, threads=1)(x)\n"
        "same = [np.array_equal(conv(x), alone)]\n"
        "(worker,) = map(int, set(os.listdir('/proc/self/task')) - before)\n"
        "libc.tgkill(os.getpid(), worker, signal.SIGTRAP)\n"
        "eventually(lambda: held(worker))\n"
        "same += [np.array_equal(conv(x), alone) for _ in range(20)]\n"
        "print(all(same), held(worker))\n"
        "switches = int(status(worker, 'voluntary_ctxt_switches'))\n"
        "while held(worker):\n"
        "  libc.tgkill(os.getpid(), worker, signal.SIGSYS)\n"
        "  time.sleep(0.001)\n"
        "while int(status(worker, 'voluntary_ctxt_switches')) < switches + 5:\n"
        "  same.append(np.array_equal(conv(x), alone))\n"
        "  time.sleep(0.001)\n"
        "print(all(same), set(os.listdir('/proc/self/task')) - before == {str(worker)})",
        PPLCONV_TEAM_START_US="1",
    ) == ["True 1", "True True"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere none is moved")
@pytest.mark.parametrize("pinned", [False, True])
def test_beside_other_programs_workers_keep_their_cpus(pinned: bool) -> None:
    """The masks of all threads stay as they were, pinned or not."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        lines = run(
            "import contextlib\n"
            f"pin = pplconv.runtime.pin() if {pinned} else contextlib.nullcontext()\n"
            "conv, alone = (pplconv.Conv2d(w, threads=n) for n in (2, 1))\n"
            "expected = alone(x).tobytes()\n"
            "def cpus():\n"
            "  now, before = {}, None\n"
            "  while now != before:\n"  # a thread that was joined may take a moment to end
            "    before, now = now, {}\n"
            "    for thread in os.listdir('/proc/self/task'):\n"
            "      with contextlib.suppress(ProcessLookupError):\n"
            "        now[thread] = os.sched_getaffinity(int(thread))\n"
            "    time.sleep(0.05)\n"
            "  return now\n"
            "with pin:\n"
            "  same = [conv(x).tobytes() == expected]\n"
            "  before = cpus()\n"
            "  same += [conv(x).tobytes() == expected for _ in range(1000)]\n"
            "  print(all(same), cpus() == before)",
            PPLCONV_TEAM_START_US="1",
        )
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    assert lines == ["True True"]


def test_calls_of_many_threads_stay_within_the_share() -> None:
    """A call that has more than one thread leaves the others theirs."""
    (line,) = run(
        "conv = pplconv.Conv2d(random.standard_normal((64, 64, 3, 3), dtype=np.float32))\n"
        "image = random.standard_normal((1, 64, 56, 56), dtype=np.float32)\n"
        "expected = conv(image).tobytes()\n"
        "stop, same = threading.Event(), []\n"
        "def work():\n"
        "  while not stop.is_set():\n"
        "    same.append(conv(image).tobytes() == expected)\n"
        "threads = [threading.Thread(target=work) for _ in range(3)]\n"
        "for thread in threads: thread.start()\n"
        "most = 0\n"
        "while len(same) < 600 or not most:\n"
        "  most = max(most, team.threads_in_use())\n"
        "stop.set()\n"
        "for thread in threads: thread.join()\n"
        "print(conv.plan_for(image.shape).threads, most, team.threads_in_use(), same.count(False))",
        PPLCONV_NUM_THREADS="2",
        PPLCONV_TEAM_START_US="1",
    )
    plan, most, after, bad = map(int, line.split())
    assert (plan, after, bad) == (2, 0, 0)
    # Three callers: one has the share of two and two have a thread each, or all have one.
    assert 1 <= most <= 4


def test_the_share_is_the_default_team_unless_more_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PPLCONV_NUM_THREADS", "3")
    assert [share(threads) for threads in (None, 1, 3, 8, 1 << 40)] == [3, 3, 3, 8, 1024]


def test_a_search_beside_another_call_remembers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its team of two ran on one thread, so the time is meaningless."""
    remembered = []
    monkeypatch.setattr(pplconv.wisdom, "remember", lambda *a, **k: remembered.append(a))
    weight = np.ones((32, 32, 3, 3), np.float32)

    def search() -> None:
        pplconv.Conv2d(
            weight, padding=1, threads=2, search="measure", search_seconds=0.05,
            input_shape=(1, 32, 40, 40),
        )  # fmt: skip

    search()
    assert len(remembered) == 1
    with Taken(1, MANY):
        search()
    assert len(remembered) == 1


VIEW = (
    "import threadpoolctl\n"
    "def view():\n"
    "  keys = ('filepath', 'user_api', 'internal_api', 'num_threads')\n"
    "  return sorted(tuple(str(e.get(k)) for k in keys) for e in threadpoolctl.threadpool_info())\n"
)


def test_importing_and_using_changes_no_library_that_was_there() -> None:
    """pplconv loads its own OpenMP at most, and leaves its settings as they were."""
    code = finding(
        f"import numpy as np\n{VIEW}"
        "before = view()\n"
        "import pplconv\n"
        "imported = view()\n"
        "x = np.ones((2, 32, 40, 40), np.float32); w = np.ones((32, 32, 3, 3), np.float32)\n"
        "for n in (None, 1, 2, 3): pplconv.conv2d(x, w, threads=n)\n"
        "pplconv.Conv2d(w, search='measure', search_seconds=0.05, threads=2)(x)\n"
        "pplconv.from_blocked(pplconv.to_blocked(x, 16))\n"
        "used = view()\n"
        "new = [entry[1] for entry in imported if entry not in before]\n"
        "print(set(before) <= set(imported), new in ([], ['openmp']), used == imported)\n"
    )
    assert output("-c", code).split() == ["True", "True", "True"]


def test_numpys_blas_keeps_its_threads_at_work() -> None:
    """A matrix product in one thread, convolutions in another: neither's settings move."""
    a = np.ones((300, 300), np.float32)
    x = np.ones((2, 32, 40, 40), np.float32)
    w = np.ones((32, 32, 3, 3), np.float32)
    expected, product = pplconv.conv2d(x, w), a @ a
    before = threadpoolctl.threadpool_info()
    wrong: list[str] = []

    def multiply() -> None:
        for _ in range(20):
            if not np.array_equal(a @ a, product):
                wrong.append("product")

    thread = threading.Thread(target=multiply)
    thread.start()
    for _ in range(20):
        if not np.array_equal(pplconv.conv2d(x, w, threads=2), expected):
            wrong.append("convolution")
    thread.join(timeout=PATIENCE)
    assert not thread.is_alive()
    assert (wrong, threadpoolctl.threadpool_info()) == ([], before)


def test_pytorch_keeps_its_threads() -> None:
    torch = pytest.importorskip(
        "torch", reason="PyTorch is one of the benchmarks' peers, not a requirement of the tests"
    )
    before = torch.get_num_threads(), torch.get_num_interop_threads()
    x = np.ones((2, 32, 40, 40), np.float32)
    w = np.ones((32, 32, 3, 3), np.float32)
    theirs = torch.nn.functional.conv2d(torch.from_numpy(x), torch.from_numpy(w)).numpy()
    for threads in (1, 2):
        np.testing.assert_allclose(pplconv.conv2d(x, w, threads=threads), theirs, rtol=1e-4)
    assert (torch.get_num_threads(), torch.get_num_interop_threads()) == before


def entry(path: str, **changes: Any) -> dict[str, Any]:
    return {
        "filepath": path,
        "prefix": "libgomp",
        "user_api": "openmp",
        "internal_api": "openmp",
        "version": None,
        "num_threads": 4,
        **changes,
    }


def test_only_openmp_sorted_by_path(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = [
        entry("/usr/lib/libomp.so.5", prefix="libomp", num_threads=2),
        entry("/opt/libopenblas.so", user_api="blas", prefix="libopenblas"),
        entry("/opt/x/libgomp-a1.so.1"),
    ]
    monkeypatch.setattr(threadpoolctl, "threadpool_info", lambda: loaded)
    assert openmp_runtimes() == [
        {
            "library": "libgomp-a1.so.1",
            "path": "/opt/x/libgomp-a1.so.1",
            "prefix": "libgomp",
            "version": None,
            "threads": 4,
        },
        {
            "library": "libomp.so.5",
            "path": "/usr/lib/libomp.so.5",
            "prefix": "libomp",
            "version": None,
            "threads": 2,
        },
    ]


def test_no_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threadpoolctl, "threadpool_info", list)
    assert openmp_runtimes() == []


def test_settings_of_loaded_libraries_stay() -> None:
    before = threadpoolctl.threadpool_info()
    openmp_runtimes()
    assert threadpoolctl.threadpool_info() == before


def test_threadpoolctl_and_psutil_are_imported_only_when_needed() -> None:
    loaded = output("-c", finding(
        "import pplconv, pplconv.config, pplconv.machine, pplconv.runtime\n"
        "print(sorted({'psutil', 'threadpoolctl', 'platform'} & set(sys.modules)))"
    ))  # fmt: skip
    numpy_only = output("-c", "import sys, numpy; print('platform' in sys.modules)")
    expected = ["platform"] if numpy_only.strip() == "True" else []
    assert loaded.strip() in (str(expected), "[]")
