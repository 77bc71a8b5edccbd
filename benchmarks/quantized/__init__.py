"""int8 and bfloat16 beside the peers: ``python -m benchmarks.quantized --help``.

``layers.py`` has the data and their exact results; ``ceilings.py`` the loops of each
instruction that multiplies them; ``page.py`` the tables; ``run.py`` the command. Engines are in
``benchmarks.engines.quantized`` and ``benchmarks.engines.bf16``.
"""
