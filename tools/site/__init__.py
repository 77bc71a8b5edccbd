"""What the documentation site is made of besides its pages: `make docs`.

==============  ==================================================================================
`gallery`       the runnable examples, in order
`names`         which names are public, and which the reference lists
`references`    names in docstrings that belong to other projects
`results`       charts of the recorded tables
`front`         the picture of README: ``python -m tools.site.front``
==============  ==================================================================================
"""
