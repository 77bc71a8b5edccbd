"""Assembly generators for 32-bit Arm: one module per operation, ``generate(kernel) -> str``."""
