"""Measure whole networks in pplconv and its peers: ``python -m benchmarks.networks.run --help``.

Each engine has a process of its own, restricted to as many CPUs as it has threads; they take turns,
so that only one of them computes at a time.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import options
from benchmarks.networks import engines, models
from benchmarks.networks.cases import TOLERANCE, Bench, Case
from benchmarks.networks.engines import Engine, Unoptimised
from benchmarks.networks.process import choose_cpus
from benchmarks.networks.tables import remarks, tables
from benchmarks.report import Head, conditions
from benchmarks.timing import Settings
from benchmarks.tool import INTERRUPTED, Run, command, new_parser
from examples.models.progress import Progress as Steps
from examples.models.published import ModelError, digest

REFERENCE: type[Engine] = Unoptimised
"""The engine whose outputs all others are compared with."""


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.networks.run", __doc__)
    parser.add_argument(
        "--models", type=options.words, default=[], help=f"some of {','.join(models.NETWORKS)}"
    )
    options.add_engines(parser, engines.ENGINES)
    options.add_threads(parser)
    options.add_batch(parser)
    options.add_timing(parser, rounds=10, min_seconds=0.2)
    options.add_cache(parser)
    options.add_output(parser)
    return parser


@command(_parser)
def main(run: Run) -> int:
    """Measure, and give the exit status: 1 if an answer of pplconv was wrong."""
    parser, chosen = run.parser, run.chosen
    with run.refusing():
        networks = models.select(chosen.models)
        wanted = engines.select(chosen.engines)
        cpus = {threads: choose_cpus(threads) for threads in chosen.threads}
    present, absent = usable(wanted)
    if not present:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in absent.items())
        parser.error(f"none of the engines can be used: {reasons}")
    want(REFERENCE, parser)
    try:
        steps = Steps(sys.stderr)
        paths = models.obtain(list(networks.values()), cache_folder(chosen.cache), steps)
        steps.close()
        digests = {path: digest(path) for path in paths}
    except KeyboardInterrupt:
        return INTERRUPTED
    except (ModelError, OSError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    settings = Settings(chosen.rounds, chosen.min_ms, settle_seconds=options.SETTLE_SECONDS)
    cases = [
        (Case(name, network, digests[path], batch, threads), path)
        for threads in chosen.threads
        for batch in chosen.batch
        for (name, network), path in zip(networks.items(), paths, strict=True)
    ]
    bench = Bench(present, REFERENCE, settings)
    done = measure(run, bench, cases, cpus)
    head = run.head(_method(settings), notes=remarks(done), more=described(wanted, absent))
    ours = [engine.name for engine in present if engine.ours]
    made = tables(done, [engine.name for engine in present], ours)
    status = run.publish(head, made, plain(head, done, wanted, absent))
    return status or int(
        any(
            entry.status == "wrong"
            for case in done
            for name, entry in case.entries.items()
            if name in ours
        )
    )


def usable(wanted: Sequence[type[Engine]]) -> tuple[list[type[Engine]], dict[str, str]]:
    """Give the engines that can be used, and why each of the others cannot."""
    absent = {engine.name: engine.missing() for engine in wanted if engine.missing()}
    return [engine for engine in wanted if engine.name not in absent], absent


def want(reference: type[Engine], parser: argparse.ArgumentParser) -> None:
    """End the process where there is no reference."""
    if without := reference.missing():
        parser.error(f"answers cannot be checked: {without}")


def cache_folder(given: Path | None) -> Path:
    """Give the folder that keeps models: the one that was asked for, or the user's."""
    if given is not None:
        return given.absolute()
    import platformdirs

    return Path(platformdirs.user_cache_path("pplconv"))


def measure(
    run: Run, bench: Bench, cases: Sequence[tuple[Case, Path]], cpus: Mapping[int, Sequence[int]]
) -> list[Case]:
    """Measure one case after the other, as steps of a run; give those begun."""
    done: list[Case] = []
    with run.steps(len(cases)) as progress:
        for case, path in cases:
            done.append(case)
            progress.begin(f"{case.name}, {conditions(case.batch, case.threads)}")
            with tempfile.TemporaryDirectory(prefix="networks-") as folder:
                bench.measure(case, path, cpus[case.threads], Path(folder), progress.say)
    return done


def described(wanted: Sequence[type[Engine]], absent: Mapping[str, str]) -> dict[str, str]:
    """Give version and settings of each engine, as lines of the head."""
    return {
        engine.name: (
            f"absent: {absent[engine.name]}"
            if engine.name in absent
            else f"{engine.version()} ({engine.note})"
        )
        for engine in wanted
    }


def _method(settings: Settings) -> str:
    return (
        f"a process an engine, on as many CPUs as threads, in turn; {settings.rounds} rounds in "
        "changing order; a round is the median of runs that last "
        f"{settings.min_seconds * 1e3:g} ms or more together; a turn begins when the threads of "
        "the one before have stopped spinning; ratios are taken inside rounds; outputs within "
        f"{TOLERANCE:g} of the largest value of those of {REFERENCE.distribution} "
        f"{REFERENCE.version()} ({REFERENCE.note}), before and after"
    )


def plain(
    head: Head,
    cases: Sequence[Case],
    wanted: Sequence[type[Engine]],
    absent: Mapping[str, str],
) -> dict[str, object]:
    """Give a run as plain values, for a JSON file."""
    ours = [engine.name for engine in wanted if engine.ours]
    peers = [engine.name for engine in wanted if not engine.ours]
    return {
        **head.plain(),
        "engines": {
            engine.name: {
                "ours": engine.ours,
                "installed": engine.name not in absent,
                "version": "" if engine.name in absent else engine.version(),
                "reason": absent.get(engine.name, ""),
                "note": engine.note,
            }
            for engine in wanted
        },
        "cases": [
            {
                **case.plain(),
                "best_peer": case.best_peer(peers),
                "ratios": {name: case.ratios(name, peers) for name in ours},
            }
            for case in cases
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
