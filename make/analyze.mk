# Inner loops on models of other cores: llvm-mca, and OSACA where the environment has it.  Nothing is
# installed for it but the package; the tool says which of the system's packages it wants.
.PHONY: analyze-arm analyze-x86

analyze-arm: $(STAMPS)/package ## models of AArch64 cores on the kernels' loops: benchmarks/ANALYSIS.md
	$(BIN)/python -m benchmarks.analysis aarch64 --write $(ARGS)

analyze-x86: $(STAMPS)/package ## the same of x86-64 cores
	$(BIN)/python -m benchmarks.analysis x86_64 --write $(ARGS)
