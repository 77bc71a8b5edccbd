"""Where everything lies."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "arm"
SYSROOT = BUILD / "sysroot"
# Third-party wheels of the build, of the tests and demo, and the package itself.
BUILD_PACKAGES = BUILD / "build-packages"
TEST_PACKAGES = BUILD / "test-packages"
PACKAGE = BUILD / "package"
DIST = BUILD / "dist"
# The emulated Python, and the cross tools under the names that native ones have.
PYTHON = BUILD / "python"
TOOLCHAIN = BUILD / "toolchain"
