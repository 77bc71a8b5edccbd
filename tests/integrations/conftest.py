"""Tests of modules whose package is not installed are not collected: `make test-peers` has them."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["test_torch*.py"]
