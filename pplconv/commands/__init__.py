"""Commands: ``python -m pplconv info``, ``doctor``, ``search``, ``profile_command`` and so on.

=====================  =========================================================================
``info``               description of this machine and of the choices for it; also `show_config`
``demo``               a first picture
``doctor``             causes of slowness on this machine, by ``doctoring``
``search``             measured plans of whole networks
``profile_command``    steps of a network, timed, and the page of them
``prune_command``      gain of each layer of a network from pruning
``bench_instances``    splits of the cores into instances of a model
``layer_texts``        layers on command lines and in files
``shape_texts``        shapes of inputs on command lines
=====================  =========================================================================
"""
