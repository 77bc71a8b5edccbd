"""Many processes on one file: concurrent, killed, forked, out of room."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from pplconv.wisdom import wisdom_files
from pplconv.wisdom.document import parse
from pplconv.wisdom.store import Store
from tests.patience import PATIENCE, eventually
from tests.wisdom.wisdom_case import entry, finish, fresh, key, start

pytestmark = pytest.mark.unemulated("starts dozens of processes, each seconds of emulation")

WRITE_MANY = """
import time
from tests.wisdom.wisdom_case import entry, key
from pplconv.wisdom.store import Store
path, process, go = sys.argv[1], int(sys.argv[2]), sys.argv[3]
import os, warnings
warnings.simplefilter("error")
found = Store(path)
while not os.path.exists(go):
    time.sleep(0.001)
for i in range(25):
    found.add({key(process * 100 + i): entry(), key(1000): entry(process + 1)})
"""


def test_concurrent_writers_lose_nothing(path: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    processes = [start(WRITE_MANY, path, number, go) for number in range(4)]
    go.touch()

    def ended() -> bool:
        """Return whether all have ended; until then a reader finds a whole file, or none yet."""
        if path.exists():
            assert parse(path.read_bytes())[1] == 0
        return all(process.poll() is not None for process in processes)

    eventually(ended, "the end of all processes")
    for process in processes:
        assert finish(process) == []
    found = fresh(path)
    assert set(found) == {key(p * 100 + i) for p in range(4) for i in range(25)} | {key(1000)}
    assert set(found[key(1000)].teams) == {1, 2, 3, 4}
    assert sorted(item.name for item in path.parent.iterdir()) == [
        "wisdom.json",
        "wisdom.json.lock",
    ]


DIE_AT = """
import os, signal
from tests.wisdom.wisdom_case import entry, key
from pplconv.wisdom import wisdom_files
from pplconv.wisdom.store import Store
path, stage = sys.argv[1:]
found = Store(path)
found.add({key(0): entry()})
original = getattr(os, stage.split()[-1])

def die(*arguments):
    if stage.startswith("half"):
        original(arguments[0], arguments[1][: len(arguments[1]) // 2])
    elif stage.startswith("after"):
        original(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(os, stage.split()[-1], die)
found.add({key(1): entry()})
"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "stage",
    ["before write", "half write", "after write", "after fsync", "before replace", "after replace"],
)
def test_killed_while_writing(path: Path, stage: str) -> None:
    finish(start(DIE_AT, path, stage), -signal.SIGKILL)
    data = path.read_bytes()
    written = {key(0), key(1)} if stage == "after replace" else {key(0)}
    assert (set(parse(data)[0]), parse(data)[1]) == (written, 0)
    left = list(path.parent.glob(".*.tmp"))
    assert len(left) == (stage != "after replace")
    # The lock ended with its holder, and leftover files are removed once they are old.
    for item in left:
        os.utime(item, (0, 0))
    Store(str(path)).add({key(2): entry()})
    assert set(fresh(path)) == written | {key(2)}
    assert not list(path.parent.glob(".*.tmp"))


WRITE_ON = """
from tests.wisdom.wisdom_case import entry, key
from pplconv.wisdom.store import Store
found = Store(sys.argv[1])
for i in range(4000):
    found.add({key(i): entry()})
    print(i, flush=True)
"""


def test_killed_at_any_moment(path: Path, rng: np.random.Generator) -> None:
    """Every entry that a process reports as added is in the file when it dies."""
    process = start(WRITE_ON, path)
    assert process.stdout is not None
    done = [int(process.stdout.readline()) for _ in range(rng.integers(1, 60))]
    process.kill()
    done += [int(line) for line in process.stdout.read().split("\n")[:-1]]
    process.wait(PATIENCE)
    process.stdout.close()
    assert process.stderr is not None
    process.stderr.close()
    found, dropped = parse(path.read_bytes())
    assert dropped == 0
    assert len(found) in (len(done), len(done) + 1)
    assert {key(i) for i in done} <= set(found)


FORK = """
import os, threading, time, warnings
warnings.simplefilter("error")
from tests.wisdom.wisdom_case import entry, key
from pplconv import wisdom
from pplconv.wisdom import wisdom_files

def remember(number):
    wisdom.remember(key(number), {"algorithm": "direct"}, 1, {}, 1.0)

stop = threading.Event()
def busy(number):
    while not stop.is_set():
        remember(number)
        wisdom.remember(key(number), {"algorithm": "im2col"}, 1, {}, 1.0)

remember(0)
threads = [threading.Thread(target=busy, args=(1000 + i,)) for i in range(3)]
for thread in threads:
    thread.start()
children = []
for i in range(1, 21):
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            assert not wisdom_files._held
            assert wisdom.lookup(key(0)) is not None
            remember(i)
            assert wisdom.lookup(key(i)) is not None
            status = 0
        finally:
            os._exit(status)
    children.append(pid)
    time.sleep(0.002)
stop.set()
for pid in children:
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
for thread in threads:
    thread.join()
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_while_other_threads_write(named: Path) -> None:
    """No child waits for a lock of a thread that it does not have, and none loses an entry."""
    assert finish(start(FORK)) == ["done"]
    assert {key(i) for i in range(21)} <= set(fresh(named))


OUT_OF_ROOM = """
import resource
from tests.wisdom.wisdom_case import caught, entry, key
from pplconv.wisdom.store import Store
found = Store(sys.argv[1])
found.add({key(0): entry()})
limit = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (600, limit[1]))
with caught() as texts:
    for i in range(1, 4):
        found.add({key(i): entry()})
assert len(found.entries()) == 4
resource.setrlimit(resource.RLIMIT_FSIZE, limit)
print(*texts, sep="\\n")
print(len(Store(sys.argv[1]).entries()))
found.add({key(4): entry()})
print(len(Store(sys.argv[1]).entries()))
"""


def test_no_room_in_earnest(path: Path) -> None:
    """The system itself refuses to make the file longer."""
    assert finish(start(OUT_OF_ROOM, path)) == [
        f"{path} cannot be written (File too large): wisdom is kept in memory only",
        "1",
        "5",
    ]
    assert not list(path.parent.glob(".*.tmp"))


def test_a_lock_file_left_behind_holds_nobody_up(path: Path) -> None:
    path.parent.mkdir()
    path.with_name("wisdom.json.lock").write_text("left by somebody")
    Store(str(path)).add({key(): entry()})
    assert set(fresh(path)) == {key()}
    assert not wisdom_files._held
