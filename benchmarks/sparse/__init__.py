"""Sparse weights beside dense ones and the peers: ``python -m benchmarks.sparse --help``.

``layers.py`` prunes the weights and says what must come out; ``measured.py`` is what a run knows of
a layer at one density; ``gains.py`` computes speed-ups and where they begin; ``page.py`` and
``figures.py`` make the tables, ``plot.py`` the chart; ``run.py`` is the command. Engines are in
``benchmarks.engines.sparse``.
"""
