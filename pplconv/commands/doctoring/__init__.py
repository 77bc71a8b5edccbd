"""What ``python -m pplconv doctor`` looks at, and what it makes of it.

================  ==============================================================================
``facts.py``      `Facts`: all that is looked at, read at once, each source replaceable
``loop.py``       a short loop of FMAs, timed by the clock and by what the thread was given
``findings.py``   `Finding`: a line each, from facts alone
================  ==============================================================================
"""
