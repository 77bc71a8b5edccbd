# Judges the planner's choices by the candidates' recorded times: benchmarks/measured.
.PHONY: measure-candidates judge-model

measure-candidates: $(STAMPS)/extra-bench ## time what could serve each layer here; ARGS="--minutes 12 --threads 1,2 --resume"
	$(BIN)/python -m benchmarks.measure_candidates $(ARGS)

judge-model: $(STAMPS)/extra-bench ## the present model's choices on all recorded machines; times nothing
	$(BIN)/python -m benchmarks.judge_model $(ARGS)
