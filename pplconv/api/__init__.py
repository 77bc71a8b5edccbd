"""The public face: what users call, and how their arguments become a plan and pointers.

=====================  =========================================================================
``function``           `conv2d`, with its cache of plans
``conv``               `Conv2d`, and its pickles
``ready``              the plans and packed weights that a `Conv2d` has ready
``prepared``           a plan made ready, and one run of it
``border``, ``taps``   outputs at the border, for weights that are infinite or NaN
``blocked``            `to_blocked`, `from_blocked`
``arguments``          checks of arguments; every message names its argument
``settings``           what may be asked of the planner, and its place in pickles
``shapes``             hints where a shape or a size is taken for something else
``activation``         the forms of ``activation=``
``call_signature``     what `inspect.signature` finds on a `Conv2d`
=====================  =========================================================================
"""
