"""Drawing on pages and in terminals, independent of plans and profiles.

===================  ===========================================================================
``figures.py``       numbers as people read them
``bars.py``          bars of text, as wide as the terminal
``columns.py``       rows of words as columns
``progress_bar.py``  one line of a terminal, overwritten
``svg.py``           tags of HTML and SVG, axes, tables
``style.py``         the style sheet of pages
===================  ===========================================================================

Charts scale with the page: coordinates are percentages of its width, and text keeps its size.
"""
