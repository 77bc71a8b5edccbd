"""What `make` runs and users do not get."""
