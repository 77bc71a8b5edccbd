"""What ``python -m pplconv profile`` measures, and the page that it draws of it.

==================  ============================================================================
``ceilings.py``     FMA peak and speed of memory, measured
``measured.py``     `Profile`: a network's plan with times, by kinds of steps and by layouts
``svg.py``          tags of HTML and SVG, axes, numbers for people
``timeline.py``     steps over time, and the memory that lives then
``roofline.py``     steps under what memory and FMA units allow
``arena.py``        how buffers share the arena
``page.py``         all of it in one file without a script
``style.py``        its style sheet
==================  ============================================================================

Charts have no size of their own: places are parts of the page's width, and text keeps its size.
"""
