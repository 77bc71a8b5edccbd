"""Several instances of a model in one program."""
