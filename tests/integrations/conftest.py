"""Tests of modules whose package is not installed are not collected: `make test-peers` has them.

All networks of these tests run on memory that is filled before (`poisoning`).
"""

from __future__ import annotations

from importlib.util import find_spec

from tests import poisoning

poisoning.install()
collect_ignore_glob = [] if find_spec("torch") else ["test_torch*.py"]
