"""What an import says in a source tree where nothing is compiled."""

from __future__ import annotations

from pathlib import Path

__all__ = ["not_built"]


def not_built(error: ModuleNotFoundError) -> ImportError | None:
    """Give the error that explains a missing compiled module; None outside of a source tree."""
    root = Path(__file__).resolve().parent.parent
    missing = error.name or ""
    if not missing.startswith("pplconv.") or not (root / "setup.py").is_file():
        return None
    return ImportError(
        f"pplconv was imported from its source tree, {root}, where {missing} is not compiled. "
        "Start Python in another folder to use the installed package, or compile here: "
        "pip install -e . (some minutes, without a word; -v shows progress)",
        name=missing,
    )
