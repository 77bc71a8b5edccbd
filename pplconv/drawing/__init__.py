"""What plans and profiles are drawn with, on pages and in terminals; it knows nothing of them.

===============  ===============================================================================
``figures.py``   numbers as people read them
``bars.py``      bars of text, as wide as the terminal
``svg.py``       tags of HTML and SVG, axes, tables
``style.py``     the style sheet of pages
===============  ===============================================================================

Charts of pages have no size of their own: places are parts of the page's width, and text keeps its
size.
"""
