.PHONY: fuzz

# The tests' folder alone is on its path, so the installed package is what it runs.
fuzz: $(STAMPS)/extra-test ## random calls against float64 or exact integers; ARGS="--seeds A:B --seconds S --jobs J"
	$(BIN)/python tests/fuzz $(ARGS)

.PHONY: fuzz-models

fuzz-models: $(STAMPS)/extra-test ## mutants of ONNX files, none of which may end a process; ARGS="--seeds A:B --jobs J"
	$(BIN)/python tests/network/model_fuzz.py $(ARGS)
