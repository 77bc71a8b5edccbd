"""Python code in separate processes, which see this package and nothing of the test runner."""

from __future__ import annotations

import os
import subprocess

from tests.patience import PATIENCE
from tests.programs import finding, started

# A process that hangs dumps its stacks before its parent gives up; its children end by themselves
# before that.
PREAMBLE = f"""
import faulthandler, os, signal, sys, threading, time, warnings
faulthandler.dump_traceback_later({PATIENCE / 2}, exit=True)
CHILD_SECONDS = {int(PATIENCE / 3)}
"""
PREAMBLE += """
import numpy as np
import pplconv
from pplconv.schedules import team

random = np.random.default_rng(1)
x = random.standard_normal((2, 16, 28, 28), dtype=np.float32)
w = random.standard_normal((32, 16, 3, 3), dtype=np.float32)

def os_threads():
    return len(os.listdir("/proc/self/task"))

def eventually(condition):
    '''Wait for a condition; that it never comes true is found as any hang is.'''
    while not condition():
        time.sleep(0.001)

def threads_left(before):
    '''OS threads beyond `before`; a thread that was joined may take a moment to end.'''
    eventually(lambda: os_threads() <= before)
    return os_threads() - before

def forked(body):
    '''Run a function in a forked child; its exit status, negative for a signal.'''
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            signal.alarm(CHILD_SECONDS)  # a child that waits for ever dies of it
            body()
            sys.stdout.flush()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


def start(body: str, **environment: str) -> subprocess.Popen[str]:
    """Start a process that runs `PREAMBLE` and `body`."""
    return started("-c", finding(f"{PREAMBLE}\n{body}"), env={**os.environ, **environment})


def finish(process: subprocess.Popen[str]) -> list[str]:
    """Wait for a process that must succeed; return its lines."""
    try:
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 0, f"{process.returncode}\n{out}\n{err}"
    return out.splitlines()


def run(body: str, **environment: str) -> list[str]:
    """Run a process that must succeed; return its lines."""
    return finish(start(body, **environment))
