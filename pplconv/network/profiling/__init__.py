"""The page of a profile.

==================  ============================================================================
``measured.py``     `Profile`: a network's plan with times, by kinds of steps and by layouts
``timeline.py``     steps over time, and the memory in use
``roofline.py``     steps under the roofs of memory and FMA units
``estimates.py``    the planner's estimates beside measured times
``arena.py``        how buffers share the arena
``page.py``         the page: one HTML file without scripts
==================  ============================================================================
"""
