"""Tests of the pause of Python's garbage collector."""

import gc
import os
import threading

import pytest

from pplconv.runtime import paused_collector
from tests.patience import PATIENCE


@pytest.fixture(autouse=True)
def _restored():
    was_on = gc.isenabled()
    gc.enable()
    yield
    assert gc.isenabled()
    if not was_on:
        gc.disable()


def test_it_is_off_inside_and_on_again_outside():
    with paused_collector:
        assert not gc.isenabled()
        with paused_collector:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_is_on_again_after_an_error():
    with pytest.raises(KeyError), paused_collector:
        raise KeyError
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off():
    gc.disable()
    with paused_collector:
        assert not gc.isenabled()
    assert not gc.isenabled()
    gc.enable()


def test_the_last_thread_that_leaves_turns_it_on():
    entered, leave = threading.Event(), threading.Event()

    def hold():
        with paused_collector:
            entered.set()
            assert leave.wait(PATIENCE)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert entered.wait(PATIENCE)
        with paused_collector:
            pass
        assert not gc.isenabled()
    finally:
        leave.set()
        thread.join()
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_child_does_not_wait_for_threads_of_its_parent():
    entered, leave = threading.Event(), threading.Event()

    def hold():
        with paused_collector:
            entered.set()
            assert leave.wait(PATIENCE)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert entered.wait(PATIENCE)
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
        assert os.waitpid(child, 0)[1] == 0
        with paused_collector:
            child = os.fork()
            if child == 0:
                inside = gc.isenabled()
                paused_collector.__exit__(None, None, None)
                os._exit(0 if not inside and gc.isenabled() else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        leave.set()
        thread.join()
