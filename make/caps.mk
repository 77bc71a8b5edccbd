# The suite as machines with fewer instruction sets run it.  `PPLCONV_MAX_ISA=avx2 make test-all` is
# all of it; this is a share of the fast tier under each lower cap: the same tests in the same order
# with the same numbers each time, so that only a change can turn it red.
.PHONY: test-caps

CAPS_ONE_IN ?= 2
# Rooms that say nothing about a CPU say nothing about a cap: those left out under emulation, but for
# random calls, which are only too slow there.
NO_CPU = $(if $(filter tests,$(TESTS)),$(shell $(BIN)/python -c 'import sys; \
	sys.path.append("tests"); from emulation import ROOMS; \
	print(*(f"--ignore=tests/{name}" for name in ROOMS if name != "fuzz"))'))
# Files that have tests of narrow types: each worker of each run would collect all others in vain.
NARROW_TESTS = $(or $(shell grep -rl --include='test_*.py' 'pytest\.mark\.narrow' $(TESTS)),$(TESTS))
FIXED_SEEDS := --tier-seed=1 --randomly-seed=1 --hypothesis-seed=1 --hypothesis-profile=quick

test-caps: $(STAMPS)/extra-test ## one test in CAPS_ONE_IN=2 of the fast tier, under each lower PPLCONV_MAX_ISA that this machine has
	@caps=$$($(BIN)/python tests/lower_caps.py) || exit 1; for cap in $$caps; do \
		echo "PPLCONV_MAX_ISA=$$cap"; \
		PPLCONV_MAX_ISA=$$cap $(BIN)/pytest -n auto -q --tier=fast --unnamed \
			--one-in=$(CAPS_ONE_IN) $(FIXED_SEEDS) $(NO_CPU) $(TESTS) $(ARGS) || exit 1; \
	done
	@# All others would run as they do under another cap, or without one.
	@caps=$$($(BIN)/python tests/lower_caps.py narrow) || exit 1; for cap in $$caps; do \
		echo "PPLCONV_MAX_ISA=$$cap, tests of narrow types"; \
		PPLCONV_MAX_ISA=$$cap $(BIN)/pytest -n auto -q -m narrow --tier=fast --unnamed \
			$(FIXED_SEEDS) $(NARROW_TESTS) $(ARGS) || exit 1; \
	done
