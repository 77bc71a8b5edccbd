# Judges the planner's choices by the recorded times of candidates, and of chains in bands:
# benchmarks/measured.
.PHONY: measure-candidates measure-bands judge-model

measure-candidates: $(STAMPS)/extra-bench ## time what could serve each layer here; ARGS="--minutes 12 --threads 1,2 --resume"
	$(BIN)/python -m benchmarks.measure_candidates $(ARGS)

measure-bands: $(STAMPS)/extra-bench ## time chains of layers here, layer by layer and in bands
	$(BIN)/python -m benchmarks.measure_bands $(ARGS)

judge-model: $(STAMPS)/extra-bench ## the present model's choices on all recorded machines; times nothing
	$(BIN)/python -m benchmarks.judge_model $(ARGS)
	$(BIN)/python -m benchmarks.judge_bands
