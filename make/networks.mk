# Whole networks. They need the peers' environment: onnxruntime gives the expected outputs.
.PHONY: bench-networks

bench-networks: $(STAMPS)/extra-peers ## measure whole networks beside the peers; ARGS="--threads 1,2 --batch 1,8"
	$(BIN)/python -m benchmarks.networks.run --json $(REPORT)/networks.json $(ARGS)
