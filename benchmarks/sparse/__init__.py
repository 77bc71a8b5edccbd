"""Sparse weights beside dense ones and the peers: ``python -m benchmarks.sparse --help``.

``layers.py`` prunes the weights and computes the expected results; ``measured.py`` holds the
measurements of a layer at one density; ``gains.py`` computes speed-ups and the densities where they
begin; ``page.py`` and ``figures.py`` make the tables, ``plot.py`` the chart; ``run.py`` is the
command. Engines are in
``benchmarks.engines.sparse``.
"""
