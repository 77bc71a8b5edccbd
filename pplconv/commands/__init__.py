"""Commands: ``python -m pplconv info``, ``doctor``, ``search``, ``profile_command`` and so on.

=====================  =========================================================================
``info``               what this machine is and what was chosen; also `show_config`
``doctor``             what holds speed back here, by ``doctoring``
``search``             measured plans of whole networks
``profile_command``    steps of a network, timed, and the page of them
``prune_command``      what the layers of a network would gain if they were pruned
``bench_instances``    splits of the cores into instances of a model
``layer_texts``        layers on command lines and in files
``progress_bar``       one line of a terminal, written over
=====================  =========================================================================
"""
