"""Assembly generators for x86-64: one module per operation, ``generate(kernel) -> str``."""
