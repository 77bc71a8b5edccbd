"""Assembly generators for AArch64: one module per operation, ``generate(kernel) -> str``."""
