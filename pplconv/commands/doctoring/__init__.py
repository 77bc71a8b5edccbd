"""Facts that ``python -m pplconv doctor`` reads, and findings from them.

================  ==============================================================================
``facts.py``      `Facts`: everything that is read, at one time, each source replaceable
``loop.py``       a short loop of FMAs, timed by the clock and by the thread's CPU time
``narrow.py``     what products of bfloat16 gain on this CPU, by the estimate
``findings.py``   `Finding`: one line of output each, from facts alone
================  ==============================================================================
"""
