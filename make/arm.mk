# Arm under emulation, without an Arm machine; see tools/arm/__init__.py.  All that it makes lies in
# build/arm (AArch64) and build/arm32, where a second run finds it.

.PHONY: arm-tools test-arm test-arm32 demo-arm

# Emulation takes hours for the whole suite on five CPUs: each runs another share of it.
ONE_IN ?= 32

arm-tools: $(STAMPS)/extra-arm ## what `make test-arm` needs from elsewhere: emulator, compiler, sysroot
	$(BIN)/python -m tools.arm tools

test-arm: $(STAMPS)/extra-arm ## one test in ONE_IN=32, or of ARGS="tests/...", on each of five emulated AArch64 CPUs
	$(BIN)/python -m tools.arm test --one-in=$(ONE_IN) $(ARGS)

test-arm32: $(STAMPS)/extra-arm ## the same on each of four emulated 32-bit CPUs
	$(BIN)/python -m tools.arm --target=armv7l test --one-in=$(ONE_IN) $(ARGS)

# The model and the host's side of the comparison come from the normal environment.
demo-arm: $(STAMPS)/extra-arm $(STAMPS)/extra-demo ## the demo on an emulated CPU, compared with this one's
	$(BIN)/python -m tools.arm demo $(ARGS)
