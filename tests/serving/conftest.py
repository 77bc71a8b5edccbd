"""All networks of these tests run on memory that is filled before (`poisoning`)."""

from __future__ import annotations

from tests import poisoning

poisoning.install()
