"""The runnable examples: in which order they stand, and how they are run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# From the first minute to the special cases.
EXAMPLES = (
    "image_filter",
    "separable_blur",
    "filter_bank",
    "conv_layer",
    "network",
    "threads_and_pools",
    "quantized_layer",
    "pruned_layer",
)


def settings(root: Path) -> dict[str, Any]:
    """Give what sphinx-gallery is told."""
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
    """Give the place of a file of an example."""
    return EXAMPLES.index(Path(name).stem)
