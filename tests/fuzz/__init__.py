"""A fuzzer: random calls against float64, or exact integers, one for each seed (``make fuzz``).

``cases`` draws a call from a seed: of a kind that ``case`` describes, convolutions
(``conv_cases``), those of bytes (``byte_cases``), filters of images (``image_cases``), both judged
bit for bit, or products of matrices (``matrix_cases``), with what is wrong with it (``refusals``,
and one such module for each kind).
``draws``, ``zeros`` and ``special`` are what kinds draw from. ``arrays`` lays arrays out awkwardly,
``exact`` says what must come of a call, ``checking`` makes the call and judges it,
``wisdom_files`` spoils wisdom, ``shrinking`` makes a finding smaller, ``worker`` is the loop of one
process, ``command`` the processes, progress and the figures at the end.
"""
