"""Tests, a room for each part of the project, and the helpers that they share.

A package, so that a helper has one name everywhere: ``tests.patience``, ``tests.api.problems``.
Beside the rooms are helpers of all of them.
"""
