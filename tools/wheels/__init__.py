"""Release files: an sdist, and a wheel from it for each available Python.

``make wheels`` calls it. Every wheel is built from the sdist alone, twice if requested, and
repaired by auditwheel, which adds libgomp, records it in an SBOM (PEP 770), and names the oldest
manylinux that the wheel runs on. Then the wheel is tested in an environment with nothing else.
"""
