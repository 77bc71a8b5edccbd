"""Tests, one room (folder) for each part of the project, and the helpers that they share.

The tests are a package, so that a helper has one name everywhere: ``tests.patience``,
``tests.api.problems``. Modules beside the rooms are helpers of all rooms.
"""
