"""Commands: ``python -m pplconv info``, ``doctor``, ``search``, ``profile`` and so on.

=====================  =========================================================================
``info``               what this machine is and what was chosen; also `show_config`
``doctor``             what holds speed back here, by ``doctoring``
``search``             measured plans of whole networks
``profile``            steps of a network, timed, and the page of them
``prune``              what the layers of a network would gain if they were pruned
``bench_instances``    splits of the cores into instances of a model
``layers``             layers on command lines and in files
``progress``           one line of a terminal, written over
=====================  =========================================================================
"""
