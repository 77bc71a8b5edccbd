"""How Sphinx makes the site: `make docs`.

The source folder is the whole project, of which the patterns below take the pages, so that every
page stands where it is read without the site, and its links are checked as they are.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))  # at the end: the installed package comes before the sources

import pplconv  # noqa: E402
from asm.description import repository  # noqa: E402
from tools.site import gallery, references, results  # noqa: E402

project = "pplconv"
author = "The pplconv developers"
copyright = f"2026, {author}"
version = release = pplconv.__version__

root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "asm/README.md",
    "benchmarks/*.md",
    "benchmarks/results/*.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]
exclude_patterns = [
    ".*",
    "build",
    "dist",
    "**/__pycache__",
    "**/.ipynb_checkpoints",
    "docs/_*",
    "benchmarks/report",
    "examples",
    "pplconv",
    "tests",
]
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "numpydoc",
    "sphinx_copybutton",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.mermaid",
]
templates_path = [str(ROOT / "docs" / "_templates")]  # autosummary looks beside the sources

# What the Markdown pages may hold; anchors of headings are GitHub's.
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
# GitHub draws such fences, too.
myst_fence_as_directive = ["mermaid"]
# A fence without a language is text; `sh` and `console` are not coloured by guesswork.
highlight_language = "none"
pygments_style = "friendly"

# A name in single backticks of a docstring must lead somewhere.
default_role = "py:obj"
nitpicky = True
# Filled by `make docs-links` alone: the build needs no network.
intersphinx_mapping: dict[str, tuple[str, None]] = {}

autosummary_generate = True
autosummary_imported_members = True
autodoc_typehints = "none"  # numpydoc's sections say them in words
autodoc_member_order = "bysource"
autodoc_mock_imports = ["ray", "torch"]
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = gallery.settings(ROOT)

html_theme = "pydata_sphinx_theme"
html_title = "pplconv"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_root"]
html_show_sourcelink = False
html_copy_source = False
# Prompts are not copied, and printed results have no button.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_selector = "div:not(.sphx-glr-script-out) > div.highlight > pre"
html_theme_options = {
    "logo": {"text": f"pplconv {release}"},
    "show_prev_next": True,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "friendly",
    "pygments_dark_style": "github-dark",
}
if address := repository((ROOT / "pyproject.toml").read_text(encoding="utf-8")):
    html_theme_options["icon_links"] = [
        {"name": "repository", "url": address, "icon": "fa-solid fa-code-branch"}
    ]
# Long tables have the whole width.
html_sidebars = {"benchmarks/**": [], "docs/migration": [], "docs/results": []}

linkcheck_anchors = False
linkcheck_timeout = 20


def setup(app: object) -> None:
    """Draw the charts, fill in long tables, and say what a reference outside the project is."""
    results.connect(app)
    references.connect(app)
