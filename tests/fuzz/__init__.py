"""A fuzzer: random calls against float64, one for each seed (``make fuzz``).

``cases`` draws a call from a seed, ``arrays`` lays its arrays out awkwardly, ``exact`` says what
must come of it, ``checking`` makes the call and judges it, ``wisdom_files`` spoils wisdom,
``shrinking`` makes a finding smaller, ``worker`` is the loop of one process, ``command`` the
processes, progress and the figures at the end.
"""
