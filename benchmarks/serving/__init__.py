"""Load on `python -m pplconv serve`: latencies from the due time, capacity, kills.

``python -m benchmarks.serving MODEL --shape x=1x3x48x192``; ``--help`` tells the rest.

================  ================================================================================
``client.py``     requests over kept connections; a load that does not wait for answers
``process.py``    the server's process: started, its processors' time and memory, its workers killed
``weights.py``    the model's file, and the same model with other weights
``pool.py``       instances without a server, for comparison
``run.py``        the measurements, in their order, and the table
================  ================================================================================
"""
