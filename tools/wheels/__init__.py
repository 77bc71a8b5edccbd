"""Release files: an sdist, and a wheel of it for each Python that can be had here.

``make wheels`` calls it. Every wheel is built of the sdist alone, twice where that is asked for,
and repaired by auditwheel. That brings in libgomp, says so in an SBOM (PEP 770), and names the
oldest manylinux that the wheel runs on. Then it computes in an environment that holds nothing else.
"""
