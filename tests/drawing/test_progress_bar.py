"""Bars on terminals, lines in logs, and nothing where nobody looks."""

from __future__ import annotations

import io
import sys

import pytest

from pplconv.drawing import progress_bar
from pplconv.drawing.progress_bar import Progress, late_bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_on_a_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    progress = Progress(stream)
    progress.step(0.5, "half of a very long description of it")
    drawn = stream.getvalue()
    assert drawn.startswith("\r\x1b[K[##########..........] half")
    assert len(drawn) - len("\r\x1b[K") == 39
    progress.update(0.6, "too soon")
    assert stream.getvalue() == drawn
    progress.clear()
    progress.clear()
    assert stream.getvalue() == f"{drawn}\r\x1b[K"


def test_lines_in_a_log():
    stream = io.StringIO()
    progress = Progress(stream)
    progress.step(0.5, "half")
    progress.update(0.6, "more")
    progress.clear()
    assert stream.getvalue() == "half\n"


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("wanted", [None, True, False])
@pytest.mark.parametrize("seconds", [1.9, 2.1])
def test_a_bar_is_drawn_after_two_seconds(monkeypatch, terminal, wanted, seconds):
    stream, times = Terminal() if terminal else io.StringIO(), [100.0]
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress_bar.time, "monotonic", lambda: times[-1])
    with late_bar(wanted) as tell:
        for later in (0.0, seconds):
            times.append(100.0 + later)
            if tell is not None:
                tell(0.5, "half")
        drawn = "half" in stream.getvalue()
    assert drawn == (terminal and wanted is not False and seconds > 2)
    if drawn:
        assert stream.getvalue().endswith("\r\x1b[K")
    else:
        assert not stream.getvalue()


def test_a_bar_needs_a_stream(monkeypatch):
    """There is none under pythonw, for example."""
    monkeypatch.setattr(sys, "stderr", None)
    with late_bar(None) as tell:
        assert tell is None
