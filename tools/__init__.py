"""Tools that `make` runs; they are not part of the package."""
