"""Commands: ``python -m pplconv info``, ``search``, ``profile``, ``prune``, ``bench-instances``.

=====================  =========================================================================
``info``               what this machine is and what was chosen; also `show_config`
``search``             measured plans of whole networks
``profile``            steps of a network, timed; a page of them by ``profiling``
``prune``              what the layers of a network would gain if they were pruned
``bench_instances``    splits of the cores into instances of a model
``layers``             layers on command lines and in files
``progress``           one line of a terminal, written over
=====================  =========================================================================
"""
