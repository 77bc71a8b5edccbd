"""Parts of the documentation site besides its pages: `make docs`.

==============  ==================================================================================
`gallery`       the runnable examples, in order
`names`         public names, and names that the reference lists
`references`    names in docstrings without a page of their own
`results`       charts of the recorded tables
`front`         README's picture: ``python -m tools.site.front``
==============  ==================================================================================
"""
