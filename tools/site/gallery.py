"""The runnable examples: their order, and sphinx-gallery's settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# From the first steps to special cases.
EXAMPLES = (
    "image_filter",
    "separable_blur",
    "filter_bank",
    "conv_layer",
    "network",
    "server",
    "threads_and_pools",
    "quantized_layer",
    "pruned_layer",
)


def settings(root: Path) -> dict[str, Any]:
    """Give sphinx-gallery's settings."""
    return {
        "examples_dirs": [str(root / "examples")],
        "gallery_dirs": [str(root / "docs" / "gallery")],
        "filename_pattern": r"\.py$",
        "within_subsection_order": "tools.site.gallery.place",
        "backreferences_dir": "docs/reference/generated/examples",
        "doc_module": ("pplconv",),
        "abort_on_example_error": True,
        "download_all_examples": False,
        "show_signature": False,
        "write_computation_times": False,
        "min_reported_time": 60,
        "remove_config_comments": True,
        "capture_repr": (),
    }


def place(name: str) -> int:
    """Give the position of an example."""
    return EXAMPLES.index(Path(name).stem)
