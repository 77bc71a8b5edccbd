"""The public face: what users call, and how their arguments become a plan and pointers.

=====================  =========================================================================
``conv``               `conv2d` and `Conv2d`, with their caches of plans and packed weights
``prepared``           a plan made ready, and one run of it
``blocked``            `to_blocked`, `from_blocked`
``arguments``          checks of arguments; every message names its argument
``shapes``             hints where a shape or a size is taken for something else
``activation``         the forms of ``activation=``
``call_signature``     what `inspect.signature` finds on a `Conv2d`
=====================  =========================================================================
"""
