"""The page of a profile.

==================  ============================================================================
``measured.py``     `Profile`: a network's plan with times, by kinds of steps and by layouts
``timeline.py``     steps over time, and the memory that lives then
``roofline.py``     steps under what memory and FMA units allow
``estimates.py``    the planner's estimates beside what steps took
``arena.py``        how buffers share the arena
``page.py``         all of it in one file without a script
==================  ============================================================================
"""
