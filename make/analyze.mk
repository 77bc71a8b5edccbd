# Inner loops on models of other cores: llvm-mca, which is the system's (the tool says in which of its
# packages), and OSACA.
.PHONY: analyze-arm analyze-x86

analyze-arm: $(STAMPS)/extra-analysis ## models of AArch64 cores on the kernels' loops: benchmarks/ANALYSIS.md
	$(BIN)/python -m benchmarks.analysis aarch64 --write $(ARGS)

analyze-x86: $(STAMPS)/extra-analysis ## the same of x86-64 cores
	$(BIN)/python -m benchmarks.analysis x86_64 --write $(ARGS)
