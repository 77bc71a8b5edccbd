"""The style sheet of the page: light and dark, for phones and wide screens."""

from __future__ import annotations

# Colours that are distinct for colour-blind readers, too, in the order of assignment.
_LIGHT = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b08900", "#5b5bd6", "#4d9fd6", "#7a7d85")
_DARK = ("#56b4e9", "#ff8c42", "#2fc99a", "#e79fc8", "#e0c04a", "#a5a5ff", "#2f86bd", "#9a9da5")


def _series(colours: tuple[str, ...]) -> str:
    return " ".join(f"--c{number}: {colour};" for number, colour in enumerate(colours))


_KINDS = "\n".join(
    f".k{number} {{ fill: var(--c{number}); stroke: var(--c{number}); "
    f"background: var(--c{number}); }}"
    for number in range(len(_LIGHT))
)

STYLE = f"""
:root {{
  color-scheme: light dark;
  --paper: #ffffff; --ink: #1c1c1e; --faint: #5f6168; --line: #e2e2e6; --stripe: #f6f6f8;
  --lane: #f1f1f4; --live: #0072b2; {_series(_LIGHT)}
}}
@media (prefers-color-scheme: dark) {{
  :root {{
    --paper: #16181d; --ink: #e8e8ea; --faint: #a3a6ad; --line: #2e323b; --stripe: #1c1f26;
    --lane: #20242c; --live: #56b4e9; {_series(_DARK)}
  }}
}}
* {{ box-sizing: border-box; }}
body {{
  margin: 0 auto; padding: 1.5rem; max-width: 84rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
}}
h1 {{ font-size: 1.6rem; line-height: 1.25; margin: 0 0 0.25rem; overflow-wrap: anywhere; }}
h2 {{ font-size: 1.2rem; margin: 2.75rem 0 0.5rem; }}
p {{ max-width: 62rem; margin: 0.25rem 0 0.9rem; color: var(--faint); overflow-wrap: anywhere; }}
.figures {{
  display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: 0.6rem;
  margin: 1.25rem 0 0; padding: 0;
}}
.figures div {{ background: var(--stripe); border-radius: 0.5rem; padding: 0.55rem 0.8rem; }}
.figures dt {{ color: var(--faint); font-size: 13px; }}
.figures dd {{ margin: 0; font-size: 1.15rem; font-weight: 600; }}
.figures small {{ display: block; color: var(--faint); font-size: 12.5px; font-weight: 400; }}
.chart {{ display: block; overflow: visible; margin: 0.75rem 0 1.25rem; font-size: 12.5px; }}
.chart text {{
  fill: var(--ink); font-variant-numeric: tabular-nums;
  paint-order: stroke; stroke: var(--paper); stroke-width: 3px;
}}
.chart .axis {{ fill: var(--faint); }}
.start {{ text-anchor: start; }} .middle {{ text-anchor: middle; }} .end {{ text-anchor: end; }}
.frame {{ fill: none; stroke: var(--line); }}
.grid {{ stroke: var(--line); }}
.lane {{ fill: var(--lane); }}
.roof {{ stroke: var(--ink); stroke-width: 1.4px; }}
.live {{ fill: var(--live); fill-opacity: 0.35; }}
{_KINDS}
.group {{ fill: var(--ink); fill-opacity: 0.07; stroke: var(--ink); stroke-dasharray: 4 3; }}
.step {{ stroke-width: 0.4px; }}
.term {{ stroke: none; fill-opacity: 0.8; }}
.took {{ stroke: var(--ink); stroke-width: 2.4px; }}
.step:hover, .term:hover, .point:hover, .buffer:hover {{ fill: var(--ink); fill-opacity: 1; }}
.point {{ fill-opacity: 0.55; stroke-width: 1.2px; }}
.buffer {{ stroke: var(--paper); stroke-width: 0.6px; fill-opacity: 0.75; }}
.t0 {{ fill: var(--c0); }} .t1 {{ fill: var(--c2); }}
.t2 {{ fill: var(--c4); }} .t3 {{ fill: var(--c3); }}
.key {{
  display: flex; flex-wrap: wrap; gap: 0.2rem 1.1rem; margin: 0; padding: 0; list-style: none;
  font-size: 13.5px;
}}
.key i {{
  display: inline-block; width: 0.75em; height: 0.75em; border-radius: 50%; margin-right: 0.4em;
}}
.table {{ overflow-x: auto; margin: 0 0 0.5rem; }}
table {{ border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }}
th, td {{ padding: 0.2rem 0.65rem; text-align: right; white-space: nowrap; font-weight: 400; }}
thead th {{ color: var(--faint); border-bottom: 1px solid var(--faint); }}
tbody tr:nth-child(even) td {{ background: var(--stripe); }}
th.words, td.words {{ text-align: left; }}
td b {{ display: inline-block; height: 0.7em; margin-right: 0.5em; vertical-align: -0.03em; }}
@media (max-width: 40rem) {{ body {{ padding: 1rem; }} }}
"""
