# AArch64 under emulation, without an Arm machine; see tools/arm/__init__.py.  All that it makes
# lies in build/arm, where a second run finds it.

.PHONY: test-arm demo-arm

# The model and the host's side of the comparison come from the normal environment.
test-arm: $(STAMPS)/extra-arm ## the suite, or ARGS="tests/...", on five emulated AArch64 CPUs
	$(BIN)/python -m tools.arm test $(ARGS)

demo-arm: $(STAMPS)/extra-arm $(STAMPS)/extra-demo ## the demo on an emulated CPU, compared with this one's
	$(BIN)/python -m tools.arm demo $(ARGS)
