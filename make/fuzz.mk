.PHONY: fuzz

# The tests' folder alone is on its path, so the installed package is what it runs.
fuzz: $(STAMPS)/extra-test ## random calls against float64; ARGS="--seeds A:B --seconds S --jobs J"
	$(BIN)/python tests/fuzz $(ARGS)
